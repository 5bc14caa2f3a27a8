// Weights on their way to a tile with the matrix instructions of AMD: from memory into registers, and from there, unpacked, to
// threadgroup memory.
#if defined(HIPRT_TILE_FACTORS)
namespace metal {

// What a thread reads of the weights of a threadgroup's columns: from places that the threadgroup shares, so many bytes
// further. A load adds the two itself, but the compiler would add them ahead of a loop if they stayed the same.
template <typename T, int BITS>
struct tile_weights {
  const uint* packed;
  const T* scales;
  const T* biases;
  uint code_bytes, group_bytes;
  uint second;  // of the halves of a step

  struct loaded {
    sixteen_codes<BITS> codes;
    T scale, bias;
  };

  template <typename E>
  static HIPRT_INLINE const E* further(const E* from, uint& bytes) {
    asm("" : "+v"(bytes));
    return (const E*)((const uchar*)from + bytes);
  }
  // The codes from a word on, and what belongs to their group.
  HIPRT_INLINE loaded at(uint word, uint group) {
    loaded found;
    found.codes.load(further(packed + word, code_bytes));
    found.scale = *further(scales + group, group_bytes);
    found.bias = *further(biases + group, group_bytes);
    return found;
  }
  // Write what codes stand for.
  HIPRT_INLINE void unpack_to(T* to, const loaded& given) const {
    const sixteen_codes<BITS> first = given.codes.from_first(second);
#pragma unroll
    for (int e = 0; e < 16; e += 8) unpack_eight(to + e, first.words, e, given.scale, given.bias);
  }
  template <typename E>
  static HIPRT_INLINE void unpack_eight(E* to, const uint* words, uint from, E scale, E bias) {
    float values[8];
    unpack<BITS>(values, words, from, float(scale), float(bias));
    store_to_tile(to, values);
  }
  // Codes are float16 exactly, two in a word, and what they stand for is computed and rounded in one instruction for both.
  static HIPRT_INLINE void unpack_eight(half* to, const uint* words, uint from, half scale, half bias) {
    typedef _Float16 Two __attribute__((ext_vector_type(2)));
    pack<uint, 4> pairs;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
      const float first = code_of<BITS>(words, from + 2 * i), next = code_of<BITS>(words, from + 2 * i + 1);
      const Two codes = as_type<Two>(__builtin_amdgcn_cvt_pkrtz(first, next));
      pairs.values[i] = as_type<uint>(__builtin_elementwise_fma(codes, Two(scale), Two(bias)));
    }
    *(pack<uint, 4>*)to = pairs;
  }
};

}  // namespace metal
#endif
