/* Texts that are written piece by piece into a caller's memory, which may be too small.
 *
 * Nothing is kept but in the caller's memory. */
#pragma once
#include <stdint.h>

typedef struct {
  char *out;     /* ends with a zero as far as there is room; NULL: only the size is found */
  uint64_t room; /* bytes at `out` */
  uint64_t size; /* bytes that the text has so far, without the zero */
} hiprt_text;

/* Begin an empty text. */
hiprt_text hiprt_text_begin(char *out, uint64_t room);
/* Append what printf would print. */
void hiprt_text_add(hiprt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Append bytes as one number in hexadecimal, the last byte first, as the device reads them. */
void hiprt_text_add_bytes(hiprt_text *text, const char *bytes, uint32_t count);
/* Append a string as JSON has it, with its quotes. */
void hiprt_text_add_string(hiprt_text *text, const char *string);
