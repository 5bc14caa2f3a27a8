// The C++ compilers that hiprtc can use: which there are, and how each makes a shared object.
#pragma once

#include <string>
#include <vector>

namespace cpu {

struct Compiler {
  enum Kind { Zig, Clang, Gcc } kind;
  std::string path;
  std::string identity;  // changes when the program changes
};

// Those found, best first: HIPRT_CPU_COMPILER alone if set; else HIPRT_CPU_ZIG or the ziglang package beside ours, then
// clang++, clang++-NN and g++ on PATH. Ones that proved unable to compile anything are left out.
std::vector<Compiler> find_compilers();

// One clear sentence for the log when no compiler is left, with what is wrong with each that there is.
std::string no_compiler_message();

// The first line that speaks of an error, else the first one.
std::string first_error(const std::string &log);

struct CompileJob {
  std::string source;                // path of the C++ file; all other files are made beside it
  std::vector<std::string> options;  // -I, -D, -U, -O, -W, ... as given by the user
  std::string output;                // path of the shared object
};

// Preprocess with __HIPRT_SCAN__ defined; false with the log if that fails.
bool preprocess(const Compiler &compiler, const CompileJob &job, std::string *text, std::string *log);
bool compile(const Compiler &compiler, const CompileJob &job, std::string *log);

// The flags that every program is compiled with, as one text.
std::string common_flags(const Compiler &compiler);

// Whether the compiler can make a module out of an empty program; asked only after a failure, answered once for each. If it
// cannot: a sentence with the first error it names.
bool works(const Compiler &compiler, std::string *why);

// The folder of the device-side headers, beside this library.
const std::string &device_include_dir();

// What -march=native depends on.
const std::string &host_cpu();

}  // namespace cpu
