// The largest value and its place. Values are compared by keys, integers in the same order, with -0 equal to 0 and
// every NaN above everything; of equal keys the lowest place wins.
namespace metal {

inline int order_key(float value) {
  int bits = as_type<int>(value + 0.0f);
  return isnan(value) ? 0x7fffffff : bits < 0 ? bits ^ 0x7fffffff : bits;
}

struct Largest {
  int key;
  uint place;
};

constant constexpr int LOWEST_KEY = int(0x80000000);

#if HIPRT_CPU_LOOPS
// Eight candidates side by side, one lane's places ascending.
struct Largest8 {
  i32x8 key, place;
};

inline Largest8 lowest8() {
  const int low = LOWEST_KEY;
  return Largest8{i32x8{low, low, low, low, low, low, low, low}, i32x8{}};
}

inline void consider8(Largest8& best, f32x8 value, int place) {
  f32x8 sum = value + splat(0.0f);
  i32x8 bits = (i32x8)sum;
  i32x8 key = bits ^ (i32x8)((u32x8)(bits >> 31) >> 1);
  i32x8 nan = (i32x8)(value != value);
  key = (nan & 0x7fffffff) | (~nan & key);
  i32x8 higher = (i32x8)(key > best.key);
  best.place = (higher & (i32x8{0, 1, 2, 3, 4, 5, 6, 7} + place)) | (~higher & best.place);
  best.key = (higher & key) | (~higher & best.key);
}

inline void consider(Largest& best, int key, uint place) {
  if (key > best.key || (key == best.key && place < best.place)) best = Largest{key, place};
}

inline Largest merge8(Largest8 lanes) {
  Largest best{lanes.key[0], uint(lanes.place[0])};
  for (int i = 1; i < 8; i++) consider(best, lanes.key[i], uint(lanes.place[i]));
  return best;
}
#else
// The largest of a threadgroup's candidates, in every thread. keys, places: one element for each of 32 simdgroups.
inline Largest largest_of_threadgroup(Largest mine, threadgroup int* keys, threadgroup uint* places, uint lane,
                                      uint simdgroup, uint simdgroups) {
  int key = simd_max(mine.key);
  uint place = simd_min(mine.key == key ? mine.place : 0xffffffffu);
  if (lane == 0) {
    keys[simdgroup] = key;
    places[simdgroup] = place;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  mine.key = lane < simdgroups ? keys[lane] : LOWEST_KEY;
  mine.place = lane < simdgroups ? places[lane] : 0xffffffffu;
  key = simd_max(mine.key);
  return Largest{key, simd_min(mine.key == key ? mine.place : 0xffffffffu)};
}

// The largest of what `groups` threadgroups found, a key and a place each, in every thread of one. Groups with higher numbers
// have higher places, so that the first of equal keys stays.
inline Largest largest_of_parts(const device int* parts, uint groups, threadgroup int* keys, threadgroup uint* places, uint index,
                                uint step, uint lane, uint simdgroup, uint simdgroups) {
  Largest best{LOWEST_KEY, 0xffffffffu};
  for (uint i = index; i < groups; i += step) {
    if (parts[2 * i] > best.key) best = Largest{parts[2 * i], uint(parts[2 * i + 1])};
  }
  return largest_of_threadgroup(best, keys, places, lane, simdgroup, simdgroups);
}

// A threadgroup's share of a row, which `groups` of them take. parts: a key and a place of each threadgroup; arrived: a counter
// (arrival.h). Where is_counted is 0, another launch takes the parts.
struct LargestShare {
  device int* parts;
  device uint* arrived;
  uint row, group, groups, is_counted;

  // Takes what the threadgroup's threads have found, and writes the place of the row's largest value when all are there.
  void put(Largest mine, device int* out, threadgroup int* keys, threadgroup uint* places, threadgroup uint* answer, uint index,
           uint step, uint lane, uint simdgroup, uint simdgroups) {
    Largest best = largest_of_threadgroup(mine, keys, places, lane, simdgroup, simdgroups);
    if (groups > 1) {
      device int* all = parts + size_t(row) * groups * 2;
      if (index == 0) {
        all[2 * group] = best.key;
        all[2 * group + 1] = int(best.place);
      }
      if (is_counted == 0 || !arrives_last(arrived + row, groups, index, answer)) return;
      best = largest_of_parts(all, groups, keys, places, index, step, lane, simdgroup, simdgroups);
    }
    if (index == 0) out[row] = int(best.place);
  }
};
#endif

}  // namespace metal
