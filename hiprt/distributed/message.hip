// One rank's half of a message to another: where SENT is set, the numbers go into memory of rank `peer`; else they are taken
// out of this rank's own. Each pair of ranks counts its own rounds in each direction. The other rank answers each word with its
// round: a word of round n + 2 is written after round n was answered. words.hip, which stands before this, says the rest.
#ifdef SENT
volatile word* there = bases[peer] + messages + 2 * rank * apart;
const volatile word* here = bases[rank] + answers + 2 * peer * apart;
#else
const volatile word* here = bases[rank] + messages + 2 * peer * apart;
volatile word* there = bases[peer] + answers + 2 * rank * apart;
#endif
const word loss = *known;
uint round = rounds[block];
for (uint first = block * threads; first < count; first += threadgroups_per_grid.x * threads) {
  const uint start = (first + lane) * EACH;
  const ulong place = (ulong(++round % 2) * blocks + block) * PLACES + lane;
#ifdef SENT
  if (round > 2) wait_for(here[place], here + place, round - 2);
#else
  const word come = wait_for(here[place], here + place, round);
#endif
  pack<T, EACH> numbers;
#ifdef SENT
  for (uint i = 0; i < EACH; i++) numbers.values[i] = start + i < n ? x[start + i] : T(0);
  if (!loss) there[place] = word(round) << 32 | as_type<uint>(numbers);
#else
  numbers = as_type<pack<T, EACH>>(uint(come));
  for (uint i = 0; i < EACH && start + i < n; i++) out[start + i] = numbers.values[i];
  if (!loss) there[place] = word(round) << 32;
#endif
}
threadgroup_barrier(mem_flags::mem_none);
if (lane == 0) rounds[block] = round;
