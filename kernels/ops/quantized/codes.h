// Eight neighbouring codes of a packed row as float32, on the CPU device.
#if HIPRT_CPU_LOOPS
namespace metal {

template <int BITS>
inline f32x8 codes8(const device uint* packed) {
  if (BITS == 8) return __builtin_convertvector(__builtin_convertvector(load_as<u8x8>(packed), i32x8), f32x8);
  const uint word = *packed;
  const u32x8 codes = (u32x8{word, word, word, word, word, word, word, word} >> u32x8{0, 4, 8, 12, 16, 20, 24, 28}) & 15u;
  return __builtin_convertvector((i32x8)codes, f32x8);
}

}  // namespace metal
#endif
