// simd_ and quad_ functions among the active lanes. Some lanes are inactive in a threadgroup's last simdgroup, in a branch,
// and in a loop that they have left. What a lane reads from an inactive one is undefined, as in Metal.
namespace metal {
namespace hiprt {

// The result has a bit for each active lane of this simdgroup whose flag is set.
HIPRT_INLINE uint votes(bool flag HIPRT_AT) {
#if HIPRT_TARGET_AMD
  return uint(__builtin_amdgcn_ballot_w64(flag) >> (hardware_lane() & 32u));
#elif HIPRT_TARGET_NVIDIA
  return __ballot_sync(__activemask(), flag);
#else
  return uint(__hiprt_ballot(site, 0, flag));
#endif
}
HIPRT_INLINE uint active_lanes(HIPRT_FIRST_AT) {
#if HIPRT_TARGET_CPU
  return uint(__hiprt_active(site, 0));
#elif HIPRT_TARGET_NVIDIA
  return __activemask();
#else
  return votes(true);
#endif
}

HIPRT_INLINE uint word_of_lane(uint word, uint lane HIPRT_AT) {
#if HIPRT_TARGET_AMD
  return __builtin_amdgcn_ds_bpermute(((hardware_lane() & ~31u) | (lane & 31u)) << 2, word);
#elif HIPRT_TARGET_NVIDIA
  return __shfl_sync(__activemask(), word, lane & 31u, 32);
#else
  return __hiprt_gather(site, word, lane & 31u, 0);
#endif
}
template <typename T>
HIPRT_INLINE T of_lane(T value, uint lane HIPRT_AT) {
  constexpr int WORDS = (sizeof(T) + 3) / 4;
  uint words[WORDS] = {};
  HIPRT_COPY(words, &value, sizeof(T));
  for (int i = 0; i < WORDS; i++) words[i] = word_of_lane(words[i], lane HIPRT_HERE);
  HIPRT_COPY(&value, words, sizeof(T));
  return value;
}

HIPRT_INLINE uint lowest(uint set) {
#if HIPRT_TARGET_NVIDIA && !defined(__clang__)
  return uint(__ffs(int(set)) - 1);
#else
  return uint(__builtin_ctz(set));
#endif
}

// A group is WIDTH neighbouring lanes: a simdgroup or a quadgroup.
template <int WIDTH>
struct group {
  static constexpr uint ALL = WIDTH == 32 ? ~0u : (1u << (WIDTH & 31)) - 1u;
  static HIPRT_INLINE uint first() { return lane_index() & ~uint(WIDTH - 1); }
  static HIPRT_INLINE uint within() { return lane_index() & uint(WIDTH - 1); }
  static HIPRT_INLINE uint here(HIPRT_FIRST_AT) { return active_lanes(HIPRT_HERE_ONLY) >> first() & ALL; }
  template <typename T>
  static HIPRT_INLINE T at(T value, uint lane HIPRT_AT) {
    return of_lane(value, first() + (lane & uint(WIDTH - 1)) HIPRT_HERE);
  }
};

struct add {
  template <typename T>
  static HIPRT_INLINE T of(T a, T b) { return T(a + b); }
  template <typename T>
  static HIPRT_INLINE T neutral() { return T(0); }
};
struct multiply {
  template <typename T>
  static HIPRT_INLINE T of(T a, T b) { return T(a * b); }
  template <typename T>
  static HIPRT_INLINE T neutral() { return T(1); }
};
struct least {
  template <typename T>
  static HIPRT_INLINE T of(T a, T b) { return min(a, b); }
};
struct greatest {
  template <typename T>
  static HIPRT_INLINE T of(T a, T b) { return max(a, b); }
};
struct bit_and {
  template <typename T>
  static HIPRT_INLINE T of(T a, T b) { return T(a & b); }
};
struct bit_or {
  template <typename T>
  static HIPRT_INLINE T of(T a, T b) { return T(a | b); }
};
struct bit_xor {
  template <typename T>
  static HIPRT_INLINE T of(T a, T b) { return T(a ^ b); }
};

// A whole group exchanges by a butterfly, and any other goes one lane after the other. Every lane ends with the same bits.
template <typename F, int WIDTH, typename T>
HIPRT_INLINE T reduce(T value HIPRT_AT) {
  typedef group<WIDTH> lanes;
  uint here = lanes::here(HIPRT_HERE_ONLY);
  if (here == lanes::ALL) {
    for (int step = WIDTH / 2; step > 0; step /= 2) {
      value = F::of(value, lanes::at(value, lanes::within() ^ uint(step) HIPRT_HERE));
    }
    return value;
  }
  T total = lanes::at(value, lowest(here) HIPRT_HERE);
  for (uint rest = here & (here - 1); rest != 0; rest &= rest - 1) {
    total = F::of(total, lanes::at(value, lowest(rest) HIPRT_HERE));
  }
  return total;
}

// The prefix covers the lanes up to this one, itself included.
template <typename F, int WIDTH, typename T>
HIPRT_INLINE T scan(T value, uint here HIPRT_AT) {
  typedef group<WIDTH> lanes;
  uint lane = lanes::within();
  if (here == lanes::ALL) {
    for (uint step = 1; step < WIDTH; step *= 2) {
      T other = lanes::at(value, lane - step HIPRT_HERE);
      if (lane >= step) value = F::of(other, value);
    }
    return value;
  }
  T total = lanes::at(value, lowest(here) HIPRT_HERE);
  for (uint rest = here & (here - 1); rest != 0; rest &= rest - 1) {
    T other = lanes::at(value, lowest(rest) HIPRT_HERE);
    if (lowest(rest) <= lane) total = F::of(total, other);
  }
  return total;
}
template <typename F, int WIDTH, typename T>
HIPRT_INLINE T inclusive(T value HIPRT_AT) {
  return scan<F, WIDTH>(value, group<WIDTH>::here(HIPRT_HERE_ONLY) HIPRT_HERE);
}
template <typename F, int WIDTH, typename T>
HIPRT_INLINE T exclusive(T value HIPRT_AT) {
  typedef group<WIDTH> lanes;
  uint here = lanes::here(HIPRT_HERE_ONLY);
  T whole = scan<F, WIDTH>(value, here HIPRT_HERE);
  uint before = here & ((1u << lanes::within()) - 1u);
  T other = lanes::at(whole, before ? 31u - clz(before) : 0u HIPRT_HERE);
  return before ? other : F::template neutral<T>();
}

// Values from outside of `modulo` lanes are taken from `filling`.
template <int WIDTH, typename T>
HIPRT_INLINE T shifted_and_filled(T value, T filling, int delta, uint modulo HIPRT_AT) {
  typedef group<WIDTH> lanes;
  uint lane = lanes::within(), base = lane & ~(modulo - 1u);
  int from = int(lane - base) + delta;
  uint source = base + (uint(from) & (modulo - 1u));
  T inside = lanes::at(value, source HIPRT_HERE), outside = lanes::at(filling, source HIPRT_HERE);
  return from >= 0 && from < int(modulo) ? inside : outside;
}

}  // namespace hiprt

// The lanes that voted yes, a bit each.
template <int WIDTH>
struct lane_vote {
  typedef ulong vote_t;
  HIPRT_INLINE explicit lane_vote(vote_t bits = 0) : bits(bits) {}
  HIPRT_INLINE explicit operator vote_t() const { return bits; }
  HIPRT_INLINE bool all() const { return bits == hiprt::group<WIDTH>::ALL; }
  HIPRT_INLINE bool any() const { return bits != 0; }

