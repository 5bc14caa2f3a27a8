#include "runtime/copy.h"

#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

#include "check/checks.h"
#include "check/shadow.h"
#include "check/transfers.h"
#include "runtime/array.h"
#include "runtime/memory.h"

namespace cpu {
namespace {

// Copies a box row by row, or at once if the rows follow each other.
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

// Finds where a box begins in the memory that `base` names. Returns false if that is beyond its allocation, where the box
// could lie well within another one.
bool find_start(std::byte *base, hipPos at, size_t pitch, size_t slice, std::byte **out) {
  size_t planes = 0, rows = 0, offset = 0;
  if (__builtin_mul_overflow(at.z, slice, &planes) || __builtin_mul_overflow(at.y, pitch, &rows) ||
      __builtin_add_overflow(planes, rows, &offset) || __builtin_add_overflow(offset, at.x, &offset)) {
    return false;
  }
  *out = base + offset;
  return offset < SIZE_MAX && in_bounds(base, offset + 1);
}

// One side of HIP_MEMCPY3D.
struct Side {
  hipMemoryType type;
  void *host;
  void *device;
  hipArray_t array;
  size_t x, y, z, lod, pitch, height;
};

hipError_t make_side(const Side &side, size_t width, size_t rows, size_t planes, Box *out) {
  if (side.type == hipMemoryTypeArray) {
    const std::shared_ptr<const Array> array = find_array(side.array);
    const bool fits = array && box_in_array(*array, {side.x, side.y, side.z}, {width, rows, planes}, out);
    return fits ? hipSuccess : hipErrorInvalidValue;
  }
  if (side.type != hipMemoryTypeHost && side.type != hipMemoryTypeDevice && side.type != hipMemoryTypeUnified &&
      side.type != hipMemoryTypeManaged) {
    return hipErrorInvalidValue;
  }
  // A pitch or height of zero means that rows or planes are tightly packed.
  const size_t pitch = side.pitch ? side.pitch : side.x + width;
  const size_t height = side.height ? side.height : side.y + rows;
  if (side.lod != 0 || side.x + width > pitch) return hipErrorInvalidValue;
  auto *base = static_cast<std::byte *>(side.type == hipMemoryTypeHost ? side.host : side.device);
  if (!base) return width && rows ? hipErrorInvalidValue : hipSuccess;
  *out = {base, pitch, pitch * height};
  if (width == 0 || rows == 0 || planes == 0) return hipSuccess;
  return find_start(base, {side.x, side.y, side.z}, pitch, pitch * height, &out->base) ? hipSuccess : hipErrorInvalidValue;
}

}  // namespace

bool is_kind(hipMemcpyKind kind) {
  return (kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault) || kind == hipMemcpyDeviceToDeviceNoCU;
}

// Holds a copy against what kernels do to the memory, and hands on which bytes were never written.
static void check_copy_box(const Box &dst, const Box &src, size_t width, size_t height, size_t depth) {
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  begin_transfer("a copy");
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      check_copy(reinterpret_cast<uintptr_t>(dst.base + z * dst.slice + y * dst.pitch),
                 reinterpret_cast<uintptr_t>(src.base + z * src.slice + y * src.pitch), width);
    }
  }
}

hipError_t CopyWork::run() {
  if (width && is_checking()) check_copy_box(dst, src, width, height, depth);
  if (width) copy_box(dst, src, width, height, depth);
  return hipSuccess;
}

bool CopyWork::poison() const {
  cpu::poison(dst, width, height, depth);
  return true;
}

void CopyWork::stage() {
  staged_.reset(new std::byte[width * height * depth]);
  const Box packed{staged_.get(), width, width * height};
  copy_box(packed, src, width, height, depth);
  src = packed;
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

hipError_t make_copy(void *dst, const void *src, size_t size, hipMemcpyKind kind, std::shared_ptr<CopyWork> *out) {
  if (!is_kind(kind)) return hipErrorInvalidMemcpyDirection;
  const Box to{static_cast<std::byte *>(dst), 0, 0};
  const Box from{static_cast<std::byte *>(const_cast<void *>(src)), 0, 0};
  const hipError_t error = make_box_copy(to, from, {size, 1, 1}, out);
  if (!error) (*out)->kind = kind;
  return error;
}

hipError_t make_copy(const hipMemcpy3DParms &p, std::shared_ptr<CopyWork> *out) {
  if (!is_kind(p.kind)) return hipErrorInvalidMemcpyDirection;
  // Each side is an array or a pointer. Beside an array, widths count its elements, and so does a place in it.
  const std::shared_ptr<const Array> to = find_array(p.dstArray), from = find_array(p.srcArray);
  if ((p.dstArray && (!to || p.dstPtr.ptr)) || (p.srcArray && (!from || p.srcPtr.ptr))) return hipErrorInvalidValue;
  if (to && from && to->element() != from->element()) return hipErrorInvalidValue;
  hipExtent extent = p.extent;
  if (to || from) extent.width *= (to ? to : from)->element();
  Box boxes[2];
  int i = 0;
  for (const auto &[array, ptr, pos] : {std::tuple(to.get(), p.dstPtr, p.dstPos), std::tuple(from.get(), p.srcPtr, p.srcPos)}) {
    Box &box = boxes[i++];
    if (array) {
      if (!box_in_array(*array, {pos.x * array->element(), pos.y, pos.z}, extent, &box)) return hipErrorInvalidValue;
      continue;
    }
    if (ptr.pitch < ptr.xsize) return hipErrorInvalidPitchValue;
    const size_t slice = ptr.pitch * ptr.ysize;
    if (ptr.ptr && extent.width && (extent.height > 1 || extent.depth > 1) && pos.x + extent.width > ptr.pitch) {
      return hipErrorInvalidValue;
    }
    box = {static_cast<std::byte *>(ptr.ptr), ptr.pitch, slice};
    const bool empty = extent.width == 0 || extent.height == 0 || extent.depth == 0;
    if (ptr.ptr && !empty && !find_start(box.base, pos, ptr.pitch, slice, &box.base)) return hipErrorInvalidValue;
  }
  const hipError_t error = make_box_copy(boxes[0], boxes[1], extent, out);
  if (!error) (*out)->kind = p.kind;
  return error;
}

hipError_t make_copy(const HIP_MEMCPY3D &p, std::shared_ptr<CopyWork> *out) {
  Box dst{};
  Box src{};
  const Side from{p.srcMemoryType, const_cast<void *>(p.srcHost), p.srcDevice, p.srcArray, p.srcXInBytes,
                  p.srcY, p.srcZ, p.srcLOD, p.srcPitch, p.srcHeight};
  const Side to{p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes,
                p.dstY, p.dstZ, p.dstLOD, p.dstPitch, p.dstHeight};
  if (const hipError_t error = make_side(from, p.WidthInBytes, p.Height, p.Depth, &src)) return error;
  if (const hipError_t error = make_side(to, p.WidthInBytes, p.Height, p.Depth, &dst)) return error;
  return make_box_copy(dst, src, {p.WidthInBytes, p.Height, p.Depth}, out);
}

}  // namespace cpu
