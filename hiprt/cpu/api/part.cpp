// Parts of memory: a library that takes memory in large pieces and gives out parts of them tells the checks of each part, by
// functions that HIP does not have.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "check/checks.h"
#include "check/shadow.h"
#include "hip/hip_runtime_api.h"
#include "runtime/stream.h"
#include "runtime/work.h"

namespace cpu {
namespace {

// Marks the point in a stream from which on a part may be used, or no more.
struct PartWork : Work {
  PartWork(void *b, size_t s, bool taken, const char *caller)
      : Work(taken ? hipGraphNodeTypeMemAlloc : hipGraphNodeTypeMemFree), base(reinterpret_cast<uintptr_t>(b)), size(s) {
    stack.text = caller;
  }
  hipError_t run() override {
    if (type == hipGraphNodeTypeMemAlloc) memory_taken(base, size, false, stack);
    else part_given_back(base, stack);
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return nullptr; }

  const uintptr_t base;
  const size_t size;
  HostStack stack;
};

}  // namespace
}  // namespace cpu

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Returns whether kernels are checked. If they are not, nobody need call the others.
EXPORTED int hiprt_cpu_is_checking() { return cpu::is_checking(); }

// From now on nothing may be touched of the memory that was taken at an address, but for parts of it that are taken.
EXPORTED void hiprt_cpu_divide(void *base) { cpu::memory_divided(reinterpret_cast<uintptr_t>(base)); }

// These note that the works which are queued on the stream from now on may use a part, or no more. The part holds nothing that
// was written before. `caller` is the line of the program, for reports.
EXPORTED hipError_t hiprt_cpu_take_part(void *base, size_t size, hipStream_t stream, const char *caller) {
  return cpu::enqueue(stream, std::make_shared<cpu::PartWork>(base, size, true, caller));
}
EXPORTED hipError_t hiprt_cpu_give_part_back(void *base, hipStream_t stream, const char *caller) {
  return cpu::enqueue(stream, std::make_shared<cpu::PartWork>(base, 0, false, caller));
}
