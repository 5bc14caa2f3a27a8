// libhiprt for C++17: owners that release what they hold, arguments with types, failures as exceptions.
//
// Header only; what a function means, and who may call it from which thread, is said in hiprt.h.
#ifndef HIPRT_HIPRT_HPP
#define HIPRT_HIPRT_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hiprt/hiprt.h"

namespace hiprt {

// A call that failed: its status, and what is known about it.
class error : public std::runtime_error {
 public:
  explicit error(int status, bool ran = false)
      : std::runtime_error(std::string(hiprt_failure_call()) + ": " + hiprt_status_name(status) + " " +
                           std::to_string(status) + " " + hiprt_failure_detail()),
        status_(status),
        ran_(ran) {}
  int status() const noexcept { return status_; }
  // Whether something of the step has run, or may have.
  bool ran() const noexcept { return ran_; }

 private:
  int status_;
  bool ran_;
};

inline void check(int status, bool ran = false) {
  if (status) throw error(status, ran);
}

// Open a provider by its name or path; nullptr: the HIP library that the process has loaded.
inline void open(const char *provider = nullptr) { check(hiprt_open(provider, HIPRT_ABI)); }

// What a kernel does with an argument: `reads<T>`, `writes<T>` and `updates<T>` are `count` elements from an address; any
// other type is passed by value.
template <typename T, std::uint32_t Access>
struct buffer {
  T *address;
  std::size_t count;
};
template <typename T>
using reads = buffer<const T, HIPRT_READ>;
template <typename T>
using writes = buffer<T, HIPRT_WRITE>;
template <typename T>
using updates = buffer<T, HIPRT_READ_WRITE>;

namespace detail {
// The bytes of `count` elements; where a number cannot hold that, the largest one, which no memory has.
template <typename T>
constexpr std::size_t bytes_of(std::size_t count) {
  return count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
}

template <typename T>
struct argument {
  static_assert(std::is_trivially_copyable<T>::value, "an argument by value is copied byte by byte");
  static constexpr hiprt_argument form{sizeof(T), alignof(T), HIPRT_BY_VALUE};
  static void *cell(T &value) { return &value; }
  static void extent(const T &, std::uint64_t *&) {}
};
template <typename T, std::uint32_t Access>
struct argument<buffer<T, Access>> {
  static_assert(sizeof(T *) == 8, "addresses have 8 bytes");
  static constexpr hiprt_argument form{8, 8, Access};
  static void *cell(buffer<T, Access> &value) { return &value.address; }
  static void extent(const buffer<T, Access> &value, std::uint64_t *&out) { *out++ = bytes_of<T>(value.count); }
};
}  // namespace detail

// A stream that wraps a HIP stream of a device.
class stream {
 public:
  template <typename Handle>
  stream(Handle handle, int device) : held_(nullptr, &hiprt_stream_release) {
    hiprt_stream *made;
    check(hiprt_stream_create(reinterpret_cast<std::uintptr_t>(handle), device, &made));
    held_.reset(made);
  }
  // The HIP stream stays valid until close().
  void own() { hiprt_stream_own(get()); }
  void close(bool is_valid = true) { hiprt_stream_close(get(), is_valid); }
  void synchronize() { check(hiprt_stream_synchronize(get())); }
  void copy(void *to, const void *from, std::size_t nbytes, int kind) {
    check(hiprt_copy(get(), reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from), nbytes, kind));
  }
  // Fill `count` elements of 1, 2 or 4 bytes.
  template <typename T>
  void fill(T *at, T value, std::size_t count) {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4, "elements of 1, 2 or 4 bytes");
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    check(hiprt_fill(get(), reinterpret_cast<std::uintptr_t>(at), bits, sizeof value, count));
  }
  void barrier() { check(hiprt_barrier(get())); }
  hiprt_stream *get() const noexcept { return held_.get(); }

 private:
  std::unique_ptr<hiprt_stream, void (*)(hiprt_stream *)> held_;
};

class pool;

