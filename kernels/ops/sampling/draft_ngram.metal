// Guesses which tokens follow a text: those that followed the place whose last tokens agree with the text's end the longest; of
// such places the latest. Behind the text's end they repeat, as a text of that period does.
// out: the newest token and the guesses, then the positions of all of them.
const int position = step[1], last = clamp(position, 0, int(capacity) - 1);
#if HIPRT_CPU_LOOPS
Largest best{LOWEST_KEY, 0u};
for (int end = last - 1; end >= 0 && best.key < int(longest); end--) {
  const int length = agreement(tokens, end, last, int(longest));
  if (length > best.key) best = Largest{length, uint(last - end)};
}
const uint first = 0, stride = 1;
#else
threadgroup int keys[32];
threadgroup uint places[32];
const uint first = thread_index_in_threadgroup, stride = threads_per_threadgroup.x;
Largest mine{LOWEST_KEY, 0xffffffffu};
for (int end = last - 1 - int(first); end >= 0 && mine.key < int(longest); end -= int(stride)) {
  const int length = agreement(tokens, end, last, int(longest));
  if (length > mine.key) mine = Largest{length, uint(last - end)};
}
Largest best = largest_of_threadgroup(mine, keys, places, thread_index_in_simdgroup, simdgroup_index_in_threadgroup,
                                      simdgroups_per_threadgroup);
#endif
const uint period = last == 0 ? 1u : best.place;
for (uint i = first; i <= drafts; i += stride) {
  out[i] = tokens[i == 0 ? uint(last) : uint(last) + 1u - period + (i - 1u) % period];
  out[drafts + 1 + i] = position + int(i);
}
