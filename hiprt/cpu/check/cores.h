// The cores that execute blocks of a checked kernel side by side. Each has what only its own blocks touch to itself.
#pragma once

#include <memory>
#include <vector>

#include "flags.h"
#include "include/cpu_abi.h"

namespace cpu {

// Which core the calling thread is; 0 for threads that execute no blocks. Fibers stay on theirs.
extern __thread unsigned this_core __attribute__((tls_model("initial-exec")));
// What checked kernels look at on this core, which they find by its distance from the thread pointer.
extern __thread __hiprt_check *core_context __attribute__((tls_model("initial-exec")));

// One of each core's own, made when it is first asked for.
template <class T>
class PerCore {
 public:
  T &own() {
    std::unique_ptr<T> &one = all_[this_core];
    if (!one) one = std::make_unique<T>();
    return *one;
  }
  // Returns a core's, or null. The core executes nothing meanwhile.
  T *of(size_t core) { return all_[core].get(); }
  size_t count() const { return all_.size(); }

 private:
  std::vector<std::unique_ptr<T>> all_ = std::vector<std::unique_ptr<T>>(flags().threads);
};

}  // namespace cpu
