// Codes of a piece spread to fields of 4 or 8 bits, which integer dot instructions multiply with as many digits.
namespace metal {

// The codes of a piece, which fill whole words and have one scale.
template <int BITS, int GROUP>
constexpr uint PIECE_CODES = BITS == 2 && GROUP >= 64 ? 64 : BITS <= 5 ? 32 : 16;

template <int N>
struct words {
  uint values[N];
};

// Words that are read once, as `load_past` brings four. Loads of neighbouring words become one, of up to four.
template <int N>
inline words<N> load_words(const device uint* from) {
  words<N> v;
  if (N == 4) {
    const pack<uint, 4> four = load_once(from);
#pragma unroll
    for (int i = 0; i < N; i++) v.values[i] = four.values[i % 4];
    return v;
  }
#pragma unroll
  for (int i = 0; i < N; i++) {
#if HIPRT_TARGET_AMD
    v.values[i] = __builtin_nontemporal_load(from + i);
#else
    v.values[i] = from[i];
#endif
  }
  return v;
}

// 32 bits from a bit of the words on, which may lie in the word before the first; what is not there is 0.
template <int N>
inline uint bits_from(const words<N>& from, int bit) {
  const int word = (bit + 32) / 32 - 1;
  const uint low = word < 0 ? 0u : from.values[word], high = word + 1 < N ? from.values[(word + 1) % N] : 0u;
  return uint((ulong(high) << 32 | low) >> (bit & 31));
}

// Four neighbouring codes of BITS bits from a bit of the words on, each in a byte of its own: the upper two move to the
// upper half, and then of either half the upper one to the upper byte.
template <int BITS, int N>
inline uint codes_in_bytes(const words<N>& from, int bit) {
  const uint upper = bits_from(from, bit + 2 * BITS - 16);
  // The lower two lie in two bytes of a word as they are, or are moved there.
  const bool is_there = bit % 8 == 0 && bit % 32 <= 16;
  const uint lower = is_there ? from.values[bit / 32] : bits_from(from, bit), at = is_there ? bit % 32 / 8 : 0u;
  const uint halves = select_bytes(upper, lower, 0x07060100u + at * 0x0101u);
  return select_bytes(halves << (8 - BITS), halves, 0x07020500u) & (((1u << BITS) - 1u) * 0x01010101u);
}

// The fields of VALUES codes. Of 2 bits, those with even numbers in a word come first, then those with odd ones.
template <int BITS, int VALUES>
inline words<VALUES * (BITS <= 4 ? 4 : 8) / 32> fields_of(const words<VALUES * BITS / 32>& codes) {
  constexpr int WORDS = VALUES * BITS / 32, FIELDS = VALUES * (BITS <= 4 ? 4 : 8) / 32;
  words<FIELDS> fields;
#pragma unroll
  for (int i = 0; i < FIELDS; i++) {
    uint& field = fields.values[i];
    if (BITS == 2) {
      field = codes.values[i / 2] >> (i % 2 * 2) & 0x33333333u;
    } else if (BITS == 3) {
      const uint pairs = codes_in_bytes<6, WORDS>(codes, i * 24);
      field = (pairs & 0x07070707u) | (pairs << 1 & 0x70707070u);
    } else {
      field = BITS % 4 != 0 ? codes_in_bytes<BITS, WORDS>(codes, i * 4 * BITS) : codes.values[i % WORDS];
    }
  }
  return fields;
}

}  // namespace metal
