#include "compile/compiler.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "check/checks.h"
#include "compile/process.h"
#include "flags.h"

namespace cpu {
namespace {

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool is_program(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Returns the path of a program that is named by itself or by its path; empty if there is none.
std::string find_program(const std::string &name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
  std::stringstream dirs(environment("PATH"));
  for (std::string dir; std::getline(dirs, dir, ':');)
    if (is_program((dir.empty() ? "." : dir) + "/" + name)) return (dir.empty() ? "." : dir) + "/" + name;
  return "";
}

Compiler::Kind kind_of(const std::string &path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.rfind("zig", 0) == 0) return Compiler::Zig;
  return name.find("clang") != std::string::npos ? Compiler::Clang : Compiler::Gcc;
}

std::string identity_of(const std::string &path) {
  char real[4096];
  struct stat info;
  if (!realpath(path.c_str(), real) || stat(real, &info) != 0) return path;
  std::ostringstream out;
  out << real << ' ' << info.st_size << ' ' << info.st_mtim.tv_sec << '.' << info.st_mtim.tv_nsec << ' ' << info.st_ino;
  return out.str();
}

const std::string &library_dir() {
  static const std::string dir = [] {
    Dl_info info;
    if (!dladdr(reinterpret_cast<const void *>(&find_compilers), &info)) return std::string(".");
    char real[4096];
    const std::string path = realpath(info.dli_fname, real) ? real : info.dli_fname;
    return path.substr(0, path.rfind('/'));
  }();
  return dir;
}

struct Health {
  std::mutex lock;
  std::map<std::string, std::string> faults;  // from identity to a sentence, which is empty for a compiler that works
};

Health &health() {
  static Health h;
  return h;
}

bool known_broken(const Compiler &c) {
  std::lock_guard<std::mutex> hold(health().lock);
  const auto found = health().faults.find(c.identity);
  return found != health().faults.end() && !found->second.empty();
}

// Arithmetic is IEEE's but for contraction, as in HIP. There is no C library, and nothing is exported.
std::vector<std::string> base_flags(const Compiler &c) {
  std::vector<std::string> flags = {
      "-x", "c++", "-std=gnu++17", "-O2", "-march=native", "-fPIC", "-nostdinc", "-fvisibility=hidden", "-fno-exceptions",
      "-fno-rtti", "-fno-threadsafe-statics", "-fno-math-errno", "-fno-trapping-math",
      "-fno-strict-aliasing", "-fno-stack-protector", "-fstack-clash-protection", "-fno-asynchronous-unwind-tables",
      "-fno-ident", "-Wno-unknown-pragmas", "-Wno-attributes"};
  const std::vector<std::string> gcc = {"-fno-extern-tls-init", "-Wno-psabi"};
  const std::vector<std::string> clang = {"-femulated-tls", "-Wno-pass-failed", "-Wno-unused-command-line-argument"};
  const std::vector<std::string> &own = c.kind == Compiler::Gcc ? gcc : clang;
  flags.insert(flags.end(), own.begin(), own.end());
  return flags;
}

// Products and sums are fused unless a pragma or the user's options say otherwise.
std::vector<std::string> contraction(const Compiler &c, const std::vector<std::string> &options) {
  const std::string name = "-ffp-contract=";
  for (const std::string &option : options)
    if (option.rfind(name, 0) == 0) return {};
  if (c.kind == Compiler::Gcc) return {name + "fast"};
  // The drivers of clang 16 and older refuse this mode in C++, but the compiler behind them knows it.
  return {"-Xclang", name + "fast-honor-pragmas"};
}

// Kernels that are checked call the engine at each access. ThreadSanitizer's pass leaves out those of sizes that it does not
// know, for which AddressSanitizer's, as kernels of operating systems use it, has a function. It calls one for each other
// access too, so that only programs that need it have it.
std::vector<std::string> check_flags(const CompileJob &job) {
  if (!is_checking()) return {};
  std::vector<std::string> out = {
      "-O1", "-fsanitize=thread", "-gline-tables-only", "-gdwarf-4", "-fno-vectorize", "-fno-slp-vectorize",
      "-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-distinguish-volatile=1",
      "-mllvm", "-tsan-compound-read-before-write=1", "-D__HIPRT_CHECK__"};
  if (!job.has_wide_values) return out;
  out.insert(out.end(), {"-Xclang", "-fsanitize=kernel-address"});
  for (const char *option : {"-asan-globals=0", "-asan-stack=0", "-asan-instrument-atomics=0", "-asan-opt-same-temp=0",
                             "-asan-instrumentation-with-call-threshold=0"})
    out.insert(out.end(), {"-mllvm", option});
  return out;
}

const std::vector<std::string> &macros() {
  static const std::vector<std::string> all = {"-D__HIPCC_RTC__=1", "-D__HIPCC__=1", "-D__HIP__=1",
                                               "-D__HIP_PLATFORM_AMD__=1", "-D__HIPRT_CPU__=1"};
  return all;
}

// Returns zig's folder of the headers that belong to its clang; empty if it is not where zig keeps it.
std::string resource_dir(const std::string &zig) {
  char real[4096];
  const std::string path = realpath(zig.c_str(), real) ? real : zig, folder = path.substr(0, path.rfind('/'));
  struct stat info;
  for (const std::string &lib : {folder + "/lib", folder + "/../lib/zig"})
    if (stat((lib + "/include/stddef.h").c_str(), &info) == 0) return lib;
  return "";
}

// The device part is compiled as the host part is, for the same machine: clang only takes it for the device's. Its warnings
// are those of the host part, which tells them.
std::vector<std::string> device_part_command(const Compiler &c, const CompileJob &job) {
  std::vector<std::string> out = hip_command(c);
  for (const char *flag :
       {"-Xclang", "-fcuda-is-device", "-Xclang", "-fcuda-allow-variadic-functions", "-O2", "-march=native", "-fPIC",
        "-fvisibility=hidden", "-femulated-tls", "-fno-threadsafe-statics", "-fno-math-errno", "-fno-trapping-math",
        "-fno-strict-aliasing", "-fno-stack-protector", "-fstack-clash-protection", "-fno-ident", "-w"})
    out.push_back(flag);
  for (const auto &part : {contraction(c, job.options), job.options, check_flags(job)}) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// Returns the files of the standard library, its mathematics and C's that this process uses. An address of one of their
// functions would not tell: in an executable that is not position-independent it may be the executable's own.
std::vector<std::string> standard_libraries() {
  std::vector<std::string> out;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *found) {
        const std::string path = info->dlpi_name, name = path.substr(path.rfind('/') + 1);
        for (const char *each : {"libc.so", "libm.so", "libstdc++.so", "libc++.so", "ld-musl-"})
          if (name.rfind(each, 0) == 0) static_cast<std::vector<std::string> *>(found)->push_back(path);
        return 0;
      },
      &out);
  return out;
}

std::vector<std::string> command(const Compiler &c, const CompileJob &job) {
  if (job.is_hip) return device_part_command(c, job);
  std::vector<std::string> out = {c.path};
  if (c.kind == Compiler::Zig) out.push_back("clang");
  for (const auto &part : {base_flags(c), contraction(c, job.options), macros()}) out.insert(out.end(), part.begin(), part.end());
  // A precompiled header's key says all that the compiler would compare, and files that it was made from are gone.
  if (job.precompiled.empty()) out.insert(out.end(), {"-include", device_include_dir() + "/cpu_prelude.h"});
  else out.insert(out.end(), {"-include-pch", job.precompiled, "-Xclang", "-fno-validate-pch"});
  out.insert(out.end(), job.options.begin(), job.options.end());
  const std::vector<std::string> checks = check_flags(job);
  out.insert(out.end(), checks.begin(), checks.end());
  out.push_back("-I" + device_include_dir());
  out.push_back("-I" + device_include_dir() + "/freestanding");
  return out;
}

bool run(const std::vector<std::string> &words, std::string *log) {
  const Outcome result = run_process(words);
  *log += result.started ? result.output : "cannot execute " + words[0] + "\n";
  return result.started && result.status == 0;
}

}  // namespace

