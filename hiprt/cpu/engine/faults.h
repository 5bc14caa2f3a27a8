// Memory faults and arithmetic traps inside kernels fail the launch; the process lives.
#pragma once

namespace cpu {

// Prepares the calling operating-system thread, so that faults of kernels on it become failed launches. Later calls on
// the same thread cost next to nothing.
void guard_thread();

}  // namespace cpu
