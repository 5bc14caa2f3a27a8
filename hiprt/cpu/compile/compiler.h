// The C++ compilers that hiprtc can use, and how each makes a shared object.
#pragma once

#include <string>
#include <vector>

namespace cpu {

struct Compiler {
  enum Kind { Zig, Clang, Gcc } kind;
  std::string path;
  std::string identity;  // changes when the program changes
};

// Returns the compilers found, best first: HIPRT_CPU_COMPILER alone if it is set; else HIPRT_CPU_ZIG or the ziglang
// package beside ours, then clang++, clang++-NN and g++ on PATH. Those that proved unable to compile anything are left
// out.
std::vector<Compiler> find_compilers();

// Returns one sentence for the log when no compiler is left. It says what is wrong with each compiler that there is.
std::string no_compiler_message();

// Returns the first line of a log that speaks of an error, else its first line.
std::string first_error(const std::string &log);

struct CompileJob {
  std::string source;                // path of the C++ file; every other file is made beside it
  std::vector<std::string> options;  // -I, -D, -U, -O, -W, ... as given by the user
  std::string output;                // path of the shared object
  std::string precompiled = "";      // path of a precompiled header that is read instead of cpu_prelude.h, if there is one
  bool is_hip = false;               // a program for hipcc, in clang's HIP mode: its device part is made
  bool is_bitcode = false;           // the output is LLVM's bitcode, for link_bitcode
  bool has_wide_values = false;      // it may load and store values of more than 16 bytes at once
};

// Returns whether a compiler can make programs for hipcc, and bitcode: g++ cannot.
bool knows_hip(const Compiler &compiler);
// Returns the command that both parts of a program for hipcc begin with: the compiler, its mode and our headers.
std::vector<std::string> hip_command(const Compiler &compiler);

// Writes a precompiled header of the prelude and the source to the job's output. False if the compiler has none.
bool precompile(const Compiler &compiler, const CompileJob &job);
// Preprocesses, with the words that tell kernels left as they are; false, and *log says why, if that fails.
bool preprocess(const Compiler &compiler, const CompileJob &job, std::string *text, std::string *log);
bool compile(const Compiler &compiler, const CompileJob &job, std::string *log);
// Makes a shared object of files of bitcode. The log has the names of missing functions as they are written or as symbols.
enum class Names { Written, Symbols };
bool link_bitcode(const Compiler &compiler, const std::vector<std::string> &files, Names names, const std::string &output,
                  std::string *log);

// Returns the flags that every program is compiled with, as one text.
std::string common_flags(const Compiler &compiler, bool is_hip);

// Returns whether the compiler can make a module out of an empty program; if not, *why is a sentence with the first
// error it names. This is asked only after a failure, and found out once for each compiler.
bool works(const Compiler &compiler, std::string *why);

// Returns the folder of the device-side headers, which lies beside this library.
const std::string &device_include_dir();

// Returns a text that names all that -march=native depends on.
const std::string &host_cpu();

}  // namespace cpu
