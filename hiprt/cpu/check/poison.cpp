#include "check/poison.h"

#include <cstring>

namespace cpu {

void poison(void *base, size_t size) { std::memset(base, 0xFB, size); }

}  // namespace cpu
