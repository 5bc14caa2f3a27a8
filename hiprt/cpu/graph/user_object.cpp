#include "graph/user_object.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "handles.h"

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

}  // namespace

hipUserObject_t create_user_object(void *resource, hipHostFn_t destroy, unsigned references) {
  auto object = std::make_unique<UserObject>(UserObject{resource, destroy, references});
  std::lock_guard<std::mutex> lock(registry().mutex);
  const hipUserObject_t handle = registry().objects.add(object.get());
  object.release();
  return handle;
}

bool add_references(hipUserObject_t handle, unsigned count) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  UserObject *object = registry().objects.find(handle);
  if (object) object->references += count;
  return object;
}

bool has_references(hipUserObject_t handle, unsigned count) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  const UserObject *object = registry().objects.find(handle);
  return object && object->references >= count;
}

void drop_references(hipUserObject_t handle, unsigned count) {
  std::unique_ptr<UserObject> ended;
  {
    std::lock_guard<std::mutex> lock(registry().mutex);
    UserObject *object = registry().objects.find(handle);
    if (!object || object->references < count) return;
    object->references -= count;
    if (object->references > 0) return;
    registry().objects.remove(handle);
    ended.reset(object);
  }
  ended->destroy(ended->resource);
}

UserRefs::UserRefs(const UserRefs &other) : counts_(other.counts_) {
  for (const auto &[object, count] : counts_) add_references(object, count);
}

UserRefs::~UserRefs() {
  for (const auto &[object, count] : counts_) drop_references(object, count);
}

void UserRefs::retain(hipUserObject_t object, unsigned count) {
  unsigned &held = counts_[object];
  if (add_references(object, count)) held += count;
}

void UserRefs::forget(hipUserObject_t object, unsigned count) {
  const auto it = counts_.find(object);
  if (it == counts_.end()) return;
  it->second -= std::min(it->second, count);
  if (it->second == 0) counts_.erase(it);
}

}  // namespace cpu