 private:
  vote_t bits;
};
typedef lane_vote<32> simd_vote;
typedef lane_vote<4> quad_vote;

#define HIPRT_REDUCTION(prefix, WIDTH, name, F)                                                              \
  template <typename T>                                                                                      \
  HIPRT_INLINE T prefix##name(T value HIPRT_AT) {                                                            \
    return hiprt::reduce<hiprt::F, WIDTH>(value HIPRT_HERE);                                                 \
  }
#define HIPRT_SCAN(prefix, WIDTH, name, F)                                                                   \
  template <typename T>                                                                                      \
  HIPRT_INLINE T prefix##prefix_inclusive_##name(T value HIPRT_AT) {                                         \
    return hiprt::inclusive<hiprt::F, WIDTH>(value HIPRT_HERE);                                              \
  }                                                                                                          \
  template <typename T>                                                                                      \
  HIPRT_INLINE T prefix##prefix_exclusive_##name(T value HIPRT_AT) {                                         \
    return hiprt::exclusive<hiprt::F, WIDTH>(value HIPRT_HERE);                                              \
  }
#define HIPRT_SHUFFLE(prefix, WIDTH, name, source)                                                           \
  template <typename T>                                                                                      \
  HIPRT_INLINE T prefix##name(T value, ushort by HIPRT_AT) {                                                 \
    uint lane = hiprt::group<WIDTH>::within();                                                               \
    (void)lane;                                                                                              \
    return hiprt::group<WIDTH>::at(value, source HIPRT_HERE);                                                \
  }
