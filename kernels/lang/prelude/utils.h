// The functions that MLX defines before every custom kernel, under MLX's names. The text is valid Metal, because the Metal
// checker reads it too.
#define MLX_MTL_CONST static constant constexpr const
#define MLX_MTL_LOOP_UNROLL HIPRT_UNROLL
#define MLX_MTL_PRAGMA_UNROLL HIPRT_UNROLL
// Kernels that a header instantiates by name can be launched on Apple's hardware only.
#if HIPRT_TARGET_METAL && !defined(instantiate_kernel)
#define instantiate_kernel(name, func, ...) \
  template [[host_name(name)]] [[kernel]] decltype(func<__VA_ARGS__>) func<__VA_ARGS__>;
#elif !defined(instantiate_kernel)
#define instantiate_kernel(name, func, ...)
#endif

// Messages to the system's log go nowhere.
namespace mlx {
struct os_log {
  constexpr os_log(constant const char*, constant const char*) constant {}
#define HIPRT_LOG(level) \
  template <typename... A> \
  void log##level(constant const char*, A...) const constant {}
  HIPRT_LOG() HIPRT_LOG(_debug) HIPRT_LOG(_info) HIPRT_LOG(_default) HIPRT_LOG(_error) HIPRT_LOG(_fault)
#undef HIPRT_LOG
};
}  // namespace mlx

namespace metal {

static constexpr int REDUCE_N_READS = 4;
static constexpr int REDUCE_N_WRITES = 4;
static constexpr int SOFTMAX_N_READS = 4;
static constexpr int RMS_N_READS = 4;
static constexpr int RMS_LOOPED_LIMIT = 4096;
static constexpr int MAX_REDUCE_SPECIALIZED_DIMS = 4;

template <bool CONDITION, typename T, typename U>
struct ConditionalType {
  typedef U type;
};
template <typename T, typename U>
struct ConditionalType<true, T, U> {
  typedef T type;
};

// A thread takes eight bytes at once.
template <typename U>
struct WorkPerThread {
  static_assert(sizeof(U) <= 8, "at most eight bytes");
  static constexpr int n = 8 / sizeof(U);
};

template <typename T, typename U>
inline T ceildiv(T n, U m) {
  return (n + m - 1) / m;
}

template <typename U, typename T>
inline U cast_to(T value) {
  return U(value);
}

// These return the place in memory of an element, given by its number, or by its position with the last axis first.
template <typename IdxT = int64_t>
inline IdxT elem_to_loc(IdxT elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  IdxT place = 0;
  for (int axis = ndim - 1; axis >= 0 && elem > 0; axis--) {
    place += (elem % shape[axis]) * IdxT(strides[axis]);
    elem /= shape[axis];
  }
  return place;
}
template <typename IdxT = int64_t>
inline IdxT elem_to_loc(uint3 elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  IdxT place = IdxT(elem.x * IdxT(strides[ndim - 1]) + IdxT(elem.y) * IdxT(strides[ndim - 2]));
  for (int axis = ndim - 3; axis >= 0; axis--) {
    place += IdxT(elem.z % uint(shape[axis])) * IdxT(strides[axis]);
    elem.z /= uint(shape[axis]);
  }
  return place;
}

template <typename IdxT = int64_t>
inline IdxT elem_to_loc_1(uint elem, constant const int64_t& stride) {
  return IdxT(elem) * IdxT(stride);
}
template <typename IdxT = int64_t>
inline IdxT elem_to_loc_2(uint2 elem, constant const int64_t* strides) {
  return IdxT(elem.x) * IdxT(strides[1]) + IdxT(elem.y) * IdxT(strides[0]);
}
template <typename IdxT = int64_t>
inline IdxT elem_to_loc_3(uint3 elem, constant const int64_t* strides) {
  return IdxT(elem.x) * IdxT(strides[2]) + IdxT(elem.y) * IdxT(strides[1]) + IdxT(elem.z) * IdxT(strides[0]);
}

// The same for two and for three arrays of one shape at once.
template <typename IdxT = int64_t>
inline vec<IdxT, 2> elem_to_loc_2_nd(
    uint3 elem, constant const int* shape, constant const int64_t* a, constant const int64_t* b, int ndim) {
  return vec<IdxT, 2>(elem_to_loc<IdxT>(elem, shape, a, ndim), elem_to_loc<IdxT>(elem, shape, b, ndim));
}
template <typename IdxT = int64_t>
inline vec<IdxT, 3> elem_to_loc_3_nd(
    uint3 elem,
    constant const int* shape,
    constant const int64_t* a,
    constant const int64_t* b,
    constant const int64_t* c,
    int ndim) {
  return vec<IdxT, 3>(
      elem_to_loc<IdxT>(elem, shape, a, ndim),
      elem_to_loc<IdxT>(elem, shape, b, ndim),
      elem_to_loc<IdxT>(elem, shape, c, ndim));
}

// A walk through a strided array, by one element or by `n` at a time. Its position counts like a counter's digits, the last
// axis first.
template <int DIM, typename OffsetT = size_t, bool General = true>
struct LoopedElemToLoc {
  int dim;
  OffsetT offset{0};
  OffsetT number{0};

  LoopedElemToLoc(int dim) : dim(dim) {}

  void next(constant const int* shape, constant const int64_t* strides) { next(1, shape, strides); }
  void next(int n, constant const int* shape, constant const int64_t* strides) {
    number += OffsetT(n);
    OffsetT rest = number;
    offset = 0;
    for (int axis = dim - 1; axis >= 0; axis--) {
      OffsetT size = axis > 0 ? OffsetT(shape[axis]) : rest + 1;
      offset += rest % size * OffsetT(strides[axis]);
      rest /= size;
    }
  }
  OffsetT location() { return offset; }
};

}  // namespace metal
