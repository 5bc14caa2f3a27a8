// What the ranks put together, in one kernel on each: every rank writes its numbers into memory of every other rank, waits
// until those of the others have come into its own, and takes them in the order of the ranks, which gives all the same bits.
// COMBINE puts the numbers of all ranks together, beginning with INITIAL. Where SCATTERED is set, each rank takes a part of
// `n` of them. Where GATHERED is set, they become rows of `total` numbers instead, and where ROOTED is set, all ranks take
// those of `root`.
//
// A word of 8 bytes has 4 bytes of numbers and the number of the round that they belong to, so that no fence is needed: a
// word has come when it names the round that is waited for (this is the low-latency protocol of NCCL, "LL"). A block
// counts its own rounds, and uses two places in turn: a word of round n + 2 is written after all words of round n + 1 have
// come, whose writers had taken those of round n. However many threads a launch has, a block has PLACES places.
//
// rounds: how many rounds each block has done. places: where each rank's words lie, [2][RANKS][blocks][PLACES].
// gone: not 0 once a rank has ended, so that nobody waits for it. turns: only orders launches. Else one rank could wait in a
// message or in a collective of some of the ranks, and another one in a sum.
typedef unsigned long long word;
#if HIPRT_TARGET_CPU
int let_others_run() __asm__("sched_yield");  // there may be more ranks than cores
constexpr uint PATIENCE = 1;                  // the threads of a block wait one behind the other
#else
constexpr uint PATIENCE = 1024;  // reads between two of the host's memory, for which all waves queue up
#endif
constexpr uint EACH = 4 / sizeof(T);  // numbers of a word
const uint lane = thread_index_in_threadgroup, threads = threads_per_threadgroup.x;
const uint block = threadgroup_position_in_grid.x;
const uint count = (n + EACH - 1) / EACH;
const ulong at = ulong(block) * PLACES + lane, apart = ulong(blocks) * PLACES;
volatile word* bases[RANKS];
for (uint each = 0; each < RANKS; each++) bases[each] = (volatile word*)places[each];
// The next product, which has long loads before it needs the sum, begins while the one before still ends.
begin_next();
wait_for_inputs();
uint round = rounds[block];
for (uint first = block * threads; first < count; first += threadgroups_per_grid.x * threads) {
  const uint start = (first + lane) * EACH;
  const ulong turn = ulong(++round % 2) * RANKS * apart;
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
    else
      bases[to][turn + rank * apart + at] = word(round) << 32 | its;
  }
#ifdef COMBINE
  S combined[EACH];
  for (uint i = 0; i < EACH; i++) combined[i] = start + i < n ? S(INITIAL) : S(0);
#endif
  // What this block has to send is on its way before any of its threads waits.
  threadgroup_barrier(mem_flags::mem_none);
  for (uint from = 0; from < RANKS; from++) {
    uint its = mine;
    if (from != rank) {
      const volatile word* place = (const volatile word*)places[rank] + turn + from * apart + at;
      word come = *place;
      for (uint tries = 1; uint(come >> 32) != round; tries++) {
        const bool is_alone = tries % PATIENCE == 0 && *(const volatile uint*)gone;
#if HIPRT_TARGET_CPU
        if (tries % 64 == 0) let_others_run();
#endif
        come = *place;
        if (is_alone) break;  // what it had sent before it went has been read
      }
      its = uint(come);
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
