// What the ranks put together, in one kernel on each: every rank writes its numbers into memory of every other rank, waits
// until those of the others have come into its own, and takes them in the order of the ranks, which gives all the same bits.
// COMBINE puts the numbers of all ranks together, beginning with INITIAL. Where SCATTERED is set, each rank takes a part of
// `n` of them. Where GATHERED is set, they become rows of `total` numbers instead, and where ROOTED is set, all ranks take
// those of `root`.
//
// A block uses two places in turn: a word of round n + 2 is written after all words of round n + 1 have come, whose writers had
// taken those of round n. words.hip, which stands before this, says the rest.
const ulong at = ulong(block) * PLACES + lane;
uint round = rounds[block];
for (uint first = block * threads; first < count; first += threadgroups_per_grid.x * threads) {
  const uint start = (first + lane) * EACH;
  const ulong turn = ulong(++round % 2) * RANKS * apart;
  const word loss = *(const word*)known;  // as earlier kernels left it; it comes together with the numbers
  pack<T, EACH> numbers;
  uint mine = 0;
  for (uint to = 0; to < RANKS; to++) {
#ifdef SCATTERED
    const ulong part = ulong(to) * n;
#else
    const ulong part = 0;
    if (to == 0)
#endif
      for (uint i = 0; i < EACH; i++) numbers.values[i] = start + i < n ? x[part + start + i] : T(0);
    const uint its = as_type<uint>(numbers);
    if (to == rank)
      mine = its;
    else if (!loss)
      bases[to][turn + rank * apart + at] = word(round) << 32 | its;
  }
#ifdef COMBINE
  S combined[EACH];
  for (uint i = 0; i < EACH; i++) combined[i] = start + i < n ? S(INITIAL(start + i)) : S(0);
#endif
  // What this block has to send is on its way before any of its threads waits.
  threadgroup_barrier(mem_flags::mem_none);
  for (uint from = 0; from < RANKS; from++) {
    uint its = mine;
    if (from != rank) {
      const volatile word* place = bases[rank] + turn + from * apart + at;
      its = uint(wait_for(*place, place, round));
    }
    numbers = as_type<pack<T, EACH>>(its);
    for (uint i = 0; i < EACH && start + i < n; i++) {
#ifdef GATHERED
      // The last parts begin earlier where `total` is no multiple of `width`; what a rank before has is its.
      const uint column = (start + i) % width, begin = min(from * width, total - width);
      if (begin + column >= from * width) out[(start + i) / width * total + begin + column] = numbers.values[i];
#elif defined ROOTED
      if (from == root) out[start + i] = numbers.values[i];
#else
      const S number = S(numbers.values[i]);
      combined[i] = COMBINE(combined[i], number);
#endif
    }
  }
#ifdef COMBINE
  for (uint i = 0; i < EACH && start + i < n; i++) out[start + i] = T(combined[i]);
#endif
}
threadgroup_barrier(mem_flags::mem_none);
if (lane == 0) rounds[block] = round;
