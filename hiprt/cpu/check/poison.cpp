#include "check/poison.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/copy.h"
#include "runtime/launch.h"
#include "runtime/memory.h"

namespace cpu {
namespace {

constexpr int kByte = 0xFB;
constexpr size_t kReach = 256;  // bytes behind a kernel's pointer

void poison_box(const Box &box, size_t row, size_t height, size_t depth) {
  for (size_t z = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) std::memset(box.base + z * box.slice + y * box.pitch, kByte, row);
  }
}

// Which arguments are pointers is not known; those of a pointer's size that point into device memory are.
void poison_memory(const KernelWork &kernel) {
  const auto &params = kernel.function.kernel->params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].size != sizeof(void *)) continue;
    std::byte *address = nullptr;
    std::memcpy(&address, kernel.argument(i), sizeof address);
    const auto found = find_allocation(address);
    if (!found) continue;
    const size_t left = found->size - static_cast<size_t>(address - static_cast<std::byte *>(found->base));
    std::memset(address, kByte, std::min(left, kReach));
  }
}

struct PoisonWork : Work {
  explicit PoisonWork(std::shared_ptr<Work> v) : Work(v->type), victim(std::move(v)) {}
  hipError_t run() override {
    poison(*victim);
    return hipSuccess;
  }
  std::shared_ptr<Work> clone() const override { return std::make_shared<PoisonWork>(victim->clone()); }

  const std::shared_ptr<Work> victim;
};

}  // namespace

bool poison(const Work &work) {
  if (const auto *kernel = dynamic_cast<const KernelWork *>(&work)) {
    poison_memory(*kernel);
  } else if (const auto *copy = dynamic_cast<const CopyWork *>(&work)) {
    poison_box(copy->dst, copy->width, copy->height, copy->depth);
  } else if (const auto *fill = dynamic_cast<const FillWork *>(&work)) {
    poison_box(fill->dst, fill->width * fill->element_size, fill->height, fill->depth);
  } else {
    return false;
  }
  return true;
}

std::shared_ptr<Work> poisoned(std::shared_ptr<Work> work) { return std::make_shared<PoisonWork>(std::move(work)); }

bool peek(void *to, const void *from, size_t size) {
  const iovec here{to, size};
  const iovec there{const_cast<void *>(from), size};
  return size == 0 || process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
}

}  // namespace cpu
