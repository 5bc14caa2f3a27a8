// One rank's half of a message to another: where SENT is set, the numbers go into memory of rank `peer`; else they are taken
// out of this rank's own. Words and rounds are those of exchange.hip, but each pair of ranks counts its own rounds in each
// direction. The other rank answers each word with its round: a word of round n + 2 is written after round n was answered.
//
// places: where each rank's words lie: behind those of exchange.hip, 2 * RANKS * blocks * PLACES words, follow the words of
// messages, [from][2][blocks][PLACES], and the answers to this rank's own, [to][2][blocks][PLACES].
// rounds: how many rounds each block has done with the peer. gone, turns: as in exchange.hip.
typedef unsigned long long word;
#if HIPRT_TARGET_CPU
int let_others_run() __asm__("sched_yield");
constexpr uint PATIENCE = 64;
#else
constexpr uint PATIENCE = 1024;
#endif
constexpr uint EACH = 4 / sizeof(T);  // numbers of a word
const uint lane = thread_index_in_threadgroup, threads = threads_per_threadgroup.x;
const uint block = threadgroup_position_in_grid.x;
const uint count = (n + EACH - 1) / EACH;
const ulong at = ulong(block) * PLACES + lane, apart = ulong(blocks) * PLACES;
wait_for_inputs();
begin_next();
const ulong messages = 2 * RANKS * apart, answers = 2 * messages;
#ifdef SENT
volatile word* there = (volatile word*)places[peer] + messages + 2 * rank * apart;
const volatile word* here = (const volatile word*)places[rank] + answers + 2 * peer * apart;
#else
const volatile word* here = (const volatile word*)places[rank] + messages + 2 * peer * apart;
volatile word* there = (volatile word*)places[peer] + answers + 2 * rank * apart;
#endif
uint round = rounds[block];
for (uint first = block * threads; first < count; first += threadgroups_per_grid.x * threads) {
  const uint start = (first + lane) * EACH;
  const ulong place = ulong(++round % 2) * apart + at;
#ifdef SENT
  const uint wanted = round - 2;
  bool is_waiting = round > 2;
#else
  const uint wanted = round;
  bool is_waiting = true;
#endif
  word come = 0;
  for (uint tries = 1; is_waiting; tries++) {
    const bool is_patient = tries % PATIENCE != 0, is_alone = !is_patient && *(const volatile uint*)gone;
#if HIPRT_TARGET_CPU
    if (!is_patient) let_others_run();
#endif
    come = here[place];
    is_waiting = uint(come >> 32) != wanted;
    if (is_alone) break;
  }
  pack<T, EACH> numbers;
#ifdef SENT
  for (uint i = 0; i < EACH; i++) numbers.values[i] = start + i < n ? x[start + i] : T(0);
  there[place] = word(round) << 32 | as_type<uint>(numbers);
#else
  numbers = as_type<pack<T, EACH>>(uint(come));
  for (uint i = 0; i < EACH && start + i < n; i++) out[start + i] = numbers.values[i];
  there[place] = word(round) << 32;
#endif
}
threadgroup_barrier(mem_flags::mem_none);
if (lane == 0) rounds[block] = round;
