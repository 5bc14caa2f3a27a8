// HIP's functions of arrays. CLR's hip_memory.cpp has the rules and the codes.
#include "runtime/array.h"

#include "api/submit.h"
#include "api/transfer.h"
#include "graph/capture_rules.h"
#include "runtime/copy.h"
#include "runtime/status.h"

namespace cpu {
namespace {

using Out = std::shared_ptr<CopyWork> *;

hipError_t create(hipArray_t *out, const HIP_ARRAY3D_DESCRIPTOR &shape) {
  if (!out) return hipErrorInvalidValue;
  if (const hipError_t error = capture_forbids_alloc()) return error;
  return add_array(shape, out);
}

// Gives the format of a channel; false if elements of arrays are not made of such channels.
bool format_of(const hipChannelFormatDesc &desc, hipArray_Format *format, unsigned *channels) {
  const int bits[4] = {desc.x, desc.y, desc.z, desc.w};
  *channels = 0;
  for (const int each : bits) {
    // All channels have one size, and none comes after one that is missing.
    if (each && (each != desc.x || bits[*channels] == 0)) return false;
    *channels += each != 0;
  }
  struct Known {
    int bits;
    hipChannelFormatKind kind;
    hipArray_Format format;
  };
  constexpr Known kKnown[] = {{8, hipChannelFormatKindUnsigned, HIP_AD_FORMAT_UNSIGNED_INT8},
                              {16, hipChannelFormatKindUnsigned, HIP_AD_FORMAT_UNSIGNED_INT16},
                              {32, hipChannelFormatKindUnsigned, HIP_AD_FORMAT_UNSIGNED_INT32},
                              {8, hipChannelFormatKindSigned, HIP_AD_FORMAT_SIGNED_INT8},
                              {16, hipChannelFormatKindSigned, HIP_AD_FORMAT_SIGNED_INT16},
                              {32, hipChannelFormatKindSigned, HIP_AD_FORMAT_SIGNED_INT32},
                              {16, hipChannelFormatKindFloat, HIP_AD_FORMAT_HALF},
                              {32, hipChannelFormatKindFloat, HIP_AD_FORMAT_FLOAT}};
  for (const Known &known : kKnown) {
    if (known.bits == desc.x && known.kind == desc.f) return *format = known.format, true;
  }
  return false;
}

hipChannelFormatDesc channels_of(const Array &array) {
  const int bits = static_cast<int>(8 * array.element() / array.shape.NumChannels);
  const unsigned count = array.shape.NumChannels;
  hipChannelFormatKind kind = hipChannelFormatKindUnsigned;
  switch (array.shape.Format) {
    case HIP_AD_FORMAT_SIGNED_INT8:
    case HIP_AD_FORMAT_SIGNED_INT16:
    case HIP_AD_FORMAT_SIGNED_INT32:
      kind = hipChannelFormatKindSigned;
      break;
    case HIP_AD_FORMAT_HALF:
    case HIP_AD_FORMAT_FLOAT:
      kind = hipChannelFormatKindFloat;
      break;
    default:
      break;
  }
  return {bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0, kind};
}

hipError_t create(hipArray_t *out, const hipChannelFormatDesc *desc, hipExtent extent, unsigned flags) {
  HIP_ARRAY3D_DESCRIPTOR shape{extent.width, extent.height, extent.depth, {}, 0, flags};
  if (!desc || !format_of(*desc, &shape.Format, &shape.NumChannels)) return hipErrorInvalidValue;
  return create(out, shape);
}

// Calls with the array that a query is of.
template <class Call>
hipError_t query(hipArray_t handle, Call &&call) {
  return api([&] {
    if (const hipError_t error = capture_forbids_alloc()) return error;
    const std::shared_ptr<const Array> array = find_array(handle);
    return array ? call(*array) : hipErrorInvalidHandle;
  });
}

Box box_of(const void *base, size_t pitch) {
  return {static_cast<std::byte *>(const_cast<void *>(base)), pitch, 0};
}

// Gives the rows of a one- or two-dimensional part of an array.
hipError_t part_of(hipArray_const_t handle, size_t x, size_t y, size_t width, size_t height, Box *out) {
  const std::shared_ptr<const Array> array = find_array(handle);
  if (!array) return hipErrorInvalidHandle;
  return box_in_array(*array, {x, y, 0}, {width, height, 1}, out) ? hipSuccess : hipErrorInvalidValue;
}

hipError_t check_rows(const void *base, size_t pitch, size_t width) {
  if (!base) return hipErrorInvalidValue;
  return pitch == 0 || pitch < width ? hipErrorInvalidPitchValue : hipSuccess;
}

hipError_t copy_to(hipArray_t dst, size_t x, size_t y, const void *src, size_t pitch, size_t width, size_t height,
                   hipMemcpyKind kind, Out out) {
  Box part{};
  if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
  if (const hipError_t error = check_rows(src, pitch, width)) return error;
  if (const hipError_t error = part_of(dst, x, y, width, height, &part)) return error;
  return make_box_copy(part, box_of(src, pitch), {width, height, 1}, out);
}

hipError_t copy_from(void *dst, size_t pitch, hipArray_const_t src, size_t x, size_t y, size_t width, size_t height,
                     hipMemcpyKind kind, Out out) {
  Box part{};
  if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
  if (const hipError_t error = part_of(src, x, y, width, height, &part)) return error;
  if (const hipError_t error = check_rows(dst, pitch, width)) return error;
  return make_box_copy(box_of(dst, pitch), part, {width, height, 1}, out);
}

hipError_t copy_between(hipArray_t dst, size_t dst_x, size_t dst_y, hipArray_const_t src, size_t src_x, size_t src_y,
                        size_t width, size_t height, hipMemcpyKind kind, Out out) {
  Box to{}, from{};
  if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
  if (const hipError_t error = part_of(src, src_x, src_y, width, height, &from)) return error;
  if (const hipError_t error = part_of(dst, dst_x, dst_y, width, height, &to)) return error;
  return make_box_copy(to, from, {width, height, 1}, out);
}

// The forms that count bytes along the first row, which call a missing array or pointer an invalid value.
hipError_t row_of(hipArray_const_t handle, size_t offset, size_t count, Box *out) {
  return part_of(handle, offset, 0, count, 1, out) ? hipErrorInvalidValue : hipSuccess;
}

hipError_t write_row(hipArray_t dst, size_t offset, const void *src, size_t count, Out out) {
  Box row{};
  if (!src) return hipErrorInvalidValue;
  if (const hipError_t error = row_of(dst, offset, count, &row)) return error;
  return make_box_copy(row, box_of(src, count), {count, 1, 1}, out);
}

hipError_t read_row(void *dst, hipArray_const_t src, size_t offset, size_t count, Out out) {
  Box row{};
  if (!dst) return hipErrorInvalidValue;
  if (const hipError_t error = row_of(src, offset, count, &row)) return error;
  return make_box_copy(box_of(dst, count), row, {count, 1, 1}, out);
}

// The deprecated forms that count bytes of whole rows.
hipError_t rows_of(hipArray_const_t handle, size_t x, size_t y, size_t count, Box *out, hipExtent *extent) {
  const std::shared_ptr<const Array> array = find_array(handle);
  if (!array) return hipErrorInvalidValue;
  *extent = {count / array->rows(), count / array->pitch(), 1};
  return box_in_array(*array, {x, y, 0}, *extent, out) ? hipSuccess : hipErrorInvalidValue;
}

hipError_t read_rows(void *dst, hipArray_const_t src, size_t x, size_t y, size_t count, hipMemcpyKind kind, Out out) {
  Box part{};
  hipExtent extent{};
  if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
  if (const hipError_t error = dst ? rows_of(src, x, y, count, &part, &extent) : hipErrorInvalidValue) return error;
  return make_box_copy(box_of(dst, extent.width), part, extent, out);
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *desc, size_t width, size_t height,
                          unsigned int flags) {
  return api([&] { return create(array, desc, {width, height, 0}, flags); });
}

hipError_t hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *desc, hipExtent extent, unsigned int flags) {
  return api([&] { return create(array, desc, extent, flags); });
}

hipError_t hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *desc) {
  return api([&] {
    if (!desc) return hipErrorInvalidValue;
    return create(array, {desc->Width, desc->Height, 0, desc->Format, desc->NumChannels, hipArrayDefault});
  });
}

