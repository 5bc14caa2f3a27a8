// Memory faults and arithmetic traps inside kernels: the launch fails, the process lives.
#pragma once

namespace cpu {

// Make faults of kernels on this operating-system thread into failed launches. Once per thread; cheap when done.
void guard_thread();

}  // namespace cpu
