// HIP's functions of symbols: variables and kernels that a program for hipcc names by their address in its host part.
#include "api/submit.h"
#include "api/transfer.h"
#include "runtime/copy.h"
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

// Calls with the place in a variable that a node copies to or from. A node is made and changed as one of plain memory is.
template <class Call>
hipError_t with_place(const void *symbol, size_t size, size_t offset, bool is_direction, Call &&call) {
  void *place = nullptr;
  const hipError_t error = api([&] { return is_direction ? place_in(symbol, size, offset, &place) : hipErrorInvalidMemcpyDirection; });
  return error ? error : call(place);
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

hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                         size_t numDependencies, const void *symbol, const void *src, size_t count,
                                         size_t offset, hipMemcpyKind kind) {
  return with_place(symbol, count, offset, leads_to_device(kind), [&](void *place) {
    return hipGraphAddMemcpyNode1D(pGraphNode, graph, pDependencies, numDependencies, place, src, count, kind);
  });
}

hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                           size_t numDependencies, void *dst, const void *symbol, size_t count, size_t offset,
                                           hipMemcpyKind kind) {
  return with_place(symbol, count, offset, leads_from_device(kind), [&](void *place) {
    return hipGraphAddMemcpyNode1D(pGraphNode, graph, pDependencies, numDependencies, dst, place, count, kind);
  });
}

hipError_t hipGraphMemcpyNodeSetParamsToSymbol(hipGraphNode_t node, const void *symbol, const void *src, size_t count,
                                               size_t offset, hipMemcpyKind kind) {
  return with_place(symbol, count, offset, leads_to_device(kind),
                    [&](void *place) { return hipGraphMemcpyNodeSetParams1D(node, place, src, count, kind); });
}

hipError_t hipGraphMemcpyNodeSetParamsFromSymbol(hipGraphNode_t node, void *dst, const void *symbol, size_t count, size_t offset,
                                                 hipMemcpyKind kind) {
  return with_place(symbol, count, offset, leads_from_device(kind),
                    [&](void *place) { return hipGraphMemcpyNodeSetParams1D(node, dst, place, count, kind); });
}

hipError_t hipGraphExecMemcpyNodeSetParamsToSymbol(hipGraphExec_t hGraphExec, hipGraphNode_t node, const void *symbol,
                                                   const void *src, size_t count, size_t offset, hipMemcpyKind kind) {
  return with_place(symbol, count, offset, leads_to_device(kind), [&](void *place) {
    return hipGraphExecMemcpyNodeSetParams1D(hGraphExec, node, place, src, count, kind);
  });
}

hipError_t hipGraphExecMemcpyNodeSetParamsFromSymbol(hipGraphExec_t hGraphExec, hipGraphNode_t node, void *dst,
                                                     const void *symbol, size_t count, size_t offset, hipMemcpyKind kind) {
  return with_place(symbol, count, offset, leads_from_device(kind), [&](void *place) {
    return hipGraphExecMemcpyNodeSetParams1D(hGraphExec, node, dst, place, count, kind);
  });
}