hipError_t hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *desc) {
  return api([&] { return desc ? create(array, *desc) : hipErrorInvalidValue; });
}

hipError_t hipFreeArray(hipArray_t array) {
  return api([&] {
    if (const hipError_t error = capture_forbids_alloc()) return error;
    return remove_array(array);
  });
}

hipError_t hipArrayDestroy(hipArray_t array) { return hipFreeArray(array); }

hipError_t hipArrayGetInfo(hipChannelFormatDesc *desc, hipExtent *extent, unsigned int *flags, hipArray_t array) {
  return query(array, [&](const Array &found) {
    if (desc) *desc = channels_of(found);
    if (extent) *extent = {found.shape.Width, found.shape.Height, found.shape.Depth};
    if (flags) *flags = found.shape.Flags;
    return hipSuccess;
  });
}

hipError_t hipGetChannelDesc(hipChannelFormatDesc *desc, hipArray_const_t array) {
  return api([&] {
    const std::shared_ptr<const Array> found = find_array(array);
    if (!desc || !found) return hipErrorInvalidValue;
    *desc = channels_of(*found);
    return hipSuccess;
  });
}

hipError_t hipArrayGetDescriptor(HIP_ARRAY_DESCRIPTOR *out, hipArray_t array) {
  return query(array, [&](const Array &found) {
    if (!out) return hipErrorInvalidValue;
    *out = {found.shape.Width, found.shape.Height, found.shape.Format, found.shape.NumChannels};
    return hipSuccess;
  });
}

