// Which matrix of a stack an item of a batch works on: the item's own, or the one that an index names.
namespace metal {

inline uint matrix_of(uint item, uint divisor, uint modulus, bool is_given, const device uint* indices) {
  uint at = item / divisor % modulus;
  return is_given ? indices[at] : at;
}

}  // namespace metal
