// Host functions: calls back into the application from a stream.
#pragma once

#include "hip/hip_runtime_api.h"
#include "runtime/work.h"

namespace cpu {

// A call of hipLaunchHostFunc, or what a host node does.
struct HostWork : Work {
  HostWork(hipHostFn_t f, void *d) : Work(hipGraphNodeTypeHost), fn(f), data(d) {}
  hipError_t run() override {
    fn(data);
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return std::make_shared<HostWork>(*this); }

  hipHostFn_t fn;
  void *data;
};

}  // namespace cpu