hipError_t hipArray3DGetDescriptor(HIP_ARRAY3D_DESCRIPTOR *out, hipArray_t array) {
  return query(array, [&](const Array &found) {
    if (!out) return hipErrorInvalidValue;
    *out = found.shape;
    return hipSuccess;
  });
}

hipError_t hipMemcpy2DToArray(hipArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
                              size_t height, hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>(
        [&](Out out) { return copy_to(dst, wOffset, hOffset, src, spitch, width, height, kind, out); });
  });
}

hipError_t hipMemcpy2DToArrayAsync(hipArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
                                   size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream,
                        [&](Out out) { return copy_to(dst, wOffset, hOffset, src, spitch, width, height, kind, out); });
  });
}

hipError_t hipMemcpy2DFromArray(void *dst, size_t dpitch, hipArray_const_t src, size_t wOffset, size_t hOffset,
                                size_t width, size_t height, hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>(
        [&](Out out) { return copy_from(dst, dpitch, src, wOffset, hOffset, width, height, kind, out); });
  });
}

hipError_t hipMemcpy2DFromArrayAsync(void *dst, size_t dpitch, hipArray_const_t src, size_t wOffset, size_t hOffset,
                                     size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream,
                        [&](Out out) { return copy_from(dst, dpitch, src, wOffset, hOffset, width, height, kind, out); });
  });
}

hipError_t hipMemcpy2DArrayToArray(hipArray_t dst, size_t wOffsetDst, size_t hOffsetDst, hipArray_const_t src,
                                   size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height, hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) {
      return copy_between(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height, kind, out);
    });
  });
}

