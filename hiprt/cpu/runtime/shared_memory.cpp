#include "runtime/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace cpu {

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

size_t round_to_pages(size_t size) { return (size + page_size() - 1) / page_size() * page_size(); }

bool is_mapped(const void *address, size_t size) {
  const auto first = reinterpret_cast<uintptr_t>(address);
  if (size > UINTPTR_MAX - first) return false;
  const uintptr_t begin = first / page_size() * page_size();
  // With this flag the call writes nothing, but it fails where there is no memory.
  return msync(reinterpret_cast<void *>(begin), first + size - begin, MS_ASYNC) == 0;
}

std::shared_ptr<MemoryFile> MemoryFile::make(size_t size) {
  const int made = memfd_create("hiprt", MFD_CLOEXEC);
  if (made >= 0 && ftruncate(made, static_cast<off_t>(size)) == 0) return adopt(made);
  if (made >= 0) close(made);
  return nullptr;
}

std::shared_ptr<MemoryFile> MemoryFile::adopt(int descriptor) {
  if (descriptor < 0) return nullptr;
  struct stat info {};
  if (fstat(descriptor, &info) == 0 && info.st_size > 0) {
    return std::shared_ptr<MemoryFile>(new MemoryFile(descriptor, static_cast<size_t>(info.st_size), info.st_ino));
  }
  close(descriptor);
  return nullptr;
}

std::shared_ptr<MemoryFile> MemoryFile::open(int process, int descriptor) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  // The number may be another process's by now, and its file no memory.
  return adopt(::open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

MemoryFile::~MemoryFile() { close(descriptor); }

void *MemoryFile::map(size_t bytes, void *where, int protection) const {
  void *const at = mmap(where, bytes, protection, MAP_SHARED | (where ? MAP_FIXED : 0), descriptor, 0);
  return at == MAP_FAILED ? nullptr : at;
}

std::shared_ptr<MemoryFile> share_pages(void *base, size_t size) {
  std::shared_ptr<MemoryFile> file = MemoryFile::make(size);
  for (size_t done = 0; file && done < size;) {
    const ssize_t wrote = pwrite(file->descriptor, static_cast<char *>(base) + done, size - done, static_cast<off_t>(done));
    if (wrote <= 0) return nullptr;
    done += static_cast<size_t>(wrote);
  }
  return file && file->map(size, base, PROT_READ | PROT_WRITE) ? file : nullptr;
}

bool unshare_pages(void *base, size_t size) {
  return mmap(base, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

}  // namespace cpu
