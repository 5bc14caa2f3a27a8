// Calls back into the application from a stream.
#pragma once

#include "runtime/work.h"

namespace cpu {

// hipLaunchHostFunc and host nodes.
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