std::vector<Compiler> find_compilers() {
  std::vector<std::string> names;
  const std::string &chosen = flags().compiler;
  if (chosen == "zig" && !flags().zig.empty()) {
    names = {flags().zig};
  } else if (!chosen.empty()) {
    names = {chosen};
  } else {
    names = {flags().zig, library_dir() + "/../../ziglang/zig", "clang++"};
    for (int version = 24; version >= 15; --version)  // 14 has no _Float16 on x86
       names.push_back("clang++-" + std::to_string(version));
    names.push_back("g++");
  }
  std::vector<Compiler> out;
  for (const std::string &name : names) {
    const std::string path = name.empty() ? "" : find_program(name);
    if (path.empty()) continue;
    const Compiler c{kind_of(path), path, identity_of(path)};
    if (is_checking() && c.kind == Compiler::Gcc) continue;  // it has no calls for volatile accesses, nor lines of callers
    const bool seen = std::any_of(out.begin(), out.end(), [&](const Compiler &o) { return o.identity == c.identity; });
    if (!seen && !known_broken(c)) out.push_back(c);
  }
  return out;
}

std::string first_error(const std::string &log) {
  const size_t word = log.find("error");
  const size_t before = word == std::string::npos ? std::string::npos : log.rfind('\n', word);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::string line = log.substr(begin, log.find('\n', begin) - begin);
  return line.empty() ? "it says nothing" : line;
}

