// User objects: resources of the application that live as long as a graph, executable graph or launch refers to them.
#pragma once

#include <map>

#include "hip/hip_runtime_api.h"

namespace cpu {

hipUserObject_t create_user_object(void *resource, hipHostFn_t destroy, unsigned references);
// An object that has ended is left alone, and so is one of which more references are dropped than it has; CLR reports
// success for both (hip_graph.cpp:2746-2830 of ROCm/clr @f9f995c6d). The first returns whether there is the object.
bool add_references(hipUserObject_t object, unsigned count);
bool has_references(hipUserObject_t object, unsigned count);
// The end of the last reference calls the application's destroy function, so that the caller holds no lock.
void drop_references(hipUserObject_t object, unsigned count);

// References to user objects, which end with this value.
class UserRefs {
 public:
  UserRefs() = default;
  UserRefs(const UserRefs &other);
  UserRefs &operator=(UserRefs other) {
    counts_.swap(other.counts_);
    return *this;
  }
  ~UserRefs();

  void retain(hipUserObject_t object, unsigned count);
  bool holds(hipUserObject_t object) const { return counts_.count(object) > 0; }
  // Gives references to the caller, who drops them: all that there are, if they are fewer.
  void forget(hipUserObject_t object, unsigned count);

 private:
  std::map<hipUserObject_t, unsigned> counts_;
};

}  // namespace cpu
