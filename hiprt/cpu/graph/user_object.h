// User objects: resources of the application that live as long as any graph, executable graph or launch refers to them.
#pragma once

#include <map>

#include "hip/hip_runtime_api.h"

namespace cpu {

hipUserObject_t create_user_object(void *resource, hipHostFn_t destroy, unsigned references);
hipError_t add_references(hipUserObject_t object, unsigned count);
// The last reference calls the application's destroy function, so that no lock may be held.
hipError_t drop_references(hipUserObject_t object, unsigned count);

// References to user objects that end with this value. Safe to drop on any thread, with any of our locks held.
class UserRefs {
 public:
  UserRefs() = default;
  UserRefs(const UserRefs &other);
  UserRefs &operator=(UserRefs other) {
    counts_.swap(other.counts_);
    return *this;
  }
  ~UserRefs();

  hipError_t retain(hipUserObject_t object, unsigned count);
  // Stop counting these references; the caller drops them.
  hipError_t forget(hipUserObject_t object, unsigned count);

 private:
  std::map<hipUserObject_t, unsigned> counts_;
};

}  // namespace cpu
