#include "text.h"

#include <stdarg.h>
#include <stdio.h>

hiprt_text hiprt_text_begin(char *out, uint64_t room) {
  if (room) *out = 0;
  return (hiprt_text){out, room, 0};
}

void hiprt_text_add(hiprt_text *text, const char *format, ...) {
  const uint64_t left = text->size < text->room ? text->room - text->size : 0;
  va_list values;
  va_start(values, format);
  const int count = vsnprintf(left ? text->out + text->size : 0, left, format, values);
  va_end(values);
  text->size += count > 0 ? (uint64_t)count : 0;
}

void hiprt_text_add_bytes(hiprt_text *text, const char *bytes, uint32_t count) {
  uint32_t first = count;
  while (first > 1 && !bytes[first - 1]) first--;
  hiprt_text_add(text, "0x%x", first ? (unsigned char)bytes[first - 1] : 0u);
  for (uint32_t i = first; i-- > 1;) hiprt_text_add(text, "%02x", (unsigned char)bytes[i - 1]);
}

void hiprt_text_add_string(hiprt_text *text, const char *string) {
  hiprt_text_add(text, "\"");
  for (; *string; string++) {
    const unsigned char letter = (unsigned char)*string;
    if (letter == '"' || letter == '\\')
      hiprt_text_add(text, "\\%c", letter);
    else if (letter < ' ')
      hiprt_text_add(text, "\\u%04x", letter);
    else
      hiprt_text_add(text, "%c", letter);
  }
  hiprt_text_add(text, "\"");
}