std::string no_compiler_message() {
  std::string faults;
  {
    std::lock_guard<std::mutex> hold(health().lock);
    for (const auto &[identity, fault] : health().faults)
      if (!fault.empty()) faults += "; " + fault;
  }
  const std::string &chosen = flags().compiler;
  if (!chosen.empty()) {
    const std::string what = faults.empty() ? std::string("there is no such program") : faults.substr(2);
    return "hiprt: HIPRT_CPU_COMPILER names '" + chosen + "', which is not a working compiler: " + what + ".\n";
  }
  return "hiprt: the CPU device needs a C++ compiler to build kernels and found none" +
         std::string(faults.empty() ? "" : " that works") +
         ": pip install \"hiprt[cpu]\" (or install clang++ 15 or newer, or g++)" + faults + ".\n";
}

bool precompile(const Compiler &compiler, const CompileJob &job) {
  if (compiler.kind == Compiler::Gcc) return false;
  std::vector<std::string> words = command(compiler, job);
  words.insert(words.end(), {"-fpch-instantiate-templates", "-Xclang", "-fmodules-embed-all-files", "-x", "c++-header",
                             job.source, "-o", job.output});
  std::string log;
  return run(words, &log);
}

bool preprocess(const Compiler &compiler, const CompileJob &job, std::string *text, std::string *log) {
  std::vector<std::string> words = command(compiler, job);
  const std::string out = job.output + ".ii";
  if (job.is_hip) words.insert(words.end(), {"-D__HIPRT_SCAN__", "-include", "hip/hip_runtime.h"});
  else words.insert(words.end(), {"-include", device_include_dir() + "/cpu_scan.h"});
  words.insert(words.end(), {"-w", "-E", job.source, "-o", out});
  return run(words, log) && read_file(out, text);
}

bool compile(const Compiler &compiler, const CompileJob &job, std::string *log) {
  std::vector<std::string> words = command(compiler, job);
  if (job.is_hip) words.insert(words.end(), {"-include", device_include_dir() + "/cpu_words.h"});
  if (job.is_bitcode) {
    words.insert(words.end(), {"-emit-llvm", "-c", job.source, "-o", job.output});
    return run(words, log);
  }
  const std::vector<std::string> libraries = job.is_hip ? standard_libraries() : std::vector<std::string>();
  if (compiler.kind != Compiler::Zig && !job.is_hip) {
    words.insert(words.end(), {"-shared", "-nostdlib", "-Wl,-z,now,--build-id=none", job.source, "-o", job.output});
    return run(words, log);
  }
  // zig's clang would look for a linker of its own; zig carries one as another subcommand.
  const std::string object = job.output + ".o";
  words.insert(words.end(), {"-c", job.source, "-o", object});
  std::vector<std::string> link = {compiler.path, "ld.lld", "-shared", "-z", "now"};
  if (compiler.kind != Compiler::Zig) link = {compiler.path, "-shared", "-nostdlib", "-Wl,-z,now,--build-id=none"};
  link.insert(link.end(), {object, "-o", job.output});
  link.insert(link.end(), libraries.begin(), libraries.end());
  return run(words, log) && run(link, log);
}

