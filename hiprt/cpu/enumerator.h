// Enumerators of the C interface as numbers. Callers may pass any value, which C++ must not read as an enumerator.
#pragma once

#include <cstring>
#include <type_traits>

namespace cpu {

template <class E>
int number_of(const E &enumerator) {
  static_assert(std::is_enum_v<E> && sizeof(E) == sizeof(int));
  int number;
  std::memcpy(&number, &enumerator, sizeof number);
  return number;
}

}  // namespace cpu
