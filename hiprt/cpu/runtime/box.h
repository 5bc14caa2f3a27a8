// Boxes of bytes: where the rows of a 1D, 2D or 3D copy or fill lie.
#pragma once

#include <cstddef>

namespace cpu {

// A box, whose row y of plane z starts at base + z * slice + y * pitch.
struct Box {
  std::byte *base;
  size_t pitch;
  size_t slice;
};

// Fills a box with poison; `row` is the bytes of a row.
void poison(const Box &box, size_t row, size_t height, size_t depth);

}  // namespace cpu
