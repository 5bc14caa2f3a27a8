// Cooperative groups: the block, tiles of a warp, the lanes that are active together, and the grid.
#pragma once
#pragma GCC system_header

namespace cooperative_groups {

class thread_block {
 public:
  static __hiprt_inline unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static __hiprt_inline unsigned num_threads() { return size(); }
  static __hiprt_inline unsigned thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  static __hiprt_inline dim3 group_index() { return blockIdx; }
  static __hiprt_inline dim3 thread_index() { return threadIdx; }
  static __hiprt_inline dim3 group_dim() { return blockDim; }
  static __hiprt_inline bool is_valid() { return true; }
  static __hiprt_inline void sync() { __syncthreads(); }
};
__hiprt_inline thread_block this_thread_block() { return thread_block(); }

class grid_group {
 public:
  static __hiprt_inline unsigned long long size() {
    return (unsigned long long)thread_block::size() * gridDim.x * gridDim.y * gridDim.z;
  }
  static __hiprt_inline unsigned long long thread_rank() {
    const unsigned long long block = blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    return block * thread_block::size() + thread_block::thread_rank();
  }
  static __hiprt_inline unsigned long long num_threads() { return size(); }
  static __hiprt_inline dim3 group_dim() { return gridDim; }
  static __hiprt_inline bool is_valid() { return true; }
  static __hiprt_inline void sync() { __hiprt_block_barrier(__hiprt_barrier_grid, 0); }
};
__hiprt_inline grid_group this_grid() { return grid_group(); }

// `Size` neighbouring lanes of a warp. An operation is told apart by the line of its call.
template <unsigned Size, class Parent = thread_block>
class thread_block_tile {
  static_assert(Size && Size <= HIPRT_CPU_WARP && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 lanes");

 public:
  static constexpr unsigned first_key = 1u << 30;
  static __hiprt_inline constexpr unsigned size() { return Size; }
  static __hiprt_inline constexpr unsigned num_threads() { return Size; }
  static __hiprt_inline unsigned thread_rank() { return thread_block::thread_rank() % Size; }
  static __hiprt_inline unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static __hiprt_inline unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  static __hiprt_inline void sync(unsigned line = __builtin_LINE()) { __hiprt_active(first_key + line, 0); }
  template <class T>
  static __hiprt_inline T shfl(T value, int source, unsigned line = __builtin_LINE()) {
    return __hiprt_shfl(first_key + line, 0, value, source, Size);
  }
  template <class T>
  static __hiprt_inline T shfl_up(T value, unsigned delta, unsigned line = __builtin_LINE()) {
    return __hiprt_shfl_up(first_key + line, 0, value, delta, Size);
  }
  template <class T>
  static __hiprt_inline T shfl_down(T value, unsigned delta, unsigned line = __builtin_LINE()) {
    return __hiprt_shfl_down(first_key + line, 0, value, delta, Size);
  }
  template <class T>
  static __hiprt_inline T shfl_xor(T value, unsigned bits, unsigned line = __builtin_LINE()) {
    return __hiprt_shfl_xor(first_key + line, 0, value, int(bits), Size);
  }
  static __hiprt_inline unsigned long long ballot(int predicate, unsigned line = __builtin_LINE()) {
    const unsigned first = __hiprt_self()->lane & ~(Size - 1);
    const unsigned long long votes = __hiprt_ballot(first_key + line, 0, predicate != 0);
    return votes >> first & ((1ull << Size) - 1);
  }
  static __hiprt_inline int any(int predicate, unsigned line = __builtin_LINE()) { return ballot(predicate, line) != 0; }
  static __hiprt_inline int all(int predicate, unsigned line = __builtin_LINE()) { return ballot(!predicate, line) == 0; }
};

template <unsigned Size>
__hiprt_inline thread_block_tile<Size> tiled_partition(const thread_block &) {
  return thread_block_tile<Size>();
}
template <unsigned Size, unsigned From, class Parent>
__hiprt_inline thread_block_tile<Size> tiled_partition(const thread_block_tile<From, Parent> &) {
  static_assert(Size <= From, "a tile can only be divided");
  return thread_block_tile<Size>();
}
// The lanes of a warp that came to one place together, numbered in their order.
class coalesced_group {
 public:
  static constexpr unsigned first_key = 1u << 31;
  __hiprt_inline explicit coalesced_group(unsigned lanes) : lanes_(lanes) {}
  __hiprt_inline unsigned size() const { return unsigned(__builtin_popcount(lanes_)); }
  __hiprt_inline unsigned num_threads() const { return size(); }
  __hiprt_inline unsigned thread_rank() const { return unsigned(__builtin_popcount(lanes_ & ((1u << __hiprt_self()->lane) - 1))); }
  static __hiprt_inline bool is_valid() { return true; }
  __hiprt_inline unsigned meta_group_rank() const { return 0; }
  __hiprt_inline unsigned meta_group_size() const { return 1; }
  __hiprt_inline void sync(unsigned line = __builtin_LINE()) const { __hiprt_active(first_key + line, lanes_); }
  template <class T>
  __hiprt_inline T shfl(T value, int source, unsigned line = __builtin_LINE()) const {
    return __hiprt_gather(first_key + line, value, lane_of(unsigned(source) % size()), lanes_);
  }
  template <class T>
  __hiprt_inline T shfl_down(T value, unsigned delta, unsigned line = __builtin_LINE()) const {
    const unsigned rank = thread_rank();
    return __hiprt_gather(first_key + line, value, lane_of(rank + delta < size() ? rank + delta : rank), lanes_);
  }
  template <class T>
  __hiprt_inline T shfl_up(T value, unsigned delta, unsigned line = __builtin_LINE()) const {
    const unsigned rank = thread_rank();
    return __hiprt_gather(first_key + line, value, lane_of(rank >= delta ? rank - delta : rank), lanes_);
  }
  __hiprt_inline unsigned lanes() const { return lanes_; }
  __hiprt_inline unsigned long long ballot(int predicate, unsigned line = __builtin_LINE()) const {
    const unsigned long long votes = __hiprt_ballot(first_key + line, lanes_, predicate != 0);
    unsigned long long ranked = 0;
    unsigned rank = 0;
    for (unsigned lane = 0; lane < HIPRT_CPU_WARP; ++lane)
      if (lanes_ >> lane & 1) ranked |= (votes >> lane & 1) << rank++;
    return ranked;
  }
  __hiprt_inline int any(int predicate, unsigned line = __builtin_LINE()) const { return ballot(predicate, line) != 0; }
  __hiprt_inline int all(int predicate, unsigned line = __builtin_LINE()) const { return ballot(!predicate, line) == 0; }

