// Forks: a child process has none of the device's threads, and the locks that they held stay held there.
#pragma once

namespace cpu {

// Notes that this process uses the device. Returns whether it was forked from a process that had done so.
bool is_forked_from_user();

}  // namespace cpu
