// Copies and fills as work: boxes of bytes, so that 1D, 2D and 3D forms are one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/work.h"

namespace cpu {

// Where a box of rows lies: row z,y starts at base + z * slice + y * pitch.
struct Box {
  std::byte *base;
  size_t pitch;
  size_t slice;
};

struct CopyWork : Work {
  CopyWork() : Work(hipGraphNodeTypeMemcpy) {}
  hipError_t run() override;
  std::shared_ptr<Work> clone() const override { return std::make_shared<CopyWork>(*this); }
  // Take the source's bytes now, so that the caller may reuse pageable memory at once.
  void stage();

  Box dst{};
  Box src{};
  size_t width = 0;  // bytes of a row
  size_t height = 1;
  size_t depth = 1;

 private:
  std::shared_ptr<std::byte[]> staged_;
};

struct FillWork : Work {
  FillWork() : Work(hipGraphNodeTypeMemset) {}
  hipError_t run() override;
  std::shared_ptr<Work> clone() const override { return std::make_shared<FillWork>(*this); }

  Box dst{};
  size_t width = 0;  // elements of a row
  size_t height = 1;
  size_t depth = 1;
  uint32_t value = 0;
  uint32_t element_size = 1;  // 1, 2 or 4
};

// Check arguments as the API does, and make the work. Nothing is staged, and no capture rule is applied.
hipError_t make_copy(void *dst, const void *src, size_t size, hipMemcpyKind kind, std::shared_ptr<CopyWork> *out);
hipError_t make_copy(const hipMemcpy3DParms &params, std::shared_ptr<CopyWork> *out);
hipError_t make_copy(const HIP_MEMCPY3D &params, std::shared_ptr<CopyWork> *out);
hipError_t make_fill(const hipMemsetParams &params, std::shared_ptr<FillWork> *out);

}  // namespace cpu
