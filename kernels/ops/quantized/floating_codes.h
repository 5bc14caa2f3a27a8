// Values as floating codes, and steps as powers of two.
namespace metal {

constant constexpr float SIZES[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

// The first of the nearest codes in the order of codes: a tie goes to zero, and what is as near to -0 becomes +0. What
// is so far that float32 tells no distances apart becomes +0 too, as in MLX, and so do infinity and NaN.
inline uint to_e2m1(float value) {
  const float size = fabs(value);
  float least = size;
  uint code = 0;
  for (uint i = 1; i < 8; i++) {
    const float distance = fabs(size - SIZES[i]);
    if (distance < least) {
      least = distance;
      code = i;
    }
  }
  return code != 0 && value < 0.0f ? code | 8u : code;
}

// The nearest code, a tie to the even one. What is larger than 448, or NaN, becomes 448.
inline uint to_e4m3(float value) {
  const uint word = as_type<uint>(value), sign = word >> 24 & 128u, size = word & 0x7fffffffu;
  const float magnitude = as_type<float>(size);
  if (!(magnitude < 448.0f)) return sign | 126u;
  if (magnitude < 0x1p-6f) return sign | uint(rint(magnitude * 512.0f));
  return sign | (size - (120u << 23) + 0x7ffffu + (size >> 20 & 1u)) >> 20;
}

// The least n with 2^n >= step, and 2^n; both may be subnormal.
inline int exponent_above(float step) {
  const uint word = as_type<uint>(step);
  const bool is_subnormal = word < 0x800000u;  // then the step is word * 2^-149
  const uint normal = is_subnormal ? as_type<uint>(float(word)) : word;
  return int((normal + 0x7fffffu) >> 23) - (is_subnormal ? 276 : 127);
}
inline float power_of_two(int n) { return as_type<float>(n < -126 ? 1u << uint(n + 149) : uint(n + 127) << 23); }

}  // namespace metal
