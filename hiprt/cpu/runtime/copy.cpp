#include "runtime/copy.h"

#include <cstring>

#include "graph/capture.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/status.h"
#include "runtime/stream.h"
#include "runtime/transfer.h"

namespace cpu {
namespace {

// Copy a box row by row, or at once where rows follow each other.
void copy_box(const Box &dst, const Box &src, size_t width, size_t height, size_t depth) {
  const size_t plane = width * height;
  const bool dense_rows = height == 1 || (dst.pitch == width && src.pitch == width);
  if (dense_rows && (depth == 1 || (dst.slice == plane && src.slice == plane))) {
    std::memmove(dst.base, src.base, plane * depth);
    return;
  }
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      std::memmove(dst.base + z * dst.slice + y * dst.pitch, src.base + z * src.slice + y * src.pitch, width);
    }
  }
}

bool box_in_bounds(const Box &box, size_t width, size_t height, size_t depth) {
  size_t rows = 0;
  size_t slices = 0;
  size_t size = 0;
  return !__builtin_mul_overflow(box.pitch, height - 1, &rows) &&
         !__builtin_mul_overflow(box.slice, depth - 1, &slices) && !__builtin_add_overflow(rows, slices, &size) &&
         !__builtin_add_overflow(size, width, &size) && in_bounds(box.base, size);
}

bool is_kind(hipMemcpyKind kind) {
  return (kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault) || kind == hipMemcpyDeviceToDeviceNoCU;
}

hipError_t make_box_copy(const Box &dst, const Box &src, hipExtent extent, std::shared_ptr<CopyWork> *out) {
  auto work = std::make_shared<CopyWork>();
  const bool empty = extent.width == 0 || extent.height == 0 || extent.depth == 0;
  if (!empty) {
    for (const Box *box : {&dst, &src}) {
      if (!box_in_bounds(*box, extent.width, extent.height, extent.depth)) return hipErrorInvalidValue;
    }
    work->dst = dst;
    work->src = src;
    work->width = extent.width;
    work->height = extent.height;
    work->depth = extent.depth;
  }
  *out = std::move(work);
  return hipSuccess;
}

// One side of HIP_MEMCPY3D.
struct Side {
  hipMemoryType type;
  void *host;
  void *device;
  hipArray_t array;
  size_t x, y, z, lod, pitch, height;
};

hipError_t make_side(const Side &side, size_t width, size_t rows, Box *out) {
  if (side.type == hipMemoryTypeArray || side.array) return hipErrorNotSupported;
  if (side.type != hipMemoryTypeHost && side.type != hipMemoryTypeDevice && side.type != hipMemoryTypeUnified &&
      side.type != hipMemoryTypeManaged) {
    return hipErrorInvalidValue;
  }
  // Zero means tightly packed.
  const size_t pitch = side.pitch ? side.pitch : side.x + width;
  const size_t height = side.height ? side.height : side.y + rows;
  if (side.lod != 0 || side.x + width > pitch) return hipErrorInvalidValue;
  auto *base = static_cast<std::byte *>(side.type == hipMemoryTypeHost ? side.host : side.device);
  if (!base) return width && rows ? hipErrorInvalidValue : hipSuccess;
  *out = {base + side.z * pitch * height + side.y * pitch + side.x, pitch, pitch * height};
  return hipSuccess;
}

hipError_t make_copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                        hipMemcpyKind kind, std::shared_ptr<CopyWork> *out) {
  if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
  if (width && height) {
    if (!dst || !src) return hipErrorInvalidValue;
    if (dpitch < width || spitch < width) return hipErrorInvalidPitchValue;
  }
  const Box to{static_cast<std::byte *>(dst), dpitch, 0};
  const Box from{static_cast<std::byte *>(const_cast<void *>(src)), spitch, 0};
  return make_box_copy(to, from, {width, height, 1}, out);
}

