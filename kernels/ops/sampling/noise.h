// Random numbers by counter: no state is kept between calls, and any number of a sequence is computed directly.
namespace metal {

// A bijection of 32-bit words whose every output bit depends on every input bit.
template <typename U>
inline U scramble(U h) {
  h ^= h >> 16;
  h *= 0x21f0aaadu;
  h ^= h >> 15;
  h *= 0x735a2d97u;
  return h ^ (h >> 15);
}

// Returns 23 random bits for place i of a draw. With a half added they stand for numbers in (0, 1) that float32 holds
// exactly.
template <typename U>
inline U noise_bits(uint seed, uint draw, U i) {
  uint first = scramble(seed ^ 0x9e3779b9u);
  uint second = scramble(first ^ draw);
  return scramble(scramble(i + second) ^ first) >> 9;
}

}  // namespace metal
