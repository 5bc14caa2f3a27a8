// Loads in their places in the program: what many of them wait for together, a compiler would put off to save registers.
namespace metal {

typedef pack<uint, 4> piece;

#if HIPRT_TARGET_NVIDIA
template <typename T>
inline T load_value(const T* from) {
  return number_of_bits<T>(load_now((const ushort*)from));
}
template <>
inline float load_value<float>(const float* from) {
  return as_type<float>(load_now((const uint*)from));
}
template <typename T>
inline pack<T, 8> load_eight(const T* from) {
  piece parts[sizeof(T) / 2];
  for (uint i = 0; i < sizeof(T) / 2; i++) parts[i] = load_once((const uint*)from + 4 * i);
  pack<T, 8> values;
  memcpy(&values, parts, sizeof(values));
  return values;
}
#else
template <typename T>
inline T load_value(const device T* from) {
  return *from;
}
template <typename T>
inline pack<T, 8> load_eight(const device T* from) {
  return *(const device pack<T, 8>*)from;
}
#endif

}  // namespace metal