#define HIPRT_LANES(prefix, WIDTH, vote)                                                                     \
  HIPRT_REDUCTION(prefix, WIDTH, sum, add)                                                                   \
  HIPRT_REDUCTION(prefix, WIDTH, product, multiply)                                                          \
  HIPRT_REDUCTION(prefix, WIDTH, min, least)                                                                 \
  HIPRT_REDUCTION(prefix, WIDTH, max, greatest)                                                              \
  HIPRT_REDUCTION(prefix, WIDTH, and, bit_and)                                                               \
  HIPRT_REDUCTION(prefix, WIDTH, or, bit_or)                                                                 \
  HIPRT_REDUCTION(prefix, WIDTH, xor, bit_xor)                                                               \
  HIPRT_SCAN(prefix, WIDTH, sum, add)                                                                        \
  HIPRT_SCAN(prefix, WIDTH, product, multiply)                                                               \
  HIPRT_SHUFFLE(prefix, WIDTH, broadcast, by)                                                                \
  HIPRT_SHUFFLE(prefix, WIDTH, shuffle, by)                                                                  \
  HIPRT_SHUFFLE(prefix, WIDTH, shuffle_xor, lane ^ by)                                                       \
  HIPRT_SHUFFLE(prefix, WIDTH, shuffle_up, lane < by ? lane : lane - by)                                     \
  HIPRT_SHUFFLE(prefix, WIDTH, shuffle_down, lane + by > WIDTH - 1 ? lane : lane + by)                       \
  HIPRT_SHUFFLE(prefix, WIDTH, shuffle_rotate_up, lane - by)                                                 \
  HIPRT_SHUFFLE(prefix, WIDTH, shuffle_rotate_down, lane + by)                                               \
  template <typename T>                                                                                      \
  HIPRT_INLINE T prefix##shuffle_and_fill_up(T value, T filling, ushort by, ushort modulo = WIDTH HIPRT_AT) { \
    return hiprt::shifted_and_filled<WIDTH>(value, filling, -int(by), modulo HIPRT_HERE);                    \
  }                                                                                                          \
  template <typename T>                                                                                      \
  HIPRT_INLINE T prefix##shuffle_and_fill_down(T value, T filling, ushort by, ushort modulo = WIDTH HIPRT_AT) { \
    return hiprt::shifted_and_filled<WIDTH>(value, filling, int(by), modulo HIPRT_HERE);                     \
  }                                                                                                          \
  template <typename T>                                                                                      \
  HIPRT_INLINE T prefix##broadcast_first(T value HIPRT_AT) {                                                 \
    uint here = hiprt::group<WIDTH>::here(HIPRT_HERE_ONLY);                                                  \
    return hiprt::group<WIDTH>::at(value, hiprt::lowest(here) HIPRT_HERE);                                   \
  }                                                                                                          \
  HIPRT_INLINE bool prefix##is_first(HIPRT_FIRST_AT) {                                                       \
    return hiprt::lowest(hiprt::group<WIDTH>::here(HIPRT_HERE_ONLY)) == hiprt::group<WIDTH>::within();       \
  }                                                                                                          \
  HIPRT_INLINE vote prefix##active_threads_mask(HIPRT_FIRST_AT) {                                            \
    return vote(hiprt::group<WIDTH>::here(HIPRT_HERE_ONLY));                                                 \
  }                                                                                                          \
  HIPRT_INLINE vote prefix##ballot(bool flag HIPRT_AT) {                                                     \
    return vote(hiprt::votes(flag HIPRT_HERE) >> hiprt::group<WIDTH>::first() & hiprt::group<WIDTH>::ALL);   \
  }                                                                                                          \
  HIPRT_INLINE bool prefix##any(bool flag HIPRT_AT) {                                                        \
    return (hiprt::votes(flag HIPRT_HERE) >> hiprt::group<WIDTH>::first() & hiprt::group<WIDTH>::ALL) != 0;  \
  }                                                                                                          \
  HIPRT_INLINE bool prefix##all(bool flag HIPRT_AT) {                                                        \
    return (hiprt::votes(!flag HIPRT_HERE) >> hiprt::group<WIDTH>::first() & hiprt::group<WIDTH>::ALL) == 0; \
  }
HIPRT_LANES(simd_, 32, simd_vote)
HIPRT_LANES(quad_, 4, quad_vote)
#undef HIPRT_LANES
#undef HIPRT_SHUFFLE
#undef HIPRT_SCAN
#undef HIPRT_REDUCTION

}  // namespace metal
