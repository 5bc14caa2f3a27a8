// HIP's functions of symbols: variables and kernels that a program for hipcc names by their address in its host part.
#include "api/submit.h"
#include "api/transfer.h"
#include "graph/node.h"
#include "runtime/copy.h"
#include "runtime/module.h"
#include "runtime/status.h"
#include "runtime/symbols.h"

namespace cpu {
namespace {

// Gives the place in a variable that a copy of so many bytes begins at.
hipError_t place_in(const void *symbol, size_t size, size_t offset, void **out) {
  void *address = nullptr;
  size_t whole = 0;
  if (!symbol) return hipErrorInvalidSymbol;
  if (const hipError_t error = find_symbol(symbol, &address, &whole)) return error;
  if (offset > whole || size > whole - offset) return hipErrorInvalidValue;
  *out = static_cast<char *>(address) + offset;
  return hipSuccess;
}

bool leads_to_device(hipMemcpyKind kind) {
  return kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU ||
         kind == hipMemcpyDefault;
}

bool leads_from_device(hipMemcpyKind kind) {
  return kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU ||
         kind == hipMemcpyDefault;
}

using Out = std::shared_ptr<CopyWork> *;

hipError_t make_copy_to(const void *symbol, const void *src, size_t size, size_t offset, hipMemcpyKind kind, Out out) {
  void *place = nullptr;
  if (!leads_to_device(kind)) return hipErrorInvalidMemcpyDirection;
  if (const hipError_t error = place_in(symbol, size, offset, &place)) return error;
  return make_copy(place, src, size, kind, out);
}

hipError_t make_copy_from(void *dst, const void *symbol, size_t size, size_t offset, hipMemcpyKind kind, Out out) {
  void *place = nullptr;
  if (!leads_from_device(kind)) return hipErrorInvalidMemcpyDirection;
  if (const hipError_t error = place_in(symbol, size, offset, &place)) return error;
  return make_copy(dst, place, size, kind, out);
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipGetSymbolAddress(void **devPtr, const void *symbol) {
  return api([&] {
    size_t size = 0;
    if (!devPtr) return hipErrorInvalidValue;
    return symbol ? find_symbol(symbol, devPtr, &size) : hipErrorInvalidSymbol;
  });
}

hipError_t hipGetSymbolSize(size_t *size, const void *symbol) {
  return api([&] {
    void *address = nullptr;
    if (!size) return hipErrorInvalidValue;
    return symbol ? find_symbol(symbol, &address, size) : hipErrorInvalidSymbol;
  });
}

hipError_t hipGetFuncBySymbol(hipFunction_t *functionPtr, const void *symbolPtr) {
  return api([&] { return functionPtr && symbolPtr ? find_host_function(symbolPtr, functionPtr) : hipErrorInvalidValue; });
}

hipError_t hipMemcpyToSymbol(const void *symbol, const void *src, size_t sizeBytes, size_t offset, hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) { return make_copy_to(symbol, src, sizeBytes, offset, kind, out); });
  });
}

hipError_t hipMemcpyToSymbolAsync(const void *symbol, const void *src, size_t sizeBytes, size_t offset, hipMemcpyKind kind,
                                  hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_copy_to(symbol, src, sizeBytes, offset, kind, out); });
  });
}

hipError_t hipMemcpyFromSymbol(void *dst, const void *symbol, size_t sizeBytes, size_t offset, hipMemcpyKind kind) {
  return api([&] {
    return synchronous<CopyWork>([&](Out out) { return make_copy_from(dst, symbol, sizeBytes, offset, kind, out); });
  });
}

hipError_t hipMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t sizeBytes, size_t offset, hipMemcpyKind kind,
                                    hipStream_t stream) {
  return api([&] {
    return asynchronous(stream, [&](Out out) { return make_copy_from(dst, symbol, sizeBytes, offset, kind, out); });
  });
}
