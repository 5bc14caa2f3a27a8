#include "check/peek.h"

#include <sys/uio.h>
#include <unistd.h>

namespace cpu {

bool peek(void *to, const void *from, size_t size) {
  const iovec here{to, size};
  const iovec there{const_cast<void *>(from), size};
  return size == 0 || process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
}

}  // namespace cpu
