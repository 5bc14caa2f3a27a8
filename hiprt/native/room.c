#include "room.h"

#include <stdlib.h>

#include "status.h"

#define FIRST_BYTES 2048 /* of an array with its first items */

int hiprt_room_grow(void **items, size_t count, size_t more, size_t *room, size_t size, const char *call) {
  size_t wanted = *room ? *room * 2 : FIRST_BYTES / size + 1;
  while (wanted < count + more) wanted *= 2;
  void *grown = realloc(*items, wanted * size);
  if (!grown) return hiprt_fail(HIPRT_E_MEMORY, call, 0);
  *items = grown;
  *room = wanted;
  return 0;
}
