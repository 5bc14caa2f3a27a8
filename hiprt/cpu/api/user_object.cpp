// HIP's functions of user objects.
#include <climits>
#include <mutex>

#include "graph/graph.h"
#include "graph/user_object.h"
#include "runtime/status.h"

using namespace cpu;

namespace {

bool is_count(unsigned count) { return count > 0 && count <= INT_MAX; }

}  // namespace

hipError_t hipUserObjectCreate(hipUserObject_t *object_out, void *ptr, hipHostFn_t destroy,
                               unsigned int initialRefcount, unsigned int flags) {
  return api([&]() -> hipError_t {
    if (!object_out || !destroy || !is_count(initialRefcount)) return hipErrorInvalidValue;
    if (flags != hipUserObjectNoDestructorSync) return hipErrorInvalidValue;
    *object_out = create_user_object(ptr, destroy, initialRefcount);
    return hipSuccess;
  });
}

hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned int count) {
  return api([&] {
    if (!object || !is_count(count)) return hipErrorInvalidValue;
    add_references(object, count);
    return hipSuccess;
  });
}

hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count) {
  return api([&] {
    if (!object || !is_count(count)) return hipErrorInvalidValue;
    drop_references(object, count);
    return hipSuccess;
  });
}

hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count, unsigned int flags) {
  return api([&]() -> hipError_t {
    if (!object || !is_count(count) || (flags & ~hipGraphUserObjectMove) != 0) return hipErrorInvalidValue;
    {
      std::lock_guard<std::mutex> lock(graph_mutex());
      Graph *g = find_graph(graph);
      if (!g) return hipErrorInvalidValue;
      g->users.retain(object, count);
    }
    if (flags & hipGraphUserObjectMove) drop_references(object, count);
    return hipSuccess;
  });
}

hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count) {
  return api([&]() -> hipError_t {
    if (!object || !is_count(count)) return hipErrorInvalidValue;
    {
      std::lock_guard<std::mutex> lock(graph_mutex());
      Graph *g = find_graph(graph);
      if (!g) return hipErrorInvalidValue;
      if (!g->users.holds(object) || !has_references(object, count)) return hipSuccess;
      g->users.forget(object, count);
    }
    // Where the graph has fewer, the others' references go, as in CLR (hip_graph.cpp:2805-2830 of ROCm/clr @f9f995c6d).
    drop_references(object, count);
    return hipSuccess;
  });
}
