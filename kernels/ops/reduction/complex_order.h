// Complex numbers in the order of their real parts, then of their imaginary ones; those with a NaN are above everything.
namespace metal {

inline long sort_key(complex64_t value) {
  if (isnan(value.real) || isnan(value.imag)) return 0x7fffffffffffffffl;
  return (long(order_key(value.real)) << 32) + long(order_key(value.imag)) + 0x80000000l;
}
inline long falling_key(complex64_t value) {
  long key = sort_key(value);
  return key == 0x7fffffffffffffffl ? key : -1l - key;
}

}  // namespace metal
