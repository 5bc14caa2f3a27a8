// Metal's grids on flat blocks: exactly the threads of the grid run, and threadgroups at its edges are smaller. A block has
// the threads of a whole threadgroup; its first threads form the group that the grid contains, and the others do nothing.
#define HIPRT_LARGEST_GRID 65535u  // the threadgroups that every runtime takes along y, and along z

namespace metal {
namespace hiprt {

// This is passed by value behind a kernel's arguments. For each axis it has the threads of the grid and of a whole threadgroup.
struct extent {
  uint grid[3], whole[3];
};

template <typename T, int N>
struct values {
  T at[N];
};

struct place {
  uint3 group, size, local, whole, grid, groups;
  uint index, threads;

  HIPRT_INLINE explicit place(const extent& of)
      : group(group_of_grid()),
        whole(of.whole[0], of.whole[1], of.whole[2]),
        grid(of.grid[0], of.grid[1], of.grid[2]),
        groups((grid + whole - 1u) / whole),
        index(thread_of_group().x) {
#if HIPRT_FOLDED
    // Threadgroups along y and z lie in one row, which is launched in as many pieces as a row may be long.
    uint at = group.z * HIPRT_LARGEST_GRID + group.y;
    group.y = at % groups.y;
    group.z = at / groups.y;
    if (group.z >= groups.z) {
      threads = 0;
      return;
    }
#endif
    uint3 first = group * whole;
    size.x = min(whole.x, grid.x - first.x);
#if HIPRT_LINE
    size.y = size.z = 1;
    local = uint3(index, 0, 0);
    threads = size.x;
#else
    size.y = min(whole.y, grid.y - first.y);
    size.z = min(whole.z, grid.z - first.z);
    local = uint3(index % size.x, index / size.x % size.y, index / (size.x * size.y));
    threads = size.x * size.y * size.z;
#endif
  }
  HIPRT_INLINE uint whole_threads() const { return whole.x * whole.y * whole.z; }
};

}  // namespace hiprt
}  // namespace metal
