// Arrays: memory behind a handle, whose rows and planes lie close together.
#pragma once

#include <cstddef>
#include <memory>

#include "hip/hip_runtime_api.h"
#include "runtime/box.h"

namespace cpu {

// The largest extents of AMD's GPUs, in elements.
constexpr int kMostAcross = 16384;
constexpr int kMostPlanes = 8192;

struct Array {
  size_t element() const;
  // A height or depth of zero means that the array has no such dimension.
  size_t rows() const { return shape.Height ? shape.Height : 1; }
  size_t planes() const { return shape.Depth ? shape.Depth : 1; }
  size_t pitch() const { return shape.Width * element(); }

  HIP_ARRAY3D_DESCRIPTOR shape;
  std::byte *base;
  unsigned long long id;  // its allocation's
};

// Makes an array of the current device.
hipError_t add_array(const HIP_ARRAY3D_DESCRIPTOR &shape, hipArray_t *out);
// Ends the handle and frees the memory, once the device is idle. hipErrorContextIsDestroyed: there is no such array.
hipError_t remove_array(hipArray_t array);
// Returns the live array behind a handle, or null. An array does not outlive its device's reset.
std::shared_ptr<const Array> find_array(hipArray_const_t array);

// Gives the box of an array that starts at byte x of row y in plane z; false if so much does not lie in it.
bool box_in_array(const Array &array, hipPos at, hipExtent extent, Box *out);

}  // namespace cpu
