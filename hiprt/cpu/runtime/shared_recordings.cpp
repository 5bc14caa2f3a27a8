#include "runtime/shared_recordings.h"

#include <sys/mman.h>
#include <unistd.h>

namespace cpu {

std::shared_ptr<SharedRecordings> SharedRecordings::map(std::shared_ptr<MemoryFile> file) {
  if (!file || file->size < sizeof(State)) return nullptr;
  void *const place = file->map(sizeof(State), nullptr, PROT_READ | PROT_WRITE);
  // A new file's zeros are the state of an event that was never recorded.
  return place ? std::shared_ptr<SharedRecordings>(new SharedRecordings(std::move(file), static_cast<State *>(place)))
               : nullptr;
}

std::shared_ptr<SharedRecordings> SharedRecordings::make() { return map(MemoryFile::make(round_to_pages(sizeof(State)))); }

std::shared_ptr<SharedRecordings> SharedRecordings::open(const RecordingsTicket &ticket) {
  std::shared_ptr<MemoryFile> file = MemoryFile::open(ticket.process, ticket.descriptor);
  return file && file->identity == ticket.identity ? map(std::move(file)) : nullptr;
}

SharedRecordings::~SharedRecordings() { munmap(state_, sizeof(State)); }

RecordingsTicket SharedRecordings::ticket() const { return {getpid(), file_->descriptor, file_->identity}; }

uint64_t SharedRecordings::begin() { return state_->latest.fetch_add(1, std::memory_order_acq_rel) + 1; }

uint64_t SharedRecordings::latest() const { return state_->latest.load(std::memory_order_acquire); }

void SharedRecordings::reach(uint64_t number) {
  std::atomic<uint64_t> &slot = state_->reached[number % kSlots];
  uint64_t before = slot.load(std::memory_order_relaxed);
  while (before < number && !slot.compare_exchange_weak(before, number, std::memory_order_release)) {
  }
}

bool SharedRecordings::is_reached(uint64_t number) const {
  return state_->reached[number % kSlots].load(std::memory_order_acquire) >= number;
}

}  // namespace cpu
