#include "touches.h"

#include "recorder_nodes.h"

#define NOWHERE UINT32_MAX

static int reserve(hiprt_recorder *r) {
  return hiprt_room((void **)&r->touches, r->n_touches, 1, &r->touches_capacity, sizeof *r->touches, HIPRT_RECORDER);
}

int hiprt_recorder_touch(hiprt_recorder *r, hiprt_uses *uses, uint32_t access) {
  const uint32_t place = atomic_load_explicit(&uses->place, memory_order_relaxed);
  if (atomic_load_explicit(&uses->recorder, memory_order_relaxed) == r->serial && place < r->n_touches &&
      r->touches[place].uses == uses) {
    r->touches[place].access |= access;
    return 0;
  }
  if (reserve(r)) return HIPRT_E_MEMORY;
  hiprt_uses_retain(uses);
  atomic_store_explicit(&uses->place, (uint32_t)r->n_touches, memory_order_relaxed);
  atomic_store_explicit(&uses->recorder, r->serial, memory_order_relaxed);
  r->touches[r->n_touches++] = (hiprt_touch){uses, access};
  return 0;
}

int hiprt_recorder_set_apart(hiprt_recorder *r, hiprt_uses *uses, int is_shared) {
  uint32_t place = 0;
  while (place < r->n_touches && r->touches[place].uses != uses) place++;
  for (uint32_t i = 0; i < r->n_arguments; i++) is_shared |= r->arguments[i] == place;
  if (hiprt_room((void **)&r->arguments, r->n_arguments, 1, &r->arguments_capacity, sizeof *r->arguments, HIPRT_RECORDER))
    return HIPRT_E_MEMORY;
  if (place == r->n_touches) {
    place = NOWHERE;
  } else if (is_shared) {
    if (reserve(r)) return HIPRT_E_MEMORY;
    hiprt_uses_retain(uses);
    r->touches[r->n_touches] = r->touches[place];
    place = (uint32_t)r->n_touches++;
  }
  r->arguments[r->n_arguments++] = place;
  return 0;
}

uint32_t hiprt_recorder_apart(const hiprt_recorder *r) { return (uint32_t)r->n_arguments; }

void hiprt_recorder_retouch(hiprt_recorder *r, uint32_t argument, hiprt_uses *uses) {
  if (r->arguments[argument] == NOWHERE) return;
  hiprt_uses **place = &r->touches[r->arguments[argument]].uses, *before = *place;
  hiprt_uses_retain(uses);
  *place = uses;
  hiprt_uses_release(before);
}

const hiprt_touch *hiprt_recorder_touches(const hiprt_recorder *r, uint32_t *out_count) {
  *out_count = (uint32_t)r->n_touches;
  return r->touches;
}

int hiprt_recorder_order(const hiprt_recorder *r, hiprt_stream *stream) {
  if (!hiprt_order_is_needed(stream)) return 0;
  int status = hiprt_order_begin(stream, r->touches, (uint32_t)r->n_touches);
  if (!status) hiprt_order_end(stream, r->touches, (uint32_t)r->n_touches);
  return status;
}
