// Memory that other processes can map: files without a name, which live as long as someone maps them or keeps them open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cpu {

// The unit that memory is mapped in.
size_t page_size();
size_t round_to_pages(size_t size);
// Returns whether there is memory at every address of a range.
bool is_mapped(const void *address, size_t size);

// An open file in memory, closed with this object.
class MemoryFile {
 public:
  // Makes a file of zeros; null if the system refuses.
  static std::shared_ptr<MemoryFile> make(size_t size);
  // Takes over an open file, which it closes if its size cannot be told; null then.
  static std::shared_ptr<MemoryFile> adopt(int descriptor);
  // Opens a file that another process has open under this number; null if there is none or it must not be read.
  static std::shared_ptr<MemoryFile> open(int process, int descriptor);
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  // Maps the file's first bytes, at an address that is given or anywhere; null if the system refuses.
  void *map(size_t size, void *where, int protection) const;

  const int descriptor;
  const size_t size;
  const uint64_t identity;  // the system's number of the file, which no other one has while it lives

 private:
  MemoryFile(int d, size_t s, uint64_t i) : descriptor(d), size(s), identity(i) {}
};

// Puts a file with the same content under private memory of whole pages, which nobody else must write meanwhile.
// Returns null if the system refuses.
std::shared_ptr<MemoryFile> share_pages(void *base, size_t size);
// Gives such memory pages of its own again, whose content is zero. Returns false if the system refuses.
bool unshare_pages(void *base, size_t size);

}  // namespace cpu