 private:
  __hiprt_inline unsigned lane_of(unsigned rank) const {
    unsigned left = lanes_;
    for (; rank; --rank) left &= left - 1;
    return unsigned(__builtin_ctz(left));
  }
  unsigned lanes_;
};
__hiprt_inline coalesced_group coalesced_threads(unsigned line = __builtin_LINE()) {
  return coalesced_group(unsigned(__hiprt_active(coalesced_group::first_key + line, 0)));
}

// Any of these groups, as functions take them that do not say which.
class thread_group {
 public:
  __hiprt_inline thread_group(const thread_block &group) : thread_group(kBlock, group) {}
  __hiprt_inline thread_group(const grid_group &group) : thread_group(kGrid, group) {}
  template <unsigned Size, class Parent>
  __hiprt_inline thread_group(const thread_block_tile<Size, Parent> &group) : thread_group(kLanes, group) {}
  __hiprt_inline thread_group(const coalesced_group &group) : thread_group(kLanes, group) { lanes_ = group.lanes(); }
  __hiprt_inline unsigned long long size() const { return size_; }
  __hiprt_inline unsigned long long num_threads() const { return size_; }
  __hiprt_inline unsigned long long thread_rank() const { return rank_; }
  static __hiprt_inline bool is_valid() { return true; }
  __hiprt_inline void sync(unsigned line = __builtin_LINE()) const {
    if (kind_ == kGrid) grid_group::sync();
    else if (kind_ == kBlock) thread_block::sync();
    else __hiprt_active(coalesced_group::first_key + line, lanes_);
  }

 private:
  enum Kind { kGrid, kBlock, kLanes };
  template <class Group>
  __hiprt_inline thread_group(Kind kind, const Group &group)
      : kind_(kind), lanes_(0), size_(group.size()), rank_(group.thread_rank()) {}
  Kind kind_;
  unsigned lanes_;  // those that are awaited; 0: those that come
  unsigned long long size_, rank_;
};

template <class Group>
__hiprt_inline void sync(const Group &group) {
  group.sync();
}

}  // namespace cooperative_groups
