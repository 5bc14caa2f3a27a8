// Cosine and sine of a fraction of a turn. They are the same bits on every target, because neither a library function
// nor a fused product is used.
namespace metal {

// Returns (cos, sin) of an angle of `fraction` * 2^-64 turns.
inline float2 cos_sin(ulong fraction) {
  uint turns = uint(fraction >> 32);
  uint quadrant = (turns + 0x20000000u) >> 30;
  float r = float(int(turns - (quadrant << 30))) * 1.46291808e-9f;  // 2 pi / 2^32; |r| <= pi / 4
  float z = r * r;
  float s = r + r * z * ((-1.95152184e-4f * z + 8.3321603e-3f) * z - 1.66666552e-1f);
  float c = 1.0f - (0.5f * z - z * z * ((2.44330822e-5f * z - 1.38873153e-3f) * z + 4.16666456e-2f));
  float cosine = (quadrant & 1u) ? s : c;
  float sine = (quadrant & 1u) ? c : s;
  return float2(((quadrant + 1u) & 2u) ? -cosine : cosine, (quadrant & 2u) ? -sine : sine);
}

}  // namespace metal
