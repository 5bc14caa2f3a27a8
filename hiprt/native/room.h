/* Room: arrays that grow as items are put behind those that are there.
 *
 * Who keeps an array keeps its number of items and its room beside it, and frees it by free(). All zeros is an empty array. */
#pragma once
#include <stddef.h>

/* Move an array to where there is room for `more` items of `size` bytes behind `count`; `call` is named where memory runs
 * out, and the array stays as it is then. Return 0 or HIPRT_E_MEMORY. */
int hiprt_room_grow(void **items, size_t count, size_t more, size_t *room, size_t size, const char *call);

/* Have room for `more` items; see hiprt_room_grow. */
static inline int hiprt_room(void **items, size_t count, size_t more, size_t *room, size_t size, const char *call) {
  return count + more <= *room ? 0 : hiprt_room_grow(items, count, more, room, size, call);
}
