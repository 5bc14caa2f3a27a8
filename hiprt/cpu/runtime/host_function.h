// Host functions: calls back into the application from a stream.
#pragma once

#include "hip/hip_runtime_api.h"
#include "check/task_order.h"
#include "runtime/work.h"

namespace cpu {

// A call of hipLaunchHostFunc, or what a host node does.
struct HostWork : Work {
  HostWork(hipHostFn_t f, void *d) : Work(hipGraphNodeTypeHost), fn(f), data(d) {}
  hipError_t run() override {
    fn(data);
    // It may tell the host that what came before is done.
    if (running_task().task) host_waited(running_task().task->clock);
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return std::make_shared<HostWork>(*this); }

  hipHostFn_t fn;
  void *data;
};

}  // namespace cpu
