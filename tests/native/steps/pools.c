/* Pools of memory in the order of streams. */
#include "gate.h"

static hiprt_block *allocate(hiprt_pool *pool, const lane *l, uint64_t nbytes) {
  hiprt_block *block;
  CHECK(!hiprt_pool_allocate(pool, l->stream, nbytes, &block) && block->nbytes >= nbytes && !(block->address % 256));
  return block;
}

/* A pool gives memory out in the order of the streams, within its limit, and back to HIP. */
static void pools(const lane *l) {
  enum { LIMIT = 4096 };
  hiprt_pool *pool;
  hiprt_block *block, *other_block;
  hiprt_pool_stats stats;
  uint64_t given;
  lane other;
  open_lane(&other);
  CHECK(hiprt_pool_create(1000, 0, &pool) == HIPRT_E_ARGUMENT && !pool);
  CHECK(!hiprt_pool_create(0, LIMIT, &pool));
  block = allocate(pool, l, 1000);
  const uint64_t first = block->address;
  hiprt_pool_count(pool, &stats);
  CHECK(block->nbytes == 1024 && stats.allocated == 1024 && stats.reserved == 1024 && stats.chunks == 1);
  CHECK(hiprt_pool_allocate(pool, l->stream, LIMIT, &other_block) == HIPRT_E_LIMIT && !other_block);
  CHECK(hiprt_pool_allocate(pool, l->stream, UINT64_MAX, &other_block) == HIPRT_E_LIMIT);
  /* The stream itself has it again at once; another one not before the stream is done with it. */
  volatile uint32_t *const gate = hold(l);
  hiprt_pool_free(pool, block);
  block = allocate(pool, l, 1000);
  CHECK(block->address == first);
  hiprt_pool_free(pool, block);
  other_block = allocate(pool, &other, 1000);
  CHECK(other_block->address != first);
  hiprt_pool_count(pool, &stats);
  CHECK(stats.retiring == 1024 && stats.reserved == 2048 && stats.peak == 1024);
  let_go(l, gate);
  block = allocate(pool, &other, 1000);
  CHECK(block->address == first);
  /* Where the limit is reached, it is waited for. */
  hiprt_pool_free(pool, block);
  hiprt_pool_free(pool, other_block);
  CHECK(!hiprt_pool_trim(pool, &given) && given == 2048);
  block = allocate(pool, l, LIMIT);
  const uint64_t whole = block->address;
  hiprt_pool_free(pool, block);
  block = allocate(pool, &other, LIMIT);
  CHECK(block->address == whole);
  hiprt_pool_leave(pool, other.stream);
  close_lane(&other);
  CHECK(!hiprt_pool_trim(pool, &given) && !given);
  hiprt_pool_free(pool, block);
  block = allocate(pool, l, LIMIT);
  hiprt_pool_release(pool);
  hiprt_pool_free(pool, block);
}

int main(void) {
  lane l;
  start(&l);
  pools(&l);
  finish(&l);
  puts("ok");
  return 0;
}
