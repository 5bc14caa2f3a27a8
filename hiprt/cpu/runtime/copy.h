// Copies as work. All of them copy boxes of bytes, so that the 1D, 2D and 3D forms are one.
#pragma once

#include <cstddef>
#include <memory>

#include "hip/hip_runtime_api.h"
#include "runtime/box.h"
#include "runtime/work.h"

namespace cpu {

// A copy of a box of bytes.
struct CopyWork : Work {
  CopyWork() : Work(hipGraphNodeTypeMemcpy) {}
  hipError_t run() override;
  bool poison() const override;
  std::shared_ptr<Work> clone() const override { return std::make_shared<CopyWork>(*this); }
  // Takes the source's bytes now, so that the caller may change pageable memory at once.
  void stage();

  Box dst{};
  Box src{};
  size_t width = 0;  // bytes of a row
  size_t height = 1;
  size_t depth = 1;
  hipMemcpyKind kind = hipMemcpyDefault;  // as the caller named it; where the memory lies decides

 private:
  std::shared_ptr<std::byte[]> staged_;
};

bool is_kind(hipMemcpyKind kind);

// These check arguments as the API does, and make the work. They stage nothing and apply no rule of capture.
hipError_t make_box_copy(const Box &dst, const Box &src, hipExtent extent, std::shared_ptr<CopyWork> *out);
hipError_t make_copy(void *dst, const void *src, size_t size, hipMemcpyKind kind, std::shared_ptr<CopyWork> *out);
hipError_t make_copy(const hipMemcpy3DParms &params, std::shared_ptr<CopyWork> *out);
hipError_t make_copy(const HIP_MEMCPY3D &params, std::shared_ptr<CopyWork> *out);

}  // namespace cpu
