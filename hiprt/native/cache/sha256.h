/* SHA-256 (FIPS 180-4), for the keys and the checksums of the cache of compiled code. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define HIPRT_SHA256_DIGITS 64

typedef struct {
  uint32_t state[8];
  uint8_t pending[64];
  uint64_t length;
} hiprt_sha256;

#ifdef __cplusplus
extern "C" {
#endif
void hiprt_sha256_begin(hiprt_sha256 *hash);
void hiprt_sha256_add(hiprt_sha256 *hash, const void *data, size_t size);
/* Add data with its length, so that neighbouring fields cannot run into each other. */
void hiprt_sha256_field(hiprt_sha256 *hash, const void *data, size_t size);
/* End the hash: HIPRT_SHA256_DIGITS hexadecimal digits and a zero byte. */
void hiprt_sha256_end(hiprt_sha256 *hash, char *out_digits);
#ifdef __cplusplus
}
#endif
