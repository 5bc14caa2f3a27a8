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

// For the smallest: larger where the value is smaller, and NaN above everything again.
template <typename T>
inline long falling_key(T value) {
  return -1l - sort_key(value);
}
inline long falling_key(float value) { return isnan(value) ? 0x7fffffffl : -long(order_key(value)); }
inline long falling_key(half value) { return falling_key(float(value)); }
inline long falling_key(bfloat16_t value) { return falling_key(float(value)); }

}  // namespace metal
