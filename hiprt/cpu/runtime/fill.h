// Fills as work: hipMemset and its kin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "hip/hip_runtime_api.h"
#include "runtime/box.h"
#include "runtime/work.h"

namespace cpu {

// A fill of a box with one value.
struct FillWork : Work {
  FillWork() : Work(hipGraphNodeTypeMemset) {}
  hipError_t run() override;
  bool poison() const override;
  std::shared_ptr<Work> clone() const override { return std::make_shared<FillWork>(*this); }

  Box dst{};
  size_t width = 0;  // elements of a row
  size_t height = 1;
  size_t depth = 1;
  uint32_t value = 0;
  uint32_t element_size = 1;  // 1, 2 or 4
};

// These check arguments as the API does, and make the work. They apply no rule of capture.
hipError_t make_box_fill(const Box &dst, hipExtent elements, uint32_t value, uint32_t element_size,
                         std::shared_ptr<FillWork> *out);
hipError_t make_fill(const hipMemsetParams &params, std::shared_ptr<FillWork> *out);

// What CLR asks of the rows of a fill, beside that they are in bounds.
// Returns whether the rows, each a whole pitch long, are more than the allocation has from its first byte on
// (ihipGraphMemsetParams_validate, hip_memory.cpp:3299 of ROCm/clr @f9f995c6d).
bool is_too_wide(const Box &dst, size_t height);
// Returns whether memory of hipMallocPitch and its kin was asked for with fewer rows, if the fill has its pitch
// (ihipMemset3D_validate, hip_memory.cpp:3487).
bool has_fewer_rows(const Box &dst, size_t height);
// Returns whether memory was asked for with such rows, in bytes, which no memory but that of hipMallocPitch and its kin was
// (GraphMemsetNode::SetParamsInternal, hip_graph_internal.hpp:2115).
bool was_asked_for(const Box &dst, size_t width, size_t height);

}  // namespace cpu