hipError_t make_copy_2d(const hip_Memcpy2D *p, std::shared_ptr<CopyWork> *out) {
  if (!p) return hipErrorInvalidValue;
  HIP_MEMCPY3D full{};
  full.srcXInBytes = p->srcXInBytes;
  full.srcY = p->srcY;
  full.srcMemoryType = p->srcMemoryType;
  full.srcHost = p->srcHost;
  full.srcDevice = p->srcDevice;
  full.srcArray = p->srcArray;
  full.srcPitch = p->srcPitch;
  full.dstXInBytes = p->dstXInBytes;
  full.dstY = p->dstY;
  full.dstMemoryType = p->dstMemoryType;
  full.dstHost = p->dstHost;
  full.dstDevice = p->dstDevice;
  full.dstArray = p->dstArray;
  full.dstPitch = p->dstPitch;
  full.WidthInBytes = p->WidthInBytes;
  full.Height = p->Height;
  full.Depth = 1;
  return make_copy(full, out);
}

hipError_t make_peer_copy(void *dst, int dst_device, const void *src, int src_device, size_t size,
                          std::shared_ptr<CopyWork> *out) {
  if (!is_device(dst_device) || !is_device(src_device)) return hipErrorInvalidDevice;
  return make_copy(dst, src, size, hipMemcpyDeviceToDevice, out);
}

hipError_t make_peer_copy(const hipMemcpy3DPeerParms *p, std::shared_ptr<CopyWork> *out) {
  if (!p) return hipErrorInvalidValue;
  if (!is_device(p->dstDevice) || !is_device(p->srcDevice)) return hipErrorInvalidDevice;
  return make_copy({p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos, p->dstPtr, p->extent,
                    hipMemcpyDeviceToDevice},
                   out);
}

// HIP finishes an asynchronous copy that touches pageable memory before it returns; taking a copy of the source is
// as good, and lets a stream go on.
template <class Make>
hipError_t asynchronous(hipStream_t stream, Make &&make) {
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  std::shared_ptr<CopyWork> work;
  if (const hipError_t error = make(&work)) return error;
  if (capture_of(stream)) return submit(stream, std::move(work));
  if (work->width == 0) return hipSuccess;
  if (is_pageable(work->dst.base)) return execute(stream, std::move(work));
  if (is_pageable(work->src.base)) work->stage();
  return submit(stream, std::move(work));
}

hipError_t copy_with_stream(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  if (!is_valid(stream)) return hipErrorInvalidHandle;
  if (const hipError_t error = capture_forbids_sync(canonical(stream))) return error;
  std::shared_ptr<CopyWork> work;
  const hipError_t error = make_copy(dst, src, size, kind, &work);
  return error || work->width == 0 ? error : execute(stream, std::move(work));
}

}  // namespace

hipError_t CopyWork::run() {
  if (width) copy_box(dst, src, width, height, depth);
  return hipSuccess;
}

void CopyWork::stage() {
  staged_.reset(new std::byte[width * height * depth]);
  const Box packed{staged_.get(), width, width * height};
  copy_box(packed, src, width, height, depth);
  src = packed;
}

hipError_t make_copy(void *dst, const void *src, size_t size, hipMemcpyKind kind, std::shared_ptr<CopyWork> *out) {
  if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
  const Box to{static_cast<std::byte *>(dst), 0, 0};
  const Box from{static_cast<std::byte *>(const_cast<void *>(src)), 0, 0};
  return make_box_copy(to, from, {size, 1, 1}, out);
}

hipError_t make_copy(const hipMemcpy3DParms &p, std::shared_ptr<CopyWork> *out) {
  if (!is_kind(p.kind)) return hipErrorInvalidMemcpyDirection;
  if (p.srcArray || p.dstArray) return hipErrorNotSupported;
  Box boxes[2];
  int i = 0;
  for (const auto &[ptr, pos] : {std::pair(p.dstPtr, p.dstPos), std::pair(p.srcPtr, p.srcPos)}) {
    const size_t slice = ptr.pitch * ptr.ysize;
    if (ptr.ptr && p.extent.width && (p.extent.height > 1 || p.extent.depth > 1) &&
        pos.x + p.extent.width > ptr.pitch) {
      return hipErrorInvalidValue;
    }
    const size_t offset = pos.z * slice + pos.y * ptr.pitch + pos.x;
    boxes[i++] = {ptr.ptr ? static_cast<std::byte *>(ptr.ptr) + offset : nullptr, ptr.pitch, slice};
  }
  return make_box_copy(boxes[0], boxes[1], p.extent, out);
}

