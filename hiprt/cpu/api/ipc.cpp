// HIP's functions that give memory to other processes. CLR's hip_memory.cpp has the rules and the codes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/scheduler.h"
#include "runtime/shared_memory.h"
#include "runtime/status.h"

namespace cpu {
namespace {

// What a handle's bytes hold.
struct Ticket {
  uint64_t magic;
  int process;
  int descriptor;
  uint64_t identity;
  size_t size;
  size_t offset;
};
constexpr uint64_t kMagic = 0x6d656d2d74727068;  // "hprt-mem"
static_assert(sizeof(Ticket) <= HIP_IPC_HANDLE_SIZE);

hipError_t get(hipIpcMemHandle_t *out, void *address) {
  if (!out || !address) return hipErrorInvalidValue;
  const std::optional<Allocation> found = find_allocation(address);
  if (!found || found->kind != MemoryKind::Device) return hipErrorInvalidValue;
  // Nobody must write the memory while its pages are exchanged.
  Scheduler::get().wait_device(found->device);
  const std::shared_ptr<MemoryFile> file = share_memory(*found);
  if (!file) return hipErrorInvalidValue;
  const auto offset = static_cast<size_t>(static_cast<char *>(address) - static_cast<char *>(found->base));
  const Ticket ticket{kMagic, getpid(), file->descriptor, file->identity, found->size, offset};
  *out = {};
  std::memcpy(out->reserved, &ticket, sizeof ticket);
  return hipSuccess;
}

hipError_t open(void **out, const hipIpcMemHandle_t &handle, unsigned flags) {
  Ticket ticket;
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  if (!out || flags != hipIpcMemLazyEnablePeerAccess || ticket.size == 0) return hipErrorInvalidValue;
  if (ticket.magic != kMagic) return hipErrorInvalidDevicePointer;
  if (ticket.process == getpid()) return hipErrorInvalidContext;
  const std::shared_ptr<MemoryFile> file = MemoryFile::open(ticket.process, ticket.descriptor);
  const size_t pages = round_to_pages(ticket.size);
  if (!file || file->identity != ticket.identity || file->size != pages || ticket.offset >= ticket.size) return hipErrorInvalidDevicePointer;
  void *const base = file->map(pages, nullptr, PROT_READ | PROT_WRITE);
  if (!base) return hipErrorInvalidDevicePointer;
  show(base, ticket.size, MemoryKind::Imported, current_device(), 0, nullptr);
  *out = static_cast<char *>(base) + ticket.offset;
  return hipSuccess;
}

hipError_t close(void *address) {
  if (!address) return hipErrorInvalidValue;
  const auto imported = [](MemoryKind kind) { return kind == MemoryKind::Imported; };
  const std::optional<Allocation> found = find_allocation(address);
  if (!found || !imported(found->kind)) return hipErrorInvalidValue;
  Scheduler::get().wait_device(found->device);
  const std::optional<Allocation> taken = take_allocation(found->base, imported);
  if (!taken) return hipErrorInvalidValue;
  munmap(taken->base, round_to_pages(taken->size));
  return hipSuccess;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *devPtr) {
  return api([&] { return get(handle, devPtr); });
}

hipError_t hipIpcOpenMemHandle(void **devPtr, hipIpcMemHandle_t handle, unsigned int flags) {
  return api([&] { return open(devPtr, handle, flags); });
}

hipError_t hipIpcCloseMemHandle(void *devPtr) {
  return api([&] { return close(devPtr); });
}
