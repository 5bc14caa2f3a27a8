// Words by which ranks pass numbers on, and how a thread waits for one. A word of 8 bytes has 4 bytes of numbers and the number
// of the round that they belong to, so that no fence is needed: a word has come when it names the round that is waited for
// (this is the low-latency protocol of NCCL, "LL"). A block counts its own rounds: `rounds`. However many threads a launch has,
// a block has PLACES places.
//
// places: where each rank's memory lies: words of collectives, [2][RANKS][blocks][PLACES], of messages, [from][2][blocks][PLACES],
// and the answers to this rank's own, [to][2][blocks][PLACES]; words of chunks, [2][RANKS][blocks], and the chunks themselves,
// [2][RANKS][blocks][PIECES][PLACES] of 16 bytes; and a word that is not 0 once a rank is known to be gone. From then on what
// this rank has is no result, and it gives the others nothing: they may not know yet, and take it for a result. gone: the
// host's word for that. turns: only orders launches. Else one rank could wait in a message or in a collective of some of the
// ranks, and another one in a sum.
typedef unsigned long long word;
#if HIPRT_TARGET_CPU
int let_others_run() __asm__("sched_yield");      // there may be more ranks than cores
constexpr uint PATIENCE = 1, HOST_PATIENCE = 1;  // the threads of a block wait one behind the other
#else
// Reads between two of the word for a rank that is gone, and of the host's. All waves queue up for the host's memory, for about
// a millisecond: if they read it in each wait of that length, each rank would make the others wait as long again.
constexpr uint PATIENCE = 256, HOST_PATIENCE = 16384;
#endif
constexpr uint EACH = 4 / sizeof(T);  // numbers of a word
const uint lane = thread_index_in_threadgroup, threads = threads_per_threadgroup.x;
const uint block = threadgroup_position_in_grid.x;
const uint count = (n + EACH - 1) / EACH;
const ulong apart = ulong(blocks) * PLACES, messages = 2 * RANKS * apart, answers = 2 * messages, chunks = 3 * messages;
const ulong numbers_of_chunks = chunks + 2 * RANKS * blocks;
volatile word* bases[RANKS];
for (uint each = 0; each < RANKS; each++) bases[each] = (volatile word*)places[each];
volatile word* const known = bases[rank] + numbers_of_chunks + 4 * RANKS * PIECES * apart;
// The word of a round at a place of this rank's memory; another one where a rank is gone. What that had sent before has come.
const auto wait_for = [&](word come, const volatile word* place, uint wanted) {
  for (uint tries = 1; uint(come >> 32) != wanted; tries++) {
    bool is_alone = tries % PATIENCE == 0 && *known;
    if (tries % HOST_PATIENCE == 0 && *(const volatile uint*)gone) {
      *known = 1;
      is_alone = true;
    }
#if HIPRT_TARGET_CPU
    if (tries % 64 == 0) let_others_run();
#endif
    come = *place;
    if (is_alone) break;
  }
  return come;
};
begin_next();
wait_for_inputs();
