#include "runtime/fill.h"

#include <algorithm>
#include <cstring>

#include "check/checks.h"
#include "check/shadow.h"
#include "check/transfers.h"
#include "runtime/memory.h"

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

}  // namespace

static void check_fill_box(const FillWork &work) {
  const std::lock_guard<std::recursive_mutex> hold(check_lock());
  begin_transfer("a fill");
  for (size_t z = 0; z < work.depth; ++z) {
    for (size_t y = 0; y < work.height; ++y) {
      check_fill(reinterpret_cast<uintptr_t>(work.dst.base + z * work.dst.slice + y * work.dst.pitch),
                 work.width * work.element_size);
    }
  }
}

hipError_t FillWork::run() {
  if (width && is_checking()) check_fill_box(*this);
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      fill_row(dst.base + z * dst.slice + y * dst.pitch, width, value, element_size);
    }
  }
  return hipSuccess;
}

bool FillWork::poison() const {
  cpu::poison(dst, width * element_size, height, depth);
  return true;
}

// Rows and planes must be aligned to elements, because a device writes whole elements.
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
  // A device can fill only memory that it knows.
  if (!in_bounds(dst.base, size) || is_pageable(dst.base)) return hipErrorInvalidValue;
  work->dst = dst;
  work->width = elements.width;
  work->height = elements.height;
  work->depth = elements.depth;
  return hipSuccess;
}

hipError_t make_fill(const hipMemsetParams &p, std::shared_ptr<FillWork> *out) {
  const Box box{static_cast<std::byte *>(p.dst), p.pitch, 0};
  return make_box_fill(box, {p.width, p.height, 1}, p.value, p.elementSize, out);
}

bool is_too_wide(const Box &dst, size_t height) {
  const auto allocation = find_allocation(dst.base);
  size_t size = 0;
  return allocation && (__builtin_mul_overflow(dst.pitch, height, &size) || size > allocation->size);
}

bool has_fewer_rows(const Box &dst, size_t height) {
  const auto allocation = find_allocation(dst.base);
  return allocation && dst.pitch == allocation->shape.pitch && height > allocation->shape.height;
}

bool was_asked_for(const Box &dst, size_t width, size_t height) {
  const auto allocation = find_allocation(dst.base);
  return allocation && width <= allocation->shape.width && height <= allocation->shape.height;
}

}  // namespace cpu
