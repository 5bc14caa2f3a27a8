// The recordings of an event that several processes see: numbers in memory that all of them map.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/shared_memory.h"

namespace cpu {

// Names the recordings to other processes.
struct RecordingsTicket {
  int process;
  int descriptor;
  uint64_t identity;
};

class SharedRecordings {
 public:
  // Makes those of a new event; null if the system refuses.
  static std::shared_ptr<SharedRecordings> make();
  // Opens those that a ticket of another process names; null if they are not there any more.
  static std::shared_ptr<SharedRecordings> open(const RecordingsTicket &ticket);
  ~SharedRecordings();
  SharedRecordings(const SharedRecordings &) = delete;
  SharedRecordings &operator=(const SharedRecordings &) = delete;

  RecordingsTicket ticket() const;
  // Returns the number of a new recording, which is the latest one from then on.
  uint64_t begin();
  // Returns the number of the latest recording by any process, 0 if there is none.
  uint64_t latest() const;
  void reach(uint64_t number);
  bool is_reached(uint64_t number) const;

 private:
  // A recording's slot is that of its number's remainder. Recordings that are this far apart and reached out of order are
  // taken for each other.
  static constexpr uint64_t kSlots = 64;
  struct State {
    std::atomic<uint64_t> latest;
    std::atomic<uint64_t> reached[kSlots];  // the greatest number of the slot's recordings that were reached
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  SharedRecordings(std::shared_ptr<MemoryFile> f, State *s) : file_(std::move(f)), state_(s) {}
  static std::shared_ptr<SharedRecordings> map(std::shared_ptr<MemoryFile> file);

  const std::shared_ptr<MemoryFile> file_;
  State *const state_;
};

}  // namespace cpu