bool link_bitcode(const Compiler &compiler, const std::vector<std::string> &files, Names names, const std::string &output,
                  std::string *log) {
  const bool is_zig = compiler.kind == Compiler::Zig;
  std::vector<std::string> link = {compiler.path, "ld.lld", "-shared", "-z", "now", "-z", "defs"};
  if (!is_zig) link = {compiler.path, "-shared", "-nostdlib", "-Wl,--build-id=none,-z,now,-z,defs"};
  if (names == Names::Symbols) link.push_back(is_zig ? "--no-demangle" : "-Wl,--no-demangle");
  // The calls for checks, which each file has, are the same in all.
  if (is_checking()) link.push_back(is_zig ? "--allow-multiple-definition" : "-Wl,--allow-multiple-definition");
  for (const std::string &file : files) {
    std::vector<std::string> words = {compiler.path};
    if (is_zig) words.push_back("clang");
    words.insert(words.end(), {"-O2", "-fPIC", "-femulated-tls", "-w", "-x", "ir", "-c", file, "-o", file + ".o"});
    if (!run(words, log)) return false;
    link.push_back(file + ".o");
  }
  link.insert(link.end(), {"-o", output});
  return run(link, log);
}

bool knows_hip(const Compiler &compiler) { return compiler.kind != Compiler::Gcc; }

std::vector<std::string> hip_command(const Compiler &c) {
  std::vector<std::string> out = {c.path};
  if (c.kind == Compiler::Zig) out.push_back("clang");
#if defined(__aarch64__) && defined(__GLIBC__)
  // Zig's clang compiles for musl unless told otherwise, and does not look for GNU's C++ library where Debian has it.
  if (c.kind == Compiler::Zig) out.push_back("--target=aarch64-linux-gnu");
#endif
  const std::string resources = c.kind == Compiler::Zig ? resource_dir(c.path) : "";
  if (!resources.empty()) out.insert(out.end(), {"-resource-dir", resources});
  const std::string host_include_dir = library_dir() + "/../native/include";
  for (const char *flag : {"-x", "hip", "--cuda-host-only", "-nogpuinc", "-nogpulib", "-fdeclspec", "-D__HIPRT_HIPCC__=1",
                           "-D__HIP_PLATFORM_AMD__=1", "-std=gnu++17", "-Wno-pragma-system-header-outside-header"})
    out.push_back(flag);
  out.insert(out.end(), {"-isystem", device_include_dir(), "-isystem", host_include_dir});
  return out;
}

std::string common_flags(const Compiler &compiler, bool is_hip) {
  std::string out;
  CompileJob job;
  job.is_hip = is_hip;
  for (const std::string &word : command(compiler, job)) out += word + "\n";
  return out;
}

bool works(const Compiler &compiler, std::string *why) {
  std::lock_guard<std::mutex> hold(health().lock);
  const auto found = health().faults.find(compiler.identity);
  if (found != health().faults.end()) return (*why = found->second).empty();
  ScratchDir dir;
  const CompileJob job{dir.path() + "/half.cpp", {}, dir.path() + "/half.so"};
  std::string log;
  why->clear();
  // Kernels of 16-bit floats have them as the compiler's own, which g++ 12 does not have for aarch64.
  if (!write_file(job.source, "_Float16 half;\n") || !compile(compiler, job, &log))
    *why = compiler.path + " cannot compile a program of one _Float16: " + first_error(log);
  health().faults[compiler.identity] = *why;
  return why->empty();
}

const std::string &device_include_dir() {
  static const std::string dir = library_dir() + "/include";
  return dir;
}

const std::string &host_cpu() {
  static const std::string features = [] {
    std::string out;
    std::ifstream lines("/proc/cpuinfo");  // only the first core's lines are read: the file is long and slow on big machines
    for (std::string line; std::getline(lines, line) && !line.empty();)
      for (const char *key : {"model name", "cpu family", "model\t", "flags", "Features", "CPU implementer", "CPU part"})
        if (line.rfind(key, 0) == 0) out += line + "\n";
    return out;
  }();
  return features;
}

}  // namespace cpu
