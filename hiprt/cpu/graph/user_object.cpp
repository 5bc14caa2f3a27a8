#include "graph/user_object.h"

#include <memory>
#include <mutex>

#include "graph/graph.h"
#include "handles.h"
#include "runtime/status.h"

namespace cpu {
namespace {

struct UserObject {
  void *resource;
  hipHostFn_t destroy;
  unsigned long references;
};

struct Registry {
  std::mutex mutex;
  Handles<hipUserObject_t, UserObject> objects;
};

Registry &registry() {
  static Registry *instance = new Registry;
  return *instance;
}

hipError_t add_references(hipUserObject_t handle, unsigned count) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  UserObject *object = registry().objects.find(handle);
  if (!object) return hipErrorInvalidValue;
  object->references += count;
  return hipSuccess;
}

// The last reference calls the application's destroy function, outside our lock.
hipError_t drop_references(hipUserObject_t handle, unsigned count) {
  std::unique_ptr<UserObject> ended;
  {
    std::lock_guard<std::mutex> lock(registry().mutex);
    UserObject *object = registry().objects.find(handle);
    if (!object || object->references < count) return hipErrorInvalidValue;
    object->references -= count;
    if (object->references > 0) return hipSuccess;
    registry().objects.remove(handle);
    ended.reset(object);
  }
  ended->destroy(ended->resource);
  return hipSuccess;
}

}  // namespace

UserRefs::UserRefs(const UserRefs &other) : counts_(other.counts_) {
  for (const auto &[object, count] : counts_) add_references(object, count);
}

UserRefs::~UserRefs() {
  for (const auto &[object, count] : counts_) drop_references(object, count);
}

hipError_t UserRefs::retain(hipUserObject_t object, unsigned count) {
  if (const hipError_t error = add_references(object, count)) return error;
  counts_[object] += count;
  return hipSuccess;
}

hipError_t UserRefs::forget(hipUserObject_t object, unsigned count) {
  const auto it = counts_.find(object);
  if (it == counts_.end() || it->second < count) return hipErrorInvalidValue;
  it->second -= count;
  if (it->second == 0) counts_.erase(it);
  return hipSuccess;
}

}  // namespace cpu

using namespace cpu;

hipError_t hipUserObjectCreate(hipUserObject_t *object_out, void *ptr, hipHostFn_t destroy,
                               unsigned int initialRefcount, unsigned int flags) {
  return api([&]() -> hipError_t {
    if (!object_out || !destroy || initialRefcount == 0) return hipErrorInvalidValue;
    if (flags != hipUserObjectNoDestructorSync) return hipErrorInvalidValue;
    auto object = std::make_unique<UserObject>(UserObject{ptr, destroy, initialRefcount});
    std::lock_guard<std::mutex> lock(registry().mutex);
    *object_out = registry().objects.add(object.get());
    object.release();
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
