#include "runtime/array.h"

#include "registry.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/scheduler.h"

namespace cpu {
namespace {

Registry<hipArray_t, const Array> &registry() {
  static auto &arrays = *new Registry<hipArray_t, const Array>;
  return arrays;
}

size_t format_size(hipArray_Format format) {
  switch (format) {
    case HIP_AD_FORMAT_UNSIGNED_INT8:
    case HIP_AD_FORMAT_SIGNED_INT8:
      return 1;
    case HIP_AD_FORMAT_UNSIGNED_INT16:
    case HIP_AD_FORMAT_SIGNED_INT16:
    case HIP_AD_FORMAT_HALF:
      return 2;
    case HIP_AD_FORMAT_UNSIGNED_INT32:
    case HIP_AD_FORMAT_SIGNED_INT32:
    case HIP_AD_FORMAT_FLOAT:
      return 4;
  }
  return 0;
}

bool is_shape(const HIP_ARRAY3D_DESCRIPTOR &s) {
  constexpr unsigned kKnown = hipArrayLayered | hipArraySurfaceLoadStore | hipArrayTextureGather;
  const bool channels = s.NumChannels == 1 || s.NumChannels == 2 || s.NumChannels == 4;
  if (!format_size(s.Format) || !channels || (s.Flags & ~kKnown)) return false;
  if ((s.Flags & hipArrayTextureGather) && (!s.Height || s.Depth)) return false;
  // An array of layers has planes in any case, and another one only if it has rows.
  if (s.Flags & hipArrayLayered ? !s.Depth : s.Depth && !s.Height) return false;
  return s.Width && s.Width <= kMostAcross && s.Height <= kMostAcross && s.Depth <= kMostPlanes;
}

}  // namespace

size_t Array::element() const { return format_size(shape.Format) * shape.NumChannels; }

hipError_t add_array(const HIP_ARRAY3D_DESCRIPTOR &shape, hipArray_t *out) {
  if (!out || !is_shape(shape)) return hipErrorInvalidValue;
  const int device = current_device();
  Array array{shape, nullptr, 0};
  const size_t size = array.pitch() * array.rows() * array.planes();
  void *base = nullptr;
  if (const hipError_t error = reserve(device, size, &base)) return error;
  show(base, size, MemoryKind::Device, device, 0, nullptr);
  array.base = static_cast<std::byte *>(base);
  array.id = find_allocation(base)->id;
  *out = registry().add(std::make_shared<const Array>(array));
  return hipSuccess;
}

hipError_t remove_array(hipArray_t handle) {
  if (!handle) return hipErrorInvalidValue;
  const std::shared_ptr<const Array> live = find_array(handle);
  const std::shared_ptr<const Array> array = registry().remove(handle);
  if (!live || !array) return hipErrorContextIsDestroyed;
  const std::optional<Allocation> memory = find_allocation(array->base);
  if (memory) Scheduler::get().wait_device(memory->device);
  const std::optional<Allocation> taken = take_allocation(array->base, is_device_memory);
  if (taken) release(*taken);
  return hipSuccess;
}

std::shared_ptr<const Array> find_array(hipArray_const_t handle) {
  std::shared_ptr<const Array> array = registry().find(const_cast<hipArray_t>(handle));
  if (!array) return nullptr;
  const std::optional<Allocation> memory = find_allocation(array->base);
  return memory && memory->id == array->id ? array : nullptr;
}

bool box_in_array(const Array &array, hipPos at, hipExtent extent, Box *out) {
  const auto inside = [](size_t from, size_t count, size_t all) { return from <= all && count <= all - from; };
  const size_t pitch = array.pitch(), slice = pitch * array.rows();
  if (!inside(at.x, extent.width, pitch) || !inside(at.y, extent.height, array.rows()) ||
      !inside(at.z, extent.depth, array.planes())) {
    return false;
  }
  *out = {array.base + at.z * slice + at.y * pitch + at.x, pitch, slice};
  return true;
}

}  // namespace cpu
