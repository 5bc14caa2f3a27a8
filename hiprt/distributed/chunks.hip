// What the ranks put together of large arrays, in one kernel on each: every rank writes chunks of its numbers into memory of
// every other rank, and then a word that names the round. A thread has up to PIECES pieces of 16 bytes on their way at a time.
// A block uses two places in turn: chunks of round n + 2 are written after the words of round n + 1 have come, which their
// writers wrote after they had taken the chunks of round n. words.hip, which stands before this, says the rest. `n` is a
// multiple of the numbers of a piece, and where arrays are ALIGNED they are read and written in pieces.
constexpr uint MANY = 16 / sizeof(T);  // numbers of a piece
typedef pack<T, MANY> piece;
const uint pieces = n / MANY, step = threadgroups_per_grid.x * threads;
const auto chunk_of = [&](uint to, ulong turn, uint from) {
  return (device piece*)(bases[to] + numbers_of_chunks) + ((turn * RANKS + from) * blocks + block) * PIECES * PLACES + lane;
};
// What a thread has written, or seen, all ranks see before what it writes afterwards.
const auto fence = []() {
#if HIPRT_TARGET_CPU
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#elif HIPRT_TARGET_AMD
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
#else
  __threadfence_system();
#endif
};
uint round = rounds[block];
for (uint first = 0; first < pieces; first += step * PIECES) {
  const ulong turn = ++round % 2;
  const auto at = [&](uint i) { return first + i * step + block * threads + lane; };
  piece mine[PIECES] = {};
#pragma unroll
  for (uint i = 0; i < PIECES; i++) {
    if (at(i) >= pieces) continue;
    if (ALIGNED)
      mine[i] = ((const device piece*)x)[at(i)];
    else
      for (uint j = 0; j < MANY; j++) mine[i].values[j] = x[at(i) * MANY + j];
  }
  // Also in this launch: behind a wait that was given up another rank may still take chunks that lie where these would go.
  const word loss = *known;
  for (uint to = 0; to < RANKS; to++) {
    if (to == rank || loss) continue;
    device piece* const there = chunk_of(to, turn, rank);
#pragma unroll
    for (uint i = 0; i < PIECES; i++) {
      if (at(i) < pieces) there[i * PLACES] = mine[i];
    }
  }
  fence();
  threadgroup_barrier(mem_flags::mem_device);
  if (lane < RANKS && lane != rank) {
    // Read again, since another thread may have seen a loss and have written nothing.
    if (!*known) bases[lane][chunks + (turn * RANKS + rank) * blocks + block] = word(round) << 32;
    const volatile word* const here = bases[rank] + chunks + (turn * RANKS + lane) * blocks + block;
    wait_for(*here, here, round);
  }
  threadgroup_barrier(mem_flags::mem_device);
  fence();
#pragma unroll
  for (uint i = 0; i < PIECES; i++) {
    if (at(i) >= pieces) continue;
    S combined[MANY];
    for (uint j = 0; j < MANY; j++) combined[j] = S(INITIAL(at(i) * MANY + j));
    for (uint from = 0; from < RANKS; from++) {
      const piece its = from == rank ? mine[i] : chunk_of(rank, turn, from)[i * PLACES];
      for (uint j = 0; j < MANY; j++) {
        const S number = S(its.values[j]);
        combined[j] = COMBINE(combined[j], number);
      }
    }
    piece result;
    for (uint j = 0; j < MANY; j++) result.values[j] = T(combined[j]);
    if (ALIGNED)
      ((device piece*)out)[at(i)] = result;
    else
      for (uint j = 0; j < MANY; j++) out[at(i) * MANY + j] = result.values[j];
  }
}
threadgroup_barrier(mem_flags::mem_none);
if (lane == 0) rounds[block] = round;
