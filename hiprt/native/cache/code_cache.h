/* The cache of compiled code: files in a folder, shared by all processes of a user.
 *
 * An entry lies at folder/kind/ab/cdef…, where kind is the provider and abcdef… the key. It is written beside its place
 * and renamed, so that readers see all of it or nothing; whoever reads it holds a shared lock and marks it as used. The
 * folder is bounded: what was not used for the longest time goes first. Files may go at any time, since what is missing
 * is compiled again. The CPU device, which also serves programs without Python, and hiprt.code_cache use these functions;
 * nothing else knows what a key, an entry or the folder is. */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* cffi begin */
#define HIPRT_CACHE_KEY_DIGITS 64
#define HIPRT_CACHE_DEFAULT_MB 1024 /* the bound, unless HIPRT_CACHE_MAX_MB sets another */

/* The platform's cache folder, which HIPRT_CACHE_DIR replaces; NULL when no home is known. The caller frees it. */
char *hiprt_cache_default_folder(void);
/* The hash of texts, each with its length: hexadecimal digits and a zero byte. */
void hiprt_cache_key(uint32_t count, const char *const *texts, const uint64_t *sizes, char *out_key);
/* The content of an entry, which is now the one used last; NULL if it is not there, not whole, or
 * another's. The caller frees it. */
char *hiprt_cache_load(const char *folder, const char *kind, const char *key, uint64_t *out_size);
/* Store an entry; then remove what the folder holds beyond `limit` bytes (0: no bound). Returns 0 or errno. */
int hiprt_cache_store(const char *folder, const char *kind, const char *key, const char *content, uint64_t size,
                      uint64_t limit);
/* What a folder holds. */
void hiprt_cache_measure(const char *folder, uint64_t *out_files, uint64_t *out_bytes);
/* Remove the files that were not used for the longest time until at most `limit` bytes are left. Files that a process
 * has open, or is writing, stay. */
void hiprt_cache_trim(const char *folder, uint64_t limit, uint64_t *out_files, uint64_t *out_bytes);
void hiprt_cache_free(char *memory);
/* cffi end */
#ifdef __cplusplus
}
#endif
