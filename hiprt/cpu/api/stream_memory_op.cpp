// HIP's functions that have a stream write a value to memory or wait for one there, and batches of both.
#include <cstdint>

#include "api/submit.h"
#include "runtime/status.h"
#include "runtime/work.h"

namespace cpu {
namespace {

template <class T>
struct WriteWork : Work {
  WriteWork(void *a, T v) : Work(hipGraphNodeTypeBatchMemOp), address(static_cast<T *>(a)), value(v) {}
  hipError_t run() override {
    __atomic_store_n(address, value, __ATOMIC_RELEASE);
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return std::make_shared<WriteWork>(*this); }

  T *address;
  T value;
};

template <class T>
struct WaitWork : Work {
  WaitWork(void *a, T v, unsigned f, T m)
      : Work(hipGraphNodeTypeBatchMemOp), address(static_cast<const T *>(a)), value(v), mask(m), flags(f) {}
  hipError_t run() override { return hipSuccess; }
  std::shared_ptr<Work> clone() const override { return std::make_shared<WaitWork>(*this); }
  bool ready() const override {
    const T now = __atomic_load_n(address, __ATOMIC_ACQUIRE) & mask;
    const T wanted = value & mask;
    switch (flags) {
      case hipStreamWaitValueGte:
        // Values wrap around, so that a later one is less than half the range ahead.
        return static_cast<std::make_signed_t<T>>(now - wanted) >= 0;
      case hipStreamWaitValueEq:
        return now == wanted;
      case hipStreamWaitValueAnd:
        return (now & wanted) != 0;
      default:
        return static_cast<T>(~(now | wanted) & mask) != 0;
    }
  }

  const T *address;
  T value;
  T mask;
  unsigned flags;
};

template <class T>
bool is_aligned(const void *address) {
  return address && reinterpret_cast<uintptr_t>(address) % sizeof(T) == 0;
}

template <class T>
hipError_t write(hipStream_t stream, void *address, T value, unsigned flags) {
  if (!is_aligned<T>(address) || flags != 0) return hipErrorInvalidValue;
  return submit(stream, std::make_shared<WriteWork<T>>(address, value));
}

template <class T>
hipError_t wait_value(hipStream_t stream, void *address, T value, unsigned flags, T mask) {
  if (!is_aligned<T>(address) || flags > hipStreamWaitValueNor) return hipErrorInvalidValue;
  return submit(stream, std::make_shared<WaitWork<T>>(address, value, flags, mask));
}

hipError_t operate(hipStream_t stream, const hipStreamBatchMemOpParams &op) {
  switch (op.operation) {
    case hipStreamMemOpWaitValue32:
      return wait_value<uint32_t>(stream, op.waitValue.address, op.waitValue.value, op.waitValue.flags, UINT32_MAX);
    case hipStreamMemOpWaitValue64:
      return wait_value<uint64_t>(stream, op.waitValue.address, op.waitValue.value64, op.waitValue.flags, UINT64_MAX);
    case hipStreamMemOpWriteValue32:
      return write<uint32_t>(stream, op.writeValue.address, op.writeValue.value, op.writeValue.flags);
    case hipStreamMemOpWriteValue64:
      return write<uint64_t>(stream, op.writeValue.address, op.writeValue.value64, op.writeValue.flags);
    // Works of a stream run one after the other and see each other's writes, so that there is nothing to do.
    case hipStreamMemOpBarrier:
    case hipStreamMemOpFlushRemoteWrites:
      return hipSuccess;
  }
  return hipErrorInvalidValue;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipStreamWriteValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags) {
  return api([&] { return write<uint32_t>(stream, ptr, value, flags); });
}

hipError_t hipStreamWriteValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags) {
  return api([&] { return write<uint64_t>(stream, ptr, value, flags); });
}

hipError_t hipStreamWaitValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags, uint32_t mask) {
  return api([&] { return wait_value<uint32_t>(stream, ptr, value, flags, mask); });
}

hipError_t hipStreamWaitValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags, uint64_t mask) {
  return api([&] { return wait_value<uint64_t>(stream, ptr, value, flags, mask); });
}

hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned int count, hipStreamBatchMemOpParams *ops,
                               unsigned int flags) {
  return api([&] {
    constexpr unsigned kMost = 256;
    if (!ops || count == 0 || count > kMost || flags != 0) return hipErrorInvalidValue;
    for (unsigned i = 0; i < count; ++i) {
      if (const hipError_t error = operate(stream, ops[i])) return error;
    }
    return hipSuccess;
  });
}