hipError_t hipMemcpyToArray(hipArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
                            hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) {
      Box part{};
      hipExtent extent{};
      if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
      if (const hipError_t error = src ? rows_of(dst, wOffset, hOffset, count, &part, &extent) : hipErrorInvalidValue) return error;
      return make_box_copy(part, box_of(src, extent.width), extent, out);
    });
  });
}

hipError_t hipMemcpyFromArray(void *dst, hipArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                              hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) { return read_rows(dst, src, wOffset, hOffset, count, kind, out); });
  });
}

// The form for the thread's own stream, which has no public one that does not wait.
hipError_t hipMemcpyFromArray_spt(void *dst, hipArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                                  hipMemcpyKind kind) {
  return api([&] {
    const hipError_t error = asynchronous(
        hipStreamPerThread, [&](Out out) { return read_rows(dst, src, wOffset, hOffset, count, kind, out); });
    return error ? error : hipStreamSynchronize(hipStreamPerThread);
  });
}

hipError_t hipMemcpyAtoH(void *dst, hipArray_t src, size_t offset, size_t count) {
  return api([&] { return synchronous<CopyWork>([&](Out out) { return read_row(dst, src, offset, count, out); }); });
}

hipError_t hipMemcpyHtoA(hipArray_t dst, size_t offset, const void *src, size_t count) {
  return api([&] { return synchronous<CopyWork>([&](Out out) { return write_row(dst, offset, src, count, out); }); });
}

hipError_t hipMemcpyAtoD(hipDeviceptr_t dst, hipArray_t src, size_t offset, size_t count) {
  return api([&] {
    return synchronous<CopyWork>(
        [&](Out out) { return is_pageable(dst) ? hipErrorInvalidValue : read_row(dst, src, offset, count, out); });
  });
}

hipError_t hipMemcpyDtoA(hipArray_t dst, size_t offset, hipDeviceptr_t src, size_t count) {
  return api([&] {
    return synchronous<CopyWork>(
        [&](Out out) { return is_pageable(src) ? hipErrorInvalidValue : write_row(dst, offset, src, count, out); });
  });
}

hipError_t hipMemcpyAtoA(hipArray_t dst, size_t dstOffset, hipArray_t src, size_t srcOffset, size_t count) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) {
      Box to{}, from{};
      if (row_of(dst, dstOffset, count, &to) || row_of(src, srcOffset, count, &from)) return hipErrorInvalidValue;
      return make_box_copy(to, from, {count, 1, 1}, out);
    });
  });
}

hipError_t hipMemcpyAtoHAsync(void *dst, hipArray_t src, size_t offset, size_t count, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return read_row(dst, src, offset, count, out); }); });
}

hipError_t hipMemcpyHtoAAsync(hipArray_t dst, size_t offset, const void *src, size_t count, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return write_row(dst, offset, src, count, out); }); });
}

hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *desc, hipExtent, unsigned int,
                                   unsigned int) {
  return api([&] {
    hipArray_Format format{};
    unsigned channels = 0;
    return array && desc && format_of(*desc, &format, &channels) ? hipErrorNotSupported : hipErrorInvalidValue;
  });
}

hipError_t hipMipmappedArrayCreate(hipMipmappedArray_t *, HIP_ARRAY3D_DESCRIPTOR *, unsigned int) {
  return api([] { return hipErrorNotSupported; });
}

hipError_t hipFreeMipmappedArray(hipMipmappedArray_t) {
  return api([] { return hipErrorInvalidValue; });
}

hipError_t hipMipmappedArrayDestroy(hipMipmappedArray_t array) { return hipFreeMipmappedArray(array); }

hipError_t hipGetMipmappedArrayLevel(hipArray_t *, hipMipmappedArray_const_t, unsigned int) {
  return api([] { return hipErrorInvalidValue; });
}

hipError_t hipMipmappedArrayGetLevel(hipArray_t *, hipMipmappedArray_t, unsigned int) {
  return api([] { return hipErrorInvalidValue; });
}
