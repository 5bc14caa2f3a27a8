// HIP's functions that give memory and events to other processes. CLR's hip_memory.cpp and hip_event_ipc.cpp have the rules
// and the codes.
#include <unistd.h>

#include <cstring>
#include <memory>

#include "runtime/event.h"
#include "runtime/imported_memory.h"
#include "runtime/scheduler.h"
#include "runtime/status.h"
#include "runtime/work.h"

namespace cpu {
namespace {

// What the bytes of handles hold.
struct Ticket {
  uint64_t magic;
  MemoryTicket memory;
};
struct EventTicket {
  uint64_t magic;
  RecordingsTicket recordings;
};
constexpr uint64_t kMagic = 0x6d656d2d74727068;       // "hprt-mem"
constexpr uint64_t kEventMagic = 0x7476652d74727068;  // "hprt-evt"
static_assert(sizeof(Ticket) <= HIP_IPC_HANDLE_SIZE && sizeof(EventTicket) <= HIP_IPC_HANDLE_SIZE);

// Exchanges the pages of memory. The scheduler runs one work at a time, so that nobody writes them meanwhile.
struct ShareWork : Work {
  explicit ShareWork(const Allocation &a) : Work(hipGraphNodeTypeEmpty), allocation(a) {}
  hipError_t run() override {
    file = share_memory(allocation);
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return nullptr; }

  const Allocation allocation;
  std::shared_ptr<MemoryFile> file;
};

hipError_t get(hipIpcMemHandle_t *out, void *address) {
  if (!out || !address) return hipErrorInvalidValue;
  const std::optional<Allocation> found = find_allocation(address);
  if (!found || found->kind != MemoryKind::Device) return hipErrorInvalidValue;
  const auto work = std::make_shared<ShareWork>(*found);
  const auto stream = std::make_shared<Stream>(found->device, hipStreamNonBlocking, 0, false);
  if (const hipError_t error = Scheduler::get().execute(stream, work)) return error;
  if (!work->file) return hipErrorInvalidValue;
  const Ticket ticket{kMagic, make_ticket(*work->file, *found, address)};
  *out = {};
  std::memcpy(out->reserved, &ticket, sizeof ticket);
  return hipSuccess;
}

hipError_t open(void **out, const hipIpcMemHandle_t &handle, unsigned flags) {
  Ticket ticket;
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  if (!out || flags != hipIpcMemLazyEnablePeerAccess || ticket.memory.size == 0) return hipErrorInvalidValue;
  if (ticket.magic != kMagic) return hipErrorInvalidDevicePointer;
  if (ticket.memory.process == getpid()) return hipErrorInvalidContext;
  void *const place = import_memory(ticket.memory, nullptr);
  if (!place) return hipErrorInvalidDevicePointer;
  *out = place;
  return hipSuccess;
}

hipError_t close(void *address) {
  const std::optional<Allocation> found = find_allocation(address);
  if (!found || found->kind != MemoryKind::Imported || found->pool) return hipErrorInvalidValue;
  Scheduler::get().wait_device(found->device);
  return take_import(found->base, false) ? hipSuccess : hipErrorInvalidValue;
}

hipError_t get(hipIpcEventHandle_t *out, hipEvent_t handle) {
  if (!out || !handle) return hipErrorInvalidValue;
  const std::shared_ptr<Event> event = find_event(handle);
  if (!event) return hipErrorInvalidHandle;
  if (!event->shared) return hipErrorInvalidConfiguration;
  const EventTicket ticket{kEventMagic, event->shared->ticket()};
  *out = {};
  std::memcpy(out->reserved, &ticket, sizeof ticket);
  return hipSuccess;
}

hipError_t open(hipEvent_t *out, const hipIpcEventHandle_t &handle) {
  EventTicket ticket;
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  if (!out || ticket.magic != kEventMagic) return hipErrorInvalidValue;
  if (ticket.recordings.process == getpid()) return hipErrorInvalidContext;
  std::shared_ptr<SharedRecordings> recordings = SharedRecordings::open(ticket.recordings);
  if (!recordings) return hipErrorInvalidValue;
  *out = add_event(hipEventDisableTiming | hipEventInterprocess, std::move(recordings));
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

hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t event) {
  return api([&] { return get(handle, event); });
}

hipError_t hipIpcOpenEventHandle(hipEvent_t *event, hipIpcEventHandle_t handle) {
  return api([&] { return open(event, handle); });
}
