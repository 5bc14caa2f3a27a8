// HIP's functions that copy memory.
#include <utility>

#include "api/submit.h"
#include "api/transfer.h"
#include "graph/capture_rules.h"
#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace cpu {
namespace {

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

bool is_own(const std::optional<Allocation> &found) {
  return found && (found->kind == MemoryKind::Device || found->kind == MemoryKind::Pool);
}

// Copies between two pieces of the device's own memory are not waited for, unless both ask for it by
// HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS (ihipMemcpy and ihipMemcpyParam3D, hip_memory.cpp:639 and 2554 of ROCm/clr @f9f995c6d).
// CUDA's are not either.
bool is_waited_for(const CopyWork &work) {
  const std::optional<Allocation> dst = find_allocation(work.dst.base), src = find_allocation(work.src.base);
  return !is_own(dst) || !is_own(src) || dst->device != src->device || (dst->syncs && src->syncs);
}

hipError_t start(hipStream_t stream, std::shared_ptr<CopyWork> work) {
  return is_waited_for(*work) ? execute(stream, std::move(work)) : submit(stream, std::move(work));
}

template <class Make>
hipError_t blocking(Make &&make) {
  if (const hipError_t error = capture_forbids_implicit()) return error;
  std::shared_ptr<CopyWork> work;
  const hipError_t error = make(&work);
  return error || work->width == 0 ? error : start(hipStreamLegacy, std::move(work));
}

hipError_t copy_with_stream(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  if (!is_valid(stream)) return no_such_handle();
  if (const hipError_t error = capture_forbids_sync(canonical(stream))) return error;
  std::shared_ptr<CopyWork> work;
  const hipError_t error = make_copy(dst, src, size, kind, &work);
  return error || work->width == 0 ? error : start(stream, std::move(work));
}

}  // namespace
}  // namespace cpu

using namespace cpu;

using Out = std::shared_ptr<CopyWork> *;

hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind) {
  return api([&] { return blocking([&](Out out) { return make_copy(dst, src, size, kind, out); }); });
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
    return blocking(
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
  return api([&] { return blocking([&](Out out) { return make_copy_2d(params, out); }); });
}

hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *params, hipStream_t stream) {
  return api([&] { return asynchronous(stream, [&](Out out) { return make_copy_2d(params, out); }); });
}

hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *params) { return hipMemcpyParam2D(params); }

hipError_t hipMemcpy3D(const hipMemcpy3DParms *params) {
  return api([&] {
    return blocking([&](Out out) { return params ? make_copy(*params, out) : hipErrorInvalidValue; });
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
    return blocking([&](Out out) { return params ? make_copy(*params, out) : hipErrorInvalidValue; });
  });
}

hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *params, hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return params ? make_copy(*params, out) : hipErrorInvalidValue; });
  });
}
