// The neighbouring elements of a row that one lane holds. Where the lanes share the row evenly (EXACT), it reads them with
// the widest loads.
namespace metal {

template <typename T, int N, bool EXACT>
struct lane_part {
  T values[N];

  void load(const device T* row, uint base, uint width) {
    for (uint i = 0; i < N; i++) {
      values[i] = T(0.0f);
      if (base + i < width) values[i] = row[base + i];
    }
  }
};
template <typename T, int N>
struct lane_part<T, N, true> {
  T values[N];

  void load(const device T* row, uint base, uint) {
    constexpr int AT_ONCE = 16 / sizeof(T);
    for (int i = 0; i < N; i += AT_ONCE) {
      const pack<T, AT_ONCE> part = *(const device pack<T, AT_ONCE>*)(row + base + i);
      for (int j = 0; j < AT_ONCE; j++) values[i + j] = part.values[j];
    }
  }
};

}  // namespace metal
