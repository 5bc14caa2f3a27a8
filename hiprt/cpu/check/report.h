// Reports of the defects that checks find: as text on standard error, or as JSON lines in the file HIPRT_CPU_CHECK_REPORT.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flags.h"

namespace cpu {

// One of the accesses, or the operation, that a defect is about.
struct Involved {
  std::string what;    // as "4 bytes are written"
  std::string line;    // file:line, empty if it has none
  std::string kernel;  // or the work that it is: a copy, a fill
  std::string work;    // which one, as "work 3 of stream 1"; empty if it is not known
  bool is_kernel = false, has_thread = false;  // whether what follows is known
  unsigned block[3] = {}, thread[3] = {};
  unsigned lane = 0;
};

struct Finding {
  CheckKind kind;
  std::string text;  // one sentence
  uint64_t address = 0;
  std::string buffer;  // what lies at the address, empty if nothing is known
  std::vector<Involved> involved;  // the later one first
  std::vector<std::string> stacks;  // where the memory was taken and given back on the host
};

// Tells of a defect, unless it is suppressed or one of the same kind at the same lines has been told of. A line of the
// file that HIPRT_CPU_CHECK_SUPPRESS names is `kind:text`, and suppresses defects of that kind (or of any, if it is *)
// in whose kernels or lines the text occurs.
void report(const Finding &finding);

// Notes that a kernel is checked: the file HIPRT_CPU_CHECK_REPORT is there from then on, though nothing may be found.
void note_checked();

// Tells of kernels that run though they are not checked, as a finding of the kind "unchecked" that is about no access.
void report_unchecked(const std::string &text);

}  // namespace cpu
