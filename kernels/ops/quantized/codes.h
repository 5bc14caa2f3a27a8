// Eight neighbouring codes of a packed row as float32, on the CPU device.
#if HIPRT_CPU_LOOPS
namespace metal {

template <int BITS>
inline f32x8 codes8(const void* packed) {
  if (BITS == 8) return __builtin_convertvector(__builtin_convertvector(load_as<u8x8>(packed), i32x8), f32x8);
  ulong word = 0;
  __builtin_memcpy(&word, packed, BITS);
  const uint low = uint(word), high = BITS == 4 ? low : uint(word >> 4 * BITS);
  const uint from = BITS == 4 ? 16 : 0;
  const u32x8 words = {low, low, low, low, high, high, high, high};
  const u32x8 shifts = {0, BITS, 2 * BITS, 3 * BITS, from, from + BITS, from + 2 * BITS, from + 3 * BITS};
  return __builtin_convertvector((i32x8)((words >> shifts) & ((1u << BITS) - 1u)), f32x8);
}

}  // namespace metal
#endif
