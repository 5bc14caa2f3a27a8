// Fills: hipMemset and its kin.
#include <algorithm>
#include <cstring>

#include "runtime/copy.h"
#include "runtime/memory.h"
#include "runtime/status.h"
#include "runtime/stream.h"
#include "runtime/transfer.h"

namespace cpu {
namespace {

void fill_row(std::byte *row, size_t count, uint32_t value, uint32_t element_size) {
  switch (element_size) {
    case 1:
      std::memset(row, static_cast<int>(value & 0xFF), count);
      break;
    case 2:
      std::fill_n(reinterpret_cast<uint16_t *>(row), count, static_cast<uint16_t>(value));
      break;
    default:
      std::fill_n(reinterpret_cast<uint32_t *>(row), count, value);
  }
}

// A fill of depth planes. Rows and planes are element-aligned, because the parts of a device see whole elements only.
hipError_t make_box_fill(const Box &dst, hipExtent elements, uint32_t value, uint32_t element_size,
                         std::shared_ptr<FillWork> *out) {
  if (element_size != 1 && element_size != 2 && element_size != 4) return hipErrorInvalidValue;
  auto work = std::make_shared<FillWork>();
  work->value = value;
  work->element_size = element_size;
  *out = work;
  if (elements.width == 0 || elements.height == 0 || elements.depth == 0) {
    work->height = work->depth = 0;
    return hipSuccess;
  }
  size_t row = 0;
  size_t rows = 0;
  size_t size = 0;
  if (__builtin_mul_overflow(elements.width, element_size, &row) ||
      __builtin_mul_overflow(dst.pitch, elements.height - 1, &rows) ||
      __builtin_mul_overflow(dst.slice, elements.depth - 1, &size) || __builtin_add_overflow(size, rows, &size) ||
      __builtin_add_overflow(size, row, &size)) {
    return hipErrorInvalidValue;
  }
  if (elements.height > 1 && dst.pitch < row) return hipErrorInvalidValue;
  const auto address = reinterpret_cast<uintptr_t>(dst.base);
  if (address % element_size || dst.pitch % element_size) return hipErrorInvalidValue;
  // Only memory of the device can be filled by it.
  if (!in_bounds(dst.base, size) || is_pageable(dst.base)) return hipErrorInvalidValue;
  work->dst = dst;
  work->width = elements.width;
  work->height = elements.height;
  work->depth = elements.depth;
  return hipSuccess;
}

hipError_t make_fill(void *dst, uint32_t value, size_t count, uint32_t element_size, std::shared_ptr<FillWork> *out) {
  return make_box_fill({static_cast<std::byte *>(dst), 0, 0}, {count, 1, 1}, value, element_size, out);
}

hipError_t make_fill_2d(void *dst, size_t pitch, uint32_t value, size_t width, size_t height, uint32_t element_size,
                        std::shared_ptr<FillWork> *out) {
  return make_box_fill({static_cast<std::byte *>(dst), pitch, 0}, {width, height, 1}, value, element_size, out);
}

hipError_t make_fill_3d(const hipPitchedPtr &dst, int value, const hipExtent &extent, std::shared_ptr<FillWork> *out) {
  const Box box{static_cast<std::byte *>(dst.ptr), dst.pitch, dst.pitch * dst.ysize};
  return make_box_fill(box, extent, static_cast<uint32_t>(value), 1, out);
}

template <class Make>
hipError_t asynchronous(hipStream_t stream, Make &&make) {
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  std::shared_ptr<FillWork> work;
  const hipError_t error = make(&work);
  if (error || (work->width == 0 && !capture_of(stream))) return error;
  return submit(stream, std::move(work));
}

}  // namespace

hipError_t FillWork::run() {
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      fill_row(dst.base + z * dst.slice + y * dst.pitch, width, value, element_size);
    }
  }
  return hipSuccess;
}

hipError_t make_fill(const hipMemsetParams &p, std::shared_ptr<FillWork> *out) {
  return make_fill_2d(p.dst, p.pitch, p.value, p.width, p.height, p.elementSize, out);
}

}  // namespace cpu

using namespace cpu;

using Out = std::shared_ptr<FillWork> *;

hipError_t hipMemset(void *dst, int value, size_t size) {
  return api([&] {
    return synchronous<FillWork>([&](Out out) { return make_fill(dst, static_cast<uint32_t>(value), size, 1, out); });
  });
}

hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill(dst, static_cast<uint32_t>(value), size, 1, out); });
  });
}

hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count) {
  return api([&] { return synchronous<FillWork>([&](Out out) { return make_fill(dst, value, count, 1, out); }); });
}

hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_fill(dst, value, count, 1, out); }); });
}

hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count) {
  return api([&] { return synchronous<FillWork>([&](Out out) { return make_fill(dst, value, count, 2, out); }); });
}

hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_fill(dst, value, count, 2, out); }); });
}

hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count) {
  return api([&] {
    return synchronous<FillWork>([&](Out out) { return make_fill(dst, static_cast<uint32_t>(value), count, 4, out); });
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
    return synchronous<FillWork>([&](Out out) { return make_fill_2d(dst, pitch, value, width, height, 1, out); });
  });
}

hipError_t hipMemsetD2D8Async(hipDeviceptr_t dst, size_t pitch, unsigned char value, size_t width, size_t height,
                              hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill_2d(dst, pitch, value, width, height, 1, out); });
  });
}

hipError_t hipMemsetD2D16(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width, size_t height) {
  return api([&] {
    return synchronous<FillWork>([&](Out out) { return make_fill_2d(dst, pitch, value, width, height, 2, out); });
  });
}

hipError_t hipMemsetD2D16Async(hipDeviceptr_t dst, size_t pitch, unsigned short value, size_t width, size_t height,
                               hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill_2d(dst, pitch, value, width, height, 2, out); });
  });
}

hipError_t hipMemsetD2D32(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width, size_t height) {
  return api([&] {
    return synchronous<FillWork>([&](Out out) { return make_fill_2d(dst, pitch, value, width, height, 4, out); });
  });
}

hipError_t hipMemsetD2D32Async(hipDeviceptr_t dst, size_t pitch, unsigned int value, size_t width, size_t height,
                               hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_fill_2d(dst, pitch, value, width, height, 4, out); });
  });
}

hipError_t hipMemset3D(hipPitchedPtr dst, int value, hipExtent extent) {
  return api([&] { return synchronous<FillWork>([&](Out out) { return make_fill_3d(dst, value, extent, out); }); });
}

hipError_t hipMemset3DAsync(hipPitchedPtr dst, int value, hipExtent extent, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_fill_3d(dst, value, extent, out); }); });
}
