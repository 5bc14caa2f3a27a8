#include "graph/kernel_arguments.h"

#include "quirks/quirks.h"
#include "runtime/launch.h"

namespace cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kBlitArguments = 64;  // arguments of the kernel that does a copy or fill

size_t slot_size(const Action &action) {
  if (action.type != hipGraphNodeTypeKernel) return kBlitArguments;
  const size_t size = static_cast<const KernelWork &>(*action.work).function.kernel->kernarg_size;
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

// Returns whether arguments come from a bump allocator that only the end of the executable graph empties
// (rocm-systems#10713, hip_graph_internal.cpp:916-968).
bool is_bump() {
  return quirk(Quirk::KernargBumpLeak) || quirk(Quirk::UpdateSwallowError) || quirk(Quirk::KernargNullCrash);
}

}  // namespace

bool is_packet(const Action &action) {
  switch (action.type) {
    case hipGraphNodeTypeKernel:
    case hipGraphNodeTypeMemset: return true;
    case hipGraphNodeTypeMemcpy: return action.source >= 0 && action.target >= 0;
    default: return false;
  }
}

hipError_t Kernargs::take(const Action &action, bool again) {
  if (!is_packet(action) || (again && !is_bump())) return hipSuccess;
  const size_t size = slot_size(action);
  if (is_bump() && bytes_ + size > quirk_numbers.kernarg_limit) {
    // CLR writes through the null pointer that AllocKernArg returns (rocm-systems#10021).
    if (again && quirk(Quirk::KernargNullCrash)) {
      crash(Quirk::KernargNullCrash, "arguments written through the null pointer of a failed allocation");
    }
    return hipErrorOutOfMemory;
  }
  bytes_ += size;
  return hipSuccess;
}

}  // namespace cpu
