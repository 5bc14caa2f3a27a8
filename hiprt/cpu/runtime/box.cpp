#include "runtime/box.h"

#include "check/poison.h"

namespace cpu {

void poison(const Box &box, size_t row, size_t height, size_t depth) {
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) poison(box.base + z * box.slice + y * box.pitch, row);
  }
}

}  // namespace cpu
