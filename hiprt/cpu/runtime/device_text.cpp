#include "runtime/device_text.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "check/checks.h"
#include "check/report.h"
#include "compile/compiler.h"
#include "compile/hash.h"
#include "compile/program.h"
#include "engine/elf_image.h"
#include "include/cpu_abi.h"

namespace cpu {
namespace {

// Reads the parts that Build::keep_text (compile/program.cpp) wrote.
Program read_text(const std::string &text, std::string *machine) {
  Program out;
  out.options.is_hip = out.options.is_preprocessed = true;
  std::istringstream lines(text.substr(0, text.find("\n\n")));
  std::getline(lines, *machine);
  std::getline(lines, out.name);
  for (std::string flag; std::getline(lines, flag);) out.options.flags.push_back(flag);
  out.source = text.substr(std::min(text.find("\n\n") + 2, text.size()));
  return out;
}

}  // namespace

bool image_for_here(const void *image, std::string *out) {
  ElfImage elf;
  if (!read_elf(image, &elf)) return false;
  const auto section = std::find_if(elf.sections.begin(), elf.sections.end(), [](const Section &s) { return s.name == HIPRT_CPU_TEXT; });
  if (section == elf.sections.end()) return false;
  std::string machine;
  const char *bytes = static_cast<const char *>(image) + section->offset;
  const Program program = read_text(std::string(bytes, section->size), &machine);
  if (!is_checking() && machine == sha256_hex(host_cpu())) return false;
  Built built;
  if (build_program(program, &built)) {
    *out = std::move(built.image);
    return true;
  }
  if (is_checking()) report_unchecked("the kernels of " + program.name + ", which cannot be compiled with checks: " + built.log);
  else std::fprintf(stderr, "hiprt: the device part of %s cannot be compiled for this machine: %s\n", program.name.c_str(), built.log.c_str());
  return false;
}

}  // namespace cpu