hipError_t make_copy(const HIP_MEMCPY3D &p, std::shared_ptr<CopyWork> *out) {
  Box dst{};
  Box src{};
  const Side from{p.srcMemoryType, const_cast<void *>(p.srcHost), p.srcDevice, p.srcArray, p.srcXInBytes,
                  p.srcY, p.srcZ, p.srcLOD, p.srcPitch, p.srcHeight};
  const Side to{p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes,
                p.dstY, p.dstZ, p.dstLOD, p.dstPitch, p.dstHeight};
  if (const hipError_t error = make_side(from, p.WidthInBytes, p.Height, &src)) return error;
  if (const hipError_t error = make_side(to, p.WidthInBytes, p.Height, &dst)) return error;
  return make_box_copy(dst, src, {p.WidthInBytes, p.Height, p.Depth}, out);
}

}  // namespace cpu

using namespace cpu;

using Out = std::shared_ptr<CopyWork> *;

hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind) {
  return api([&] { return synchronous<CopyWork>([&](Out out) { return make_copy(dst, src, size, kind, out); }); });
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void *src, size_t size) {
  return hipMemcpy(dst, src, size, hipMemcpyHostToDevice);
}

hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size) {
  return hipMemcpy(dst, src, size, hipMemcpyDeviceToHost);
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size) {
  return hipMemcpy(dst, src, size, hipMemcpyDeviceToDevice);
}

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_copy(dst, src, size, kind, out); }); });
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, const void *src, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, size, hipMemcpyHostToDevice, stream);
}

hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToHost, stream);
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToDevice, stream);
}

hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  return api([&] { return copy_with_stream(dst, src, size, kind, stream); });
}

hipError_t hipMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t size) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) { return make_peer_copy(dst, dst_device, src, src_device, size, out); });
  });
}

hipError_t hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t size,
                              hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_peer_copy(dst, dst_device, src, src_device, size, out); });
  });
}

hipError_t hipMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>(
        [&](Out out) { return make_copy_2d(dst, dpitch, src, spitch, width, height, kind, out); });
  });
}

hipError_t hipMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            hipMemcpyKind kind, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream,
                        [&](Out out) { return make_copy_2d(dst, dpitch, src, spitch, width, height, kind, out); });
  });
}

hipError_t hipMemcpyParam2D(const hip_Memcpy2D *params) {
  return api([&] { return synchronous<CopyWork>([&](Out out) { return make_copy_2d(params, out); }); });
}

hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *params, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_copy_2d(params, out); }); });
}

hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *params) { return hipMemcpyParam2D(params); }

hipError_t hipMemcpy3D(const hipMemcpy3DParms *params) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) { return params ? make_copy(*params, out) : hipErrorInvalidValue; });
  });
}

hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms *params, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return params ? make_copy(*params, out) : hipErrorInvalidValue; });
  });
}

hipError_t hipMemcpy3DPeer(hipMemcpy3DPeerParms *params) {
  return api([&] { return synchronous<CopyWork>([&](Out out) { return make_peer_copy(params, out); }); });
}

hipError_t hipMemcpy3DPeerAsync(hipMemcpy3DPeerParms *params, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_peer_copy(params, out); }); });
}

hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *params) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) { return params ? make_copy(*params, out) : hipErrorInvalidValue; });
  });
}

hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *params, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return params ? make_copy(*params, out) : hipErrorInvalidValue; });
  });
}
