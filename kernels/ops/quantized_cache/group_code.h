// How the elements of a group become codes: the largest of them becomes 127 or -127.
namespace metal {

struct group_code {
  float scale, inverse;

  // Takes the largest magnitude of the group. One whose inverse overflows is as good as zero.
  void begin(float largest) {
    scale = largest < 1e-30f ? 0.0f : largest / 127.0f;
    inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  }
  int8_t code(float value) const { return int8_t(rint(clamp(value * inverse, -127.0f, 127.0f))); }
};

}  // namespace metal
