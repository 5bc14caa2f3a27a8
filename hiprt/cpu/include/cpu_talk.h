// The mark of an operation by which blocks may tell each other something: its address in a section. While kernels are checked the
// loader knows by it which kernels have none, whose blocks several cores may execute from the first run on.
#pragma once
#pragma GCC system_header

#ifdef __HIPRT_CHECK__
#define __hiprt_may_talk() \
  ({ __asm__ volatile(".pushsection .hiprt_talk,\"a\"\n\t.4byte 0f - .\n\t.popsection\n0:" ::: "memory"); })
#else
#define __hiprt_may_talk() ((void)0)
#endif