// Memory of a pool, which is freed behind the work that is on its stream when its owner goes.
template <typename T>
class block {
 public:
  block(block &&other) noexcept : pool_(other.pool_), held_(std::exchange(other.held_, nullptr)), count_(other.count_) {}
  block &operator=(block &&other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(held_, other.held_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~block() {
    if (held_) hiprt_pool_free(pool_, held_);
  }
  T *data() const noexcept { return reinterpret_cast<T *>(static_cast<std::uintptr_t>(held_->address)); }
  std::size_t size() const noexcept { return count_; }

 private:
  friend class pool;
  block(hiprt_pool *from, hiprt_block *held, std::size_t count) : pool_(from), held_(held), count_(count) {}
  hiprt_pool *pool_;
  hiprt_block *held_;
  std::size_t count_;
};

// A pool of a device's memory; limit: the most bytes that it takes from HIP, 0 for no bound.
class pool {
 public:
  explicit pool(int device, std::uint64_t limit = 0) : held_(nullptr, &hiprt_pool_release) {
    hiprt_pool *made;
    check(hiprt_pool_create(device, limit, &made));
    held_.reset(made);
  }
  // Allocate `count` elements for work that is put on the stream from now on.
  template <typename T>
  block<T> allocate(const stream &on, std::size_t count) {
    hiprt_block *made;
    check(hiprt_pool_allocate(get(), on.get(), detail::bytes_of<T>(count), &made));
    return block<T>(get(), made, count);
  }
  // Nothing more is allocated for a stream, which is closed next.
  void leave(const stream &on) { hiprt_pool_leave(get(), on.get()); }
  // Give HIP back what nobody holds; the bytes of it.
  std::uint64_t trim() {
    std::uint64_t nbytes = 0;
    check(hiprt_pool_trim(get(), &nbytes));
    return nbytes;
  }
  hiprt_pool_stats stats() const {
    hiprt_pool_stats counted{};
    hiprt_pool_count(get(), &counted);
    return counted;
  }
  hiprt_pool *get() const noexcept { return held_.get(); }

 private:
  std::unique_ptr<hiprt_pool, void (*)(hiprt_pool *)> held_;
};

// Memory of one step's intermediates; it goes behind the step.
class arena {
 public:
  explicit arena(const pool &of) : held_(nullptr, &hiprt_arena_release) {
    hiprt_arena *made;
    check(hiprt_arena_create(of.get(), &made));
    held_.reset(made);
  }
  // Ask for `count` elements while the step is recorded; only work that is recorded may use the address.
  template <typename T>
  T *request(std::size_t count, bool is_kept = false) {
    std::uint64_t address;
    check(hiprt_arena_request(get(), detail::bytes_of<T>(count), is_kept, &address));
    return reinterpret_cast<T *>(static_cast<std::uintptr_t>(address));
  }
  // Where what was asked for lies since step::settle.
  template <typename T>
  T *find(T *requested) const {
    std::uint64_t address;
    check(hiprt_arena_find(get(), reinterpret_cast<std::uintptr_t>(requested), &address));
    return reinterpret_cast<T *>(static_cast<std::uintptr_t>(address));
  }
  hiprt_plan plan() const {
    hiprt_plan counted{};
    hiprt_arena_count(get(), &counted);
    return counted;
  }
  hiprt_arena *get() const noexcept { return held_.get(); }

 private:
  std::unique_ptr<hiprt_arena, void (*)(hiprt_arena *)> held_;
};

// A kernel whose arguments have these types: kernel<reads<float>, writes<float>, int>.
template <typename... Arguments>
class kernel {
 public:
  template <typename Function>
  kernel(Function function, const char *name) : held_(nullptr, &hiprt_kernel_release) {
    const std::array<hiprt_argument, sizeof...(Arguments) + 1> forms{detail::argument<Arguments>::form...};
    hiprt_kernel *made;
    check(hiprt_kernel_create(reinterpret_cast<std::uintptr_t>(function), name, sizeof...(Arguments), forms.data(), &made));
    held_.reset(made);
  }
  // An argument that is passed by value has an address in it, at the offset of a member; before the first launch.
  void hold_address(std::uint32_t argument, std::size_t offset = 0) {
    check(hiprt_kernel_hold_address(get(), argument, static_cast<std::uint32_t>(std::min<std::size_t>(offset, UINT32_MAX))));
  }
  // Launch it, or record it where this thread records on the stream.
  void operator()(const stream &on, const hiprt_dims &dims, Arguments... arguments) const {
    void *cells[] = {detail::argument<Arguments>::cell(arguments)..., nullptr};
    std::uint64_t extents[sizeof...(Arguments) + 1], *next = extents;
    (detail::argument<Arguments>::extent(arguments, next), ...);
    check(hiprt_launch_kernel(on.get(), held_.get(), &dims, cells, extents));
  }
  hiprt_kernel *get() const noexcept { return held_.get(); }

 private:
  std::unique_ptr<hiprt_kernel, void (*)(hiprt_kernel *)> held_;
};

inline hiprt_rules default_rules() {
  hiprt_rules rules;
  hiprt_rules_default(&rules);
  return rules;
}

// The rungs that a stream's library and device do right, found out with a kernel that writes a number, in device memory for
// HIPRT_PROBE_WORDS of them.
inline std::uint32_t probe(const stream &on, const kernel<writes<std::uint32_t>, std::uint32_t> &store, std::uint32_t *words) {
  std::uint32_t rungs = 0;
  check(hiprt_rules_probe(on.get(), store.get(), reinterpret_cast<std::uintptr_t>(words), &rungs));
  return rungs;
}

// Work that is recorded, and launched as one graph.
class step {
 public:
  explicit step(const char *name, const hiprt_rules &rules = default_rules())
      : held_(hiprt_step_create(name, &rules), &hiprt_step_release) {
    if (!held_) throw error(hiprt_failure_status());
  }
  // Record what `work` puts on the stream, and launch it. After an exception of `work` nothing is launched.
  template <typename Work>
  hiprt_outcome operator()(const stream &on, Work &&work) {
    check(hiprt_step_begin(get(), on.get()));
    try {
      std::forward<Work>(work)();
    } catch (...) {
      hiprt_step_cancel(get());
      throw;
    }
    hiprt_outcome outcome{};
    int ran = 0;
    const int status = hiprt_step_end(get(), &outcome, &ran);
    check(status, ran != 0);
    return outcome;
  }
  // Give what the work asked of an arena its memory: the last that the work of a call does.
  void settle(const arena &of) { check(hiprt_step_settle(get(), of.get())); }
  // Plan the intermediates of what the work has recorded by now: the offset of each in one block.
  std::vector<std::uint64_t> plan(const std::vector<hiprt_intermediate> &intermediates, hiprt_plan *out_plan = nullptr) {
    std::vector<std::uint64_t> offsets(intermediates.size() + 1);
    hiprt_plan size;
    const auto count = static_cast<std::uint32_t>(intermediates.size());
    check(hiprt_step_plan(get(), count, intermediates.data(), offsets.data(), out_plan ? out_plan : &size));
    offsets.pop_back();
    return offsets;
  }
  // Launch a graph that other code captured; a later one of the same work is patched in. `is_given`: it becomes ours.
  template <typename Graph>
  hiprt_outcome adopt(const stream &on, Graph graph, bool is_given = false) {
    hiprt_outcome outcome{};
    int ran = 0;
    const auto handle = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(graph));
    const int status = hiprt_step_adopt(get(), on.get(), handle, is_given, &outcome, &ran);
    check(status, ran != 0);
    return outcome;
  }
  // Launch again what was launched last.
  hiprt_outcome again(const stream &on) {
    hiprt_outcome outcome{};
    int ran = 0;
    const int status = hiprt_step_again(get(), on.get(), &outcome, &ran);
    check(status, ran != 0);
    return outcome;
  }
  // Launch it with buffers at other addresses: those that begin in memory that moves.
  hiprt_outcome move(const stream &on, const hiprt_move *moves, std::size_t count) {
    hiprt_outcome outcome{};
    int ran = 0;
    const int status = hiprt_step_move(get(), on.get(), static_cast<uint32_t>(count), moves, &outcome, &ran);
    check(status, ran != 0);
    return outcome;
  }
  template <std::size_t N>
  hiprt_outcome move(const stream &on, const hiprt_move (&moves)[N]) {
    return move(on, moves, N);
  }
  hiprt_outcome move(const stream &on, const std::vector<hiprt_move> &moves) { return move(on, moves.data(), moves.size()); }
  // Launch it again and compare with an eager run of its nodes: for tests.
  hiprt_mismatch verify(const stream &on) {
    hiprt_mismatch found{};
    int ran = 0;
    const int status = hiprt_step_verify(get(), on.get(), &found, &ran);
    check(status, ran != 0);
    return found;
  }
  // Why the last launch was no replay, with the first difference; and its nodes and edges as JSON.
  std::string explain() const { return text(&hiprt_step_explain); }
  std::string dump() const { return text(&hiprt_step_dump); }
  hiprt_step_stats stats() const {
    hiprt_step_stats counted{};
    hiprt_step_count(get(), &counted);
    return counted;
  }
  hiprt_step *get() const noexcept { return held_.get(); }

 private:
  std::string text(int (*write)(hiprt_step *, char *, uint64_t, uint64_t *)) const {
    uint64_t size = 0;
    check(write(get(), nullptr, 0, &size));
    std::string made(size, ' ');
    check(write(get(), &made[0], size, nullptr));
    made.pop_back();  // the zero
    return made;
  }
  std::unique_ptr<hiprt_step, void (*)(hiprt_step *)> held_;
};

}  // namespace hiprt
#endif
