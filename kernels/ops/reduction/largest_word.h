// The largest value of a threadgroup and its place as a word of 64 bits, by which another threadgroup gets them. Words are
// zero before the launch and after it, and not zero once they are there, so they need no order with other memory. A
// threadgroup that takes words depends on those that leave them, which depend on no other.
namespace metal {

inline void leave_word(device atomic_ulong* word, Largest found) {
  const ulong high = uint(found.key) ^ 0x80000000u;  // never 0: no key is the lowest
  atomic_store_explicit(word, high << 32 | found.place, memory_order_relaxed);
}

// Waits for a word, and leaves zero.
inline Largest take_word(device atomic_ulong* word) {
  ulong found;
  do found = atomic_load_explicit(word, memory_order_relaxed);
  while (found == 0);
  atomic_store_explicit(word, ulong(0), memory_order_relaxed);
  return Largest{int(uint(found >> 32) ^ 0x80000000u), uint(found)};
}

// The first of two places of equal keys.
inline Largest larger(Largest one, Largest other) {
  return other.key > one.key || (other.key == one.key && other.place < one.place) ? other : one;
}

}  // namespace metal
