// HIP's functions that fill memory: hipMemset and its kin.
#include <algorithm>
#include <utility>

#include "api/submit.h"
#include "graph/capture_rules.h"
#include "quirks/quirks.h"
#include "runtime/fill.h"
#include "runtime/memory.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

hipError_t make_fill(void *dst, uint32_t value, size_t count, uint32_t element_size, std::shared_ptr<FillWork> *out) {
  return make_box_fill({static_cast<std::byte *>(dst), 0, 0}, {count, 1, 1}, value, element_size, out);
}

// Returns whether CLR does not take a fill of rows, though they are in bounds: no pitch is less than a row of `row` bytes, be it
// the only one (ihipMemset3DCommand, hip_memory.cpp:3496 of ROCm/clr @f9f995c6d). Captured, it is a node, whose rules hold.
bool refuses_box(hipStream_t stream, const Box &dst, const hipExtent &extent, size_t row) {
  if (!quirk(Quirk::FillShapeReject) || !extent.width || !extent.height || !extent.depth) return false;
  if (!capture_of(stream)) return dst.pitch < row || has_fewer_rows(dst, extent.height);
  return is_too_wide(dst, extent.height) || (extent.height > 1 && has_fewer_rows(dst, extent.height));
}

hipError_t make_fill_2d(hipStream_t stream, void *dst, size_t pitch, uint32_t value, size_t width, size_t height,
                        uint32_t element_size, std::shared_ptr<FillWork> *out) {
  const Box box{static_cast<std::byte *>(dst), pitch, 0};
  const hipExtent extent{width, height, 1};
  if (refuses_box(stream, box, extent, width * element_size)) return hipErrorInvalidValue;
  return make_box_fill(box, extent, value, element_size, out);
}

hipError_t make_fill_3d(hipStream_t stream, const hipPitchedPtr &dst, int value, const hipExtent &extent,
                        std::shared_ptr<FillWork> *out) {
  const Box box{static_cast<std::byte *>(dst.ptr), dst.pitch, dst.pitch * dst.ysize};
  const size_t row = dst.pitch == extent.width ? extent.width : std::max(dst.xsize, extent.width);
  if (refuses_box(stream, box, extent, row)) return hipErrorInvalidValue;
  return make_box_fill(box, extent, static_cast<uint32_t>(value), 1, out);
}

template <class Make>
hipError_t asynchronous(hipStream_t stream, Make &&make) {
  if (!is_valid(stream)) return no_such_handle();
  std::shared_ptr<FillWork> work;
  const hipError_t error = make(&work);
  if (error || (work->width == 0 && !capture_of(stream))) return error;
  return submit(stream, std::move(work));
}

// Fills of the device's own memory from its begin on are queued, and the call does not wait (ihipMemset, hip_memory.cpp:3349
// of ROCm/clr @f9f995c6d). CUDA's do not wait either.
template <class Make>
hipError_t blocking(Make &&make) {
  if (const hipError_t error = capture_forbids_implicit()) return error;
  std::shared_ptr<FillWork> work;
  const hipError_t error = make(&work);
  if (error || work->width == 0) return error;
  const std::optional<Allocation> found = find_allocation(work->dst.base);
  const bool is_own = found && (found->kind == MemoryKind::Device || found->kind == MemoryKind::Pool);
  const bool waits = !is_own || found->base != work->dst.base;
  return waits ? execute(hipStreamLegacy, std::move(work)) : submit(hipStreamLegacy, std::move(work));
}

}  // namespace
}  // namespace cpu

using namespace cpu;

using Out = std::shared_ptr<FillWork> *;

hipError_t hipMemset(void *dst, int value, size_t size) {
  return api([&] {
    return blocking([&](Out out) { return make_fill(dst, static_cast<uint32_t>(value), size, 1, out); });
  });
}

hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill(dst, static_cast<uint32_t>(value), size, 1, out); });
  });
}

hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count) {
  return api([&] { return blocking([&](Out out) { return make_fill(dst, value, count, 1, out); }); });
}

hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_fill(dst, value, count, 1, out); }); });
}

hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count) {
  return api([&] { return blocking([&](Out out) { return make_fill(dst, value, count, 2, out); }); });
}

hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_fill(dst, value, count, 2, out); }); });
}

hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count) {
  return api([&] {
    return blocking([&](Out out) { return make_fill(dst, static_cast<uint32_t>(value), count, 4, out); });
  });
}

hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill(dst, static_cast<uint32_t>(value), count, 4, out); });
  });
}

hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height) {
  return hipMemsetD2D8(dst, pitch, static_cast<unsigned char>(value), width, height);
}

hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height, hipStream_t stream) {
  return hipMemsetD2D8Async(dst, pitch, static_cast<unsigned char>(value), width, height, stream);
}

hipError_t hipMemsetD2D8(hipDeviceptr_t dst, size_t pitch, unsigned char value, size_t width, size_t height) {
  return api([&] {
    return blocking([&](Out out) { return make_fill_2d(hipStreamLegacy, dst, pitch, value, width, height, 1, out); });
  });
}

hipError_t hipMemsetD2D8Async(hipDeviceptr_t dst, size_t pitch, unsigned char value, size_t width, size_t height,
                              hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill_2d(stream, dst, pitch, value, width, height, 1, out); });
  });
}

hipError_t hipMemsetD2D16(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width, size_t height) {
  return api([&] {
    return blocking([&](Out out) { return make_fill_2d(hipStreamLegacy, dst, pitch, value, width, height, 2, out); });
  });
}

hipError_t hipMemsetD2D16Async(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width, size_t height,
                               hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill_2d(stream, dst, pitch, value, width, height, 2, out); });
  });
}

hipError_t hipMemsetD2D32(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width, size_t height) {
  return api([&] {
    return blocking([&](Out out) { return make_fill_2d(hipStreamLegacy, dst, pitch, value, width, height, 4, out); });
  });
}

hipError_t hipMemsetD2D32Async(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width, size_t height,
                               hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill_2d(stream, dst, pitch, value, width, height, 4, out); });
  });
}

hipError_t hipMemset3D(hipPitchedPtr dst, int value, hipExtent extent) {
  return api([&] { return blocking([&](Out out) { return make_fill_3d(hipStreamLegacy, dst, value, extent, out); }); });
}

hipError_t hipMemset3DAsync(hipPitchedPtr dst, int value, hipExtent extent, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_fill_3d(stream, dst, value, extent, out); }); });
}
