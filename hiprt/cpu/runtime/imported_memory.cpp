#include "runtime/imported_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/device.h"

namespace cpu {

MemoryTicket make_ticket(const MemoryFile &file, const Allocation &allocation, const void *address) {
  const auto offset = static_cast<size_t>(static_cast<const char *>(address) - static_cast<char *>(allocation.base));
  return {getpid(), file.descriptor, file.identity, allocation.size, offset};
}

void *import_memory(const MemoryTicket &ticket, hipMemPool_t pool) {
  const std::shared_ptr<MemoryFile> file = MemoryFile::open(ticket.process, ticket.descriptor);
  if (!file || file->identity != ticket.identity) return nullptr;
  if (ticket.size > file->size || ticket.offset >= ticket.size) return nullptr;
  void *const base = file->map(round_to_pages(ticket.size), nullptr, PROT_READ | PROT_WRITE);
  if (!base) return nullptr;
  show(base, ticket.size, MemoryKind::Imported, current_device(), 0, pool);
  return static_cast<char *>(base) + ticket.offset;
}

std::shared_ptr<const Allocation> take_import(const void *base, bool of_pool) {
  const auto imported = [](MemoryKind kind) { return kind == MemoryKind::Imported; };
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || !imported(found->kind) || (found->pool != nullptr) != of_pool) return nullptr;
  const std::optional<Allocation> taken = take_allocation(base, imported);
  if (!taken) return nullptr;
  const auto end = [](const Allocation *gone) {
    munmap(gone->base, round_to_pages(gone->size));
    delete gone;
  };
  return {new Allocation(*taken), end};
}

}  // namespace cpu
