// Integers in the order of values: NaN above everything, -0 equal to 0 (largest.h).
namespace metal {

template <typename T>
inline long sort_key(T value) {
  return long(value);
}
inline long sort_key(float value) { return long(order_key(value)); }
inline long sort_key(half value) { return long(order_key(float(value))); }
inline long sort_key(bfloat16_t value) { return long(order_key(float(value))); }
inline long sort_key(ulong value) { return long(value ^ 0x8000000000000000ul); }

}  // namespace metal
