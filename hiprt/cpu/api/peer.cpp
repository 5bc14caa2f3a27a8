// HIP's functions of access to another device's memory. All devices share the host's, so that a request is only
// remembered.
#include "runtime/device.h"
#include "runtime/status.h"

namespace cpu {
namespace {

ihipCtx_t &current_context() { return *primary_context(current_device()); }

hipError_t enable_peer(int peer, unsigned flags) {
  if (flags != 0) return hipErrorInvalidValue;
  if (!is_device(peer) || peer == current_device()) return hipErrorInvalidDevice;
  return current_context().peers[peer].exchange(true) ? hipErrorPeerAccessAlreadyEnabled : hipSuccess;
}

hipError_t disable_peer(int peer) {
  if (!is_device(peer)) return hipErrorInvalidDevice;
  return current_context().peers[peer].exchange(false) ? hipSuccess : hipErrorPeerAccessNotEnabled;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer) {
  return api([&] {
    if (!can) return hipErrorInvalidValue;
    if (!is_device(device) || !is_device(peer)) return hipErrorInvalidDevice;
    *can = device != peer;
    return hipSuccess;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return api([&] { return enable_peer(peer, flags); });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return api([&] { return disable_peer(peer); });
}

hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int source, int target) {
  return api([&] {
    if (!value) return hipErrorInvalidValue;
    if (!is_device(source) || !is_device(target) || source == target) return hipErrorInvalidDevice;
    switch (attribute) {
      case hipDevP2PAttrPerformanceRank:
      case hipDevP2PAttrHipArrayAccessSupported:
        *value = 0;
        return hipSuccess;
      case hipDevP2PAttrAccessSupported:
      case hipDevP2PAttrNativeAtomicSupported:
        *value = 1;
        return hipSuccess;
    }
    return hipErrorInvalidValue;
  });
}

hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned int flags) {
  return api([&] { return is_context(peer) ? enable_peer(peer->device, flags) : hipErrorInvalidContext; });
}

hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  return api([&] { return is_context(peer) ? disable_peer(peer->device) : hipErrorInvalidContext; });
}
