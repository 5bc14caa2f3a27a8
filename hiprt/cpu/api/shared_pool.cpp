// HIP's functions that give pools and their memory to other processes. CLR's hip_mempool.cpp has the rules and the codes.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "enumerator.h"
#include "flags.h"
#include "runtime/device.h"
#include "runtime/imported_memory.h"
#include "runtime/memory.h"
#include "runtime/pool.h"
#include "runtime/shared_memory.h"
#include "runtime/status.h"

namespace cpu {
namespace {

// What the file of an exported pool says.
struct PoolRecord {
  uint64_t magic;
  int device;
  int access[kMaxDevices];  // hipMemAccessFlags
};
constexpr uint64_t kPoolMagic = 0x6c6f702d74727068;  // "hprt-pol"

// What the bytes of an exported pointer hold.
struct PointerTicket {
  uint64_t magic;
  uint64_t pool;  // the identity of its pool's file
  MemoryTicket memory;
};
constexpr uint64_t kPointerMagic = 0x7274702d74727068;  // "hprt-ptr"
static_assert(sizeof(PointerTicket) <= sizeof(hipMemPoolPtrExportData));

// Returns the file that stands for a pool, which it gets at its first export; null if the system refuses.
const MemoryFile *file_of(Pool &pool) {
  if (!pool.file) pool.file = MemoryFile::make(page_size());
  return pool.file.get();
}

hipError_t export_pool(int *out, Pool &pool, int type, unsigned flags) {
  if (!out || flags != 0 || type != hipMemHandleTypePosixFileDescriptor || !pool.is_shareable()) return hipErrorInvalidValue;
  PoolRecord record{kPoolMagic, pool.device(), {}};
  for (const auto &[device, granted] : pool.access) record.access[device] = granted;
  const MemoryFile *const file = file_of(pool);
  if (!file || pwrite(file->descriptor, &record, sizeof record, 0) != sizeof record) return hipErrorOutOfMemory;
  const int descriptor = fcntl(file->descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return hipErrorOutOfMemory;
  std::memcpy(out, &descriptor, sizeof descriptor);
  return hipSuccess;
}

// The handle is the file's number itself, cast to a pointer.
hipError_t import_pool(hipMemPool_t *out, void *handle, int type, unsigned flags) {
  if (!out || !handle || flags != 0 || type != hipMemHandleTypePosixFileDescriptor) return hipErrorInvalidValue;
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  std::shared_ptr<MemoryFile> file = MemoryFile::adopt(fcntl(given, F_DUPFD_CLOEXEC, 0));
  PoolRecord record;
  const bool is_pool = file && pread(file->descriptor, &record, sizeof record, 0) == sizeof record && record.magic == kPoolMagic;
  if (!is_pool || !is_device(record.device)) return hipErrorOutOfMemory;
  hipMemPoolProps props{};
  props.allocType = hipMemAllocationTypePinned;
  props.location = {hipMemLocationTypeDevice, record.device};
  *out = create_pool(props);
  return with_pool(*out, [&](Pool &pool) {
    pool.imported = true;
    pool.file = std::move(file);
    for (int device = 0; device < kMaxDevices; ++device) pool.access[device] = static_cast<hipMemAccessFlags>(record.access[device] & hipMemAccessFlagsProtReadWrite);
    return hipSuccess;
  });
}

hipError_t export_pointer(hipMemPoolPtrExportData *out, void *address) {
  const std::optional<Allocation> found = find_allocation(address);
  if (!out || !found || found->base != address || found->kind != MemoryKind::Pool) return hipErrorInvalidValue;
  return with_pool(found->pool, [&](Pool &pool) {
    if (!pool.is_shareable()) return hipErrorInvalidValue;
    const MemoryFile *const of_pool = file_of(pool);
    const std::shared_ptr<MemoryFile> of_memory = share_memory(*found);
    if (!of_pool || !of_memory) return hipErrorOutOfMemory;
    const PointerTicket ticket{kPointerMagic, of_pool->identity, make_ticket(*of_memory, *found, address)};
    *out = {};
    std::memcpy(out->reserved, &ticket, sizeof ticket);
    return hipSuccess;
  });
}

hipError_t import_pointer(void **out, Pool &pool, const hipMemPoolPtrExportData *data) {
  if (!out || !data || !pool.imported) return hipErrorInvalidValue;
  PointerTicket ticket;
  std::memcpy(&ticket, data->reserved, sizeof ticket);
  if (ticket.magic != kPointerMagic || ticket.pool != pool.file->identity) return hipErrorInvalidValue;
  void *const place = import_memory(ticket.memory, pool.handle);
  if (!place) return hipErrorOutOfMemory;
  *out = place;
  return hipSuccess;
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipMemPoolExportToShareableHandle(void *shared_handle, hipMemPool_t mem_pool,
                                             hipMemAllocationHandleType handle_type, unsigned int flags) {
  return api([&] {
    return with_pool(mem_pool, [&](Pool &pool) {
      return export_pool(static_cast<int *>(shared_handle), pool, number_of(handle_type), flags);
    });
  });
}

hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t *mem_pool, void *shared_handle,
                                               hipMemAllocationHandleType handle_type, unsigned int flags) {
  return api([&] { return import_pool(mem_pool, shared_handle, number_of(handle_type), flags); });
}

hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData *export_data, void *dev_ptr) {
  return api([&] { return export_pointer(export_data, dev_ptr); });
}

hipError_t hipMemPoolImportPointer(void **dev_ptr, hipMemPool_t mem_pool, hipMemPoolPtrExportData *export_data) {
  return api([&] { return with_pool(mem_pool, [&](Pool &pool) { return import_pointer(dev_ptr, pool, export_data); }); });
}
