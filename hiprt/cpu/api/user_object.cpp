// HIP's functions of user objects.
#include <mutex>

#include "graph/graph.h"
#include "graph/user_object.h"
#include "runtime/status.h"

using namespace cpu;

hipError_t hipUserObjectCreate(hipUserObject_t *object_out, void *ptr, hipHostFn_t destroy,
                               unsigned int initialRefcount, unsigned int flags) {
  return api([&]() -> hipError_t {
    if (!object_out || !destroy || initialRefcount == 0) return hipErrorInvalidValue;
    if (flags != hipUserObjectNoDestructorSync) return hipErrorInvalidValue;
    *object_out = create_user_object(ptr, destroy, initialRefcount);
    return hipSuccess;
  });
}

hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned int count) {
  return api([&] { return count == 0 ? hipErrorInvalidValue : add_references(object, count); });
}

hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned int count) {
  return api([&] { return count == 0 ? hipErrorInvalidValue : drop_references(object, count); });
}

hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count, unsigned int flags) {
  return api([&]() -> hipError_t {
    if (count == 0 || (flags & ~hipGraphUserObjectMove) != 0) return hipErrorInvalidValue;
    {
      std::lock_guard<std::mutex> lock(graph_mutex());
      Graph *g = find_graph(graph);
      if (!g) return hipErrorInvalidValue;
      if (const hipError_t error = g->users.retain(object, count)) return error;
    }
    return flags & hipGraphUserObjectMove ? drop_references(object, count) : hipSuccess;
  });
}

hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count) {
  return api([&]() -> hipError_t {
    if (count == 0) return hipErrorInvalidValue;
    {
      std::lock_guard<std::mutex> lock(graph_mutex());
      Graph *g = find_graph(graph);
      if (!g) return hipErrorInvalidValue;
      if (const hipError_t error = g->users.forget(object, count)) return error;
    }
    return drop_references(object, count);
  });
}
