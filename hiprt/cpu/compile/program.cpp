#include "compile/program.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "check/checks.h"
#include "code_generation.h"
#include "compile/builtin_headers.h"
#include "compile/compiler.h"
#include "compile/kernel_list.h"
#include "compile/opening.h"
#include "compile/process.h"
#include "compile/reconvergence.h"
#include "compile/scanner.h"
#include "compile/tokens.h"
#include "compile/hash.h"
#include "engine/code_object.h"
#include "include/cpu_abi.h"

namespace cpu {
namespace {

// Returns the hash of our device headers, which are part of every program.
const std::string &prelude_hash() {
  static const std::string hash = [] {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto &file : std::filesystem::recursive_directory_iterator(device_include_dir(), error))
      if (file.is_regular_file(error)) paths.push_back(file.path());
    std::sort(paths.begin(), paths.end());
    Sha256 sum;
    for (const std::string &path : paths) {
      std::string text;
      read_file(path, &text);
      sum.field(path.substr(device_include_dir().size())).field(text);
    }
    return sum.hex();
  }();
  return hash;
}

std::vector<std::string> flags_for(const Compiler &compiler, const Options &options) {
  std::vector<std::string> out = options.flags;
  if (compiler.kind != Compiler::Gcc) out.insert(out.end(), options.clang_flags.begin(), options.clang_flags.end());
  return out;
}

std::string key_of(const Program &p, const Compiler &compiler) {
  Sha256 sum;
  sum.field(HIPRT_CODE_GENERATION).field(prelude_hash()).field(host_cpu());
  sum.field(compiler.identity).field(common_flags(compiler, p.options.is_hip)).field(p.name).field(p.source);
  sum.field(p.options.is_preprocessed ? "preprocessed" : "");
  for (const auto &[name, text] : p.headers) sum.field("header").field(name).field(text);
  for (const std::string &e : p.expressions) sum.field("expression").field(e);
  for (const std::string &f : flags_for(compiler, p.options)) sum.field("flag").field(f);
  sum.field(p.options.definitions);
  return sum.hex();
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

// Returns definitions of constants for those launch bounds that are expressions; each stands in its kernel's namespace.
std::string bound_constants(const std::vector<ScannedKernel> &kernels) {
  std::string out;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const ScannedKernel &k = kernels[i];
    if (k.bounds.empty() || is_number(k.bounds)) continue;
    size_t depth = 0;
    for (size_t at = 0; at < k.scope.size(); ++depth) {
      const size_t end = std::min(k.scope.find("::", at), k.scope.size());
      out += "namespace " + k.scope.substr(at, end - at) + " { ";
      at = end + 2;
    }
    out += "constexpr unsigned __hiprt_bound_" + std::to_string(i) + " = (" + k.bounds + ");" + std::string(depth, '}') + "\n";
  }
  return out;
}

std::string bound_of(const ScannedKernel &k, size_t i) {
  if (k.bounds.empty()) return "__HIPRT_MAX_BLOCK__";
  if (is_number(k.bounds)) return k.bounds;
  return (k.scope.empty() ? "" : "::" + k.scope) + "::__hiprt_bound_" + std::to_string(i);
}

std::string entry(const std::string &type, const std::string &address, const std::string &expression, const std::string &bound) {
  return "__hiprt_symbol<" + type + ", " + address + ">::entry(" + expression + ", " + bound + "),\n";
}

// Returns the table's entries for all kernels. The parameters tell an overloaded kernel apart.
std::string kernel_entries(const std::vector<ScannedKernel> &kernels) {
  std::string out;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const ScannedKernel &k = kernels[i];
    const auto overload = [&](const ScannedKernel &o) { return o.name == k.name && o.parameters != k.parameters; };
    const bool overloaded = std::any_of(kernels.begin(), kernels.end(), overload);
    const std::string type = overloaded ? "void (*)(" + k.parameters + ")" : "decltype(&" + k.name + ")";
    out += entry(type, "&" + k.name, "nullptr", bound_of(k, i));
  }
  return out;
}

std::string expression_entries(const std::vector<std::string> &expressions) {
  std::string out;
  for (const std::string &e : expressions) {
    const size_t name = std::min(e.find_first_not_of(" \t&"), e.size());
    const std::string address = "&" + e.substr(name);
    out += "#line 1 " + quoted("name expression '" + e + "'") + "\n" + entry("decltype(" + address + ")", address, quoted(e), "__HIPRT_MAX_BLOCK__");
  }
  return out;
}

// Returns definitions for the `extern __shared__` arrays, all of which lie at one place: for clang descriptions of size
// 0, for g++ labels of one thread-local buffer (cpu_abi.h).
// A weak label may be in several files that are linked.
std::string dynamic_shared(const std::vector<std::string> &symbols, bool emulated, bool is_weak = false) {
  std::string out;
  for (const std::string &s : symbols) {
    const std::string label = emulated ? "__emutls_v." + s : s, type = emulated ? "@object" : "@tls_object";
    out += (is_weak ? ".weak " : ".globl ") + label + "\\n.hidden " + label + "\\n.type " + label + "," + type + "\\n" + label + ":\\n";
    if (emulated) out += ".size " + label + ",32\\n.quad 0,256,0,0\\n";
  }
  if (out.empty()) return "";
  if (emulated) return "__asm__(\".pushsection .data\\n.balign 8\\n" + out + ".popsection\");\n";
  const std::string zero = ".zero " + std::to_string(HIPRT_CPU_SHARED);
  return "__asm__(\".pushsection .tbss,\\\"awT\\\",@nobits\\n.balign 256\\n" + out + zero + "\\n.popsection\");\n";
}

// Returns the description of a module whose kernels are listed in a section.
std::string listed_module() {
  const auto bound = [](const std::string &name) {
    return "extern __device__ const __hiprt_entry *const " + name + " __attribute__((weak, visibility(\"hidden\")));\n";
  };
  return bound("__start_hiprt_kernels") + bound("__stop_hiprt_kernels") +
         "extern __device__ __attribute__((visibility(\"default\"), used)) const __hiprt_module_info __hiprt_module = {\n" +
         std::to_string(HIPRT_CPU_ABI) + ", 0, nullptr, &__hiprt_host_table, &__start_hiprt_kernels, &__stop_hiprt_kernels};\n";
}

// Returns what follows the text of a program that is linked with others: its entries, listed in the section.
std::string linked_tail(const Scan &scan, const std::vector<std::string> &expressions) {
  std::string listed;
  for (size_t i = 0; i < scan.kernels.size() + expressions.size(); ++i) listed += "&__hiprt_entries[" + std::to_string(i) + "],\n";
  if (!listed.empty())
    listed = "__attribute__((used, section(\"hiprt_kernels\"))) static const __hiprt_entry *const __hiprt_listed[] = {\n" + listed + "};\n";
  return "#pragma GCC system_header\n" + bound_constants(scan.kernels) + dynamic_shared(scan.dynamic_shared, true, true) +
         "static constexpr __hiprt_entry __hiprt_entries[] = {\n" + kernel_entries(scan.kernels) +
         expression_entries(expressions) + "{}};\n" + listed;
}

// Returns what follows the user's text. It is a file of its own that counts as a system header, so that nobody is
// warned about it.
std::string tail(const Scan &scan, const std::vector<std::string> &expressions, bool emulated_tls) {
  return "#pragma GCC system_header\n" + bound_constants(scan.kernels) + dynamic_shared(scan.dynamic_shared, emulated_tls) +
         "static constexpr __hiprt_entry __hiprt_entries[] = {\n" + kernel_entries(scan.kernels) +
         expression_entries(expressions) + "{}};\n" +
         "extern \"C\" __attribute__((visibility(\"default\"), used)) const __hiprt_module_info __hiprt_module = {\n"
         "HIPRT_CPU_ABI, sizeof(__hiprt_entries) / sizeof(__hiprt_entry) - 1, __hiprt_entries, &__hiprt_host_table, nullptr, nullptr};\n";
}

// Returns what follows the text of a program for hipcc, whose image carries that text. clang leaves out assembler that stands
// in no function of the device.
std::string hip_tail(const Scan &scan, const std::string &text_path) {
  const std::string check = is_checking() ? "#include " + quoted(device_include_dir() + "/cpu_check.h") + "\n" : "";
  return "#pragma GCC system_header\n" + check + "extern \"C\" {\n__device__ __attribute__((used)) void __hiprt_sections() {\n" +
         dynamic_shared(scan.dynamic_shared, true) + "__asm__(\".pushsection " HIPRT_CPU_TEXT ",\\\"\\\",@progbits\\n.incbin \\\"" + text_path +
         "\\\"\\n.popsection\");\n}\n" + listed_module() + "}\n";
}

// Returns the log with the names of files as the user knows them.
std::string without_paths(std::string log, const std::vector<std::string> &prefixes) {
  for (const std::string &prefix : prefixes)
    for (size_t at = log.find(prefix); at != std::string::npos; at = log.find(prefix, at)) log.erase(at, prefix.size());
  return log;
}

// Returns the flags that still mean something when nothing is left to include.
std::vector<std::string> flags_behind_preprocessor(const std::vector<std::string> &flags) {
  std::vector<std::string> out;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == "-include" || flags[i] == "-isystem" || flags[i] == "-iquote" || flags[i] == "-idirafter") ++i;
    else if (flags[i].rfind("-I", 0) != 0) out.push_back(flags[i]);
  }
  return out;
}

// Returns whether a preprocessed text has types of more than 16 bytes that are loaded and stored at once, or of odd sizes.
bool may_have_wide_values(const std::string &text) {
  const auto has = [&](const char *word) { return text.find(word) != std::string::npos; };
  return has("vector_size") || has("ext_vector_type") || has("long double") || has("_BitInt");
}

// Returns the name that the loader misses, as the program has it; empty if it complains of something else.
std::string undefined_function(const std::string &why) {
  static const std::string mark = "undefined symbol: ";
  const size_t at = why.find(mark);
  if (at == std::string::npos) return "";
  const std::string symbol = why.substr(at + mark.size(), why.find_first_of(" ,\n", at + mark.size()) - at - mark.size());
  int status = 0;
  const std::unique_ptr<char, void (*)(void *)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

// Returns definitions of the symbols that a linker's log says are missing.
std::string stand_ins(const std::string &log) {
  std::string out;
  for (const std::string mark : {"undefined symbol: ", "undefined reference to `"}) {
    for (size_t at = log.find(mark); at != std::string::npos; at = log.find(mark, at)) {
      at += mark.size();
      const std::string name = log.substr(at, log.find_first_of("'\n", at) - at);
      const std::string one = "__asm__(\".pushsection .data\\n.globl " + name + "\\n" + name + ":.quad 0\\n.popsection\");\n";
      if (out.find(one) == std::string::npos) out += one;
    }
  }
  return out;
}

// Links files of bitcode with a description of the module and more text.
bool link_module(const Compiler &compiler, const std::string &folder, std::vector<std::string> files, const std::string &more,
                 Names names, const std::string &output, std::string *log) {
  CompileJob job{folder + "/module.cpp", {"-D__HIPRT_LINKED__=1"}, folder + "/module.bc"};
  job.is_bitcode = true;
  files.push_back(job.output);
  return write_file(job.source, "#pragma GCC system_header\nextern \"C\" {\n" + listed_module() + more + "}\n") &&
         compile(compiler, job, log) && link_bitcode(compiler, files, names, output, log);
}

// The build of a program with one compiler.
class Build {
 public:
  Build(const Program &program, const Compiler &compiler) : p_(program), compiler_(compiler) {
    const size_t end = opening_of(p_.source);
    opening_ = p_.source.substr(0, end), own_ = p_.source.substr(end);
    job_.source = dir_.path() + "/unit.cpp";
    job_.output = dir_.path() + "/unit.so";
    job_.is_hip = p_.options.is_hip;
    job_.is_bitcode = p_.options.is_linked;
    job_.has_wide_values = may_have_wide_values(p_.source);
    set_includes({});
  }

  bool run(Built *out) {
    std::string text;
    Scan scan;
    bool good = !dir_.path().empty() && scanned(&text, &out->log);
    job_.has_wide_values = job_.has_wide_values || may_have_wide_values(text);
    if (good && p_.options.is_hip) {
      scan = scan_preprocessed(text);
      own_ = text, is_preprocessed_ = true;
      good = keep_text() && attempt_all(hip_tail(scan, text_path()), out);
    } else if (good) {
      scan = scan_preprocessed(text);
      const bool is_linked = p_.options.is_linked, is_emulated = compiler_.kind != Compiler::Gcc;
      const std::string end = is_linked ? linked_tail(scan, p_.expressions) : tail(scan, p_.expressions, is_emulated);
      set_includes(with_builtin_headers(scan.files, text));
      good = attempt_all(end, out);
    } else if (out->log.empty()) {
      out->log = "hiprt: temporary files could not be written\n";
    }
    if (good && !p_.options.is_preprocessed) note_files(scan.files, out);
    out->log = without_paths(out->log, {headers_dir() + "/", dir_.path() + "/"});
    return good;
  }

 private:
  // What is put into the program's text: copies of the indices in every kernel, and the steps that lanes take.
  struct Inserts {
    bool indices = false, steps = false;
  };

  // Has our headers that the program includes read before the program's macros are defined.
  void set_includes(const std::vector<std::string> &files) {
    includes_.clear();
    for (const std::string &file : files)
      if (file.rfind(device_include_dir() + "/hip/", 0) == 0) includes_.insert(includes_.end(), {"-include", file});
    includes_.insert(includes_.end(), {"-include", dir_.path() + "/definitions.h"});
  }

  std::vector<std::string> with_builtin_headers(std::vector<std::string> files, std::string text) const {
    for (const std::string &expression : p_.expressions) text += "\n" + expression;
    for (const std::string &header : builtin_headers(text)) files.push_back(device_include_dir() + "/" + header);
    return files;
  }

  std::vector<std::string> options(const std::vector<std::string> &includes) const {
    const std::vector<std::string> flags = flags_for(compiler_, p_.options);
    if (is_preprocessed_) return flags_behind_preprocessor(flags);
    std::vector<std::string> out = {"-I" + headers_dir()};
    out.insert(out.end(), includes.begin(), includes.end());
    out.insert(out.end(), flags.begin(), flags.end());
    return out;
  }

  std::string headers_dir() const { return dir_.path() + "/headers"; }

  // Has the compiler read the opening as text, or in its own form. False if it is not there in that form.
  bool set_opening(bool is_precompiled) {
    job_.precompiled.clear();
    job_.options = options(includes_);
    if (!is_precompiled) return true;
    if (job_.is_hip) return false;
    const std::string key = opening_key(), made = dir_.path() + "/opening.pch";
    if (compiler_.kind == Compiler::Gcc || key == absent_) return false;
    const auto bytes = precompiled_opening(key, [&](std::string *out) {
      ScratchDir dir;  // of a full disk the compiler leaves nothing for the text, unless its files go
      CompileJob job{dir.path() + "/opening.h", job_.options, dir.path() + "/opening.pch"};
      job.has_wide_values = job_.has_wide_values;
      return write_headers() && write_file(job.source, opening_) && precompile(compiler_, job) && read_file(job.output, out);
    });
    if (bytes->empty() || !write_file(made, *bytes)) {
      absent_ = key;
      unlink(made.c_str());
      return false;
    }
    job_.precompiled = made;
    job_.options = options({});
    return true;
  }

  std::string opening_key() const {
    Sha256 sum;
    sum.field(HIPRT_CODE_GENERATION).field(prelude_hash()).field(host_cpu());
    sum.field(compiler_.identity).field(common_flags(compiler_, false)).field(p_.options.definitions).field(opening_);
    sum.field(job_.has_wide_values ? "wide" : "");
    for (size_t i = 0; i + 2 < includes_.size(); ++i) sum.field(includes_[i]);
    for (const std::string &f : flags_for(compiler_, p_.options)) sum.field("flag").field(f);
    return sum.hex();
  }

  // Runs the compiler with the precompiled opening, and if it fails or says anything, with the text: its messages are
  // about that.
  template <class Step>
  bool with_opening(const std::string &end, Inserts inserts, std::string *log, Step step) {
    std::string said;
    if (set_opening(true) && write_unit(end, inserts) && step(&said) && said.empty()) return true;
    return set_opening(false) && write_unit(end, inserts) && step(log);
  }

  bool scanned(std::string *text, std::string *log) {
    if (p_.options.is_preprocessed) return !(*text = p_.source).empty();
    // clang's preprocessor reads the text that a precompiled header was made from, which is gone.
    return set_opening(false) && write_unit("", {}) && preprocess(compiler_, job_, text, log);
  }

  bool write_headers() const {
    return write_file(dir_.path() + "/definitions.h", "#line 1 \"<command line>\"\n" + p_.options.definitions);
  }

  bool write_unit(const std::string &end, Inserts inserts) const {
    const auto text = [&](const std::string &t) {
      const std::string marked = inserts.steps ? insert_steps(t, meetings_) : t;
      if (is_preprocessed_) return list_kernels(marked, inserts.indices);
      return inserts.indices ? insert_local_indices(marked) : marked;
    };
    std::error_code error;
    for (const auto &[name, body] : p_.headers) {
      const std::string path = headers_dir() + "/" + name;
      std::filesystem::create_directories(path.substr(0, path.rfind('/')), error);
      if (!write_file(path, text(body))) return false;
    }
    const std::string tail = dir_.path() + "/hiprtc", include = end.empty() ? "" : "\n#include " + quoted(tail) + "\n";
    if (!write_headers() || !write_file(tail, end)) return false;
    const std::string opening = job_.precompiled.empty() ? opening_ : "";
    return write_file(job_.source, "#line 1 " + quoted(p_.name) + "\n" + opening + text(own_) + include);
  }

  // Tries all inserts first. A program that fails with copies of the indices (a lambda without captures uses threadIdx)
  // is compiled without them. One that fails with the steps (it has a function of the same name as ours) is compiled
  // without them too, and the log says so.
  bool attempt_all(const std::string &end, Built *out) {
    read_meetings();
    const bool steps = !meetings_.functions.empty();
    if (attempt(end, {true, steps}, out) || attempt(end, {false, steps}, out)) return true;
    const std::string why = out->log;
    if (!steps || !attempt(end, {}, out)) return false;
    out->log += "hiprt: lanes are told apart by the operation they are at only, not by the way they came: " + first_error(why) + "\n";
    return true;
  }

  // A program may say that all lanes of its warps do the same; it needs no steps.
  void read_meetings() {
    if (p_.source.find("#define __HIPRT_WHOLE_WARPS__") != std::string::npos) return;
    std::vector<std::string> texts = {own_};
    for (const auto &header : p_.headers) texts.push_back(header.second);
    meetings_ = find_meetings(texts);
  }

  std::string text_path() const { return dir_.path() + "/text"; }

  // Writes what the image carries: for which machine it is made, the program's name and flags, an empty line, the text.
  bool keep_text() const {
    std::string out = sha256_hex(host_cpu()) + "\n" + p_.name + "\n";
    for (const std::string &flag : flags_behind_preprocessor(flags_for(compiler_, p_.options))) out += flag + "\n";
    return write_file(text_path(), out + "\n" + own_);
  }

  bool attempt(const std::string &end, Inserts inserts, Built *out) {
    out->log.clear();
    const auto step = [&](std::string *said) { return compile(compiler_, job_, said); };
    if (!with_opening(end, inserts, &out->log, step) || !read_file(job_.output, &out->image)) return false;
    if (p_.options.is_linked) {
      if (!p_.expressions.empty()) read_lowered_names(out);
      return true;
    }
    std::unique_ptr<Module> module;
    std::string why;
    if (load_object(out->image.data(), &module, &out->lowered, &why) == hipSuccess) return true;
    const std::string missing = job_.is_hip ? undefined_function(why) : "";
    out->log += missing.empty() ? "hiprt: the compiled program cannot be loaded: " + why + "\n"
                                : p_.name + ": error: device code uses " + missing +
                                      ", which this file does not define: the CPU device links no device code of several files\n";
    return false;
  }

  // Gives the names that a linked program will have, by loading it alone. Something stands for what it has from others.
  void read_lowered_names(Built *out) const {
    const std::string made = dir_.path() + "/alone.so";
    std::string image, log, rest;
    std::unique_ptr<Module> module;
    const auto link = [&](const std::string &more, std::string *said) {
      return link_module(compiler_, dir_.path(), {job_.output}, more, Names::Symbols, made, said);
    };
    if ((link("", &log) || link(stand_ins(log), &rest)) && read_file(made, &image))
      load_object(image.data(), &module, &out->lowered, &rest);
  }

  void note_files(const std::vector<std::string> &files, Built *out) const {
    for (const std::string &path : files) {
      std::string text;
      const bool ours = path.rfind(dir_.path(), 0) == 0 || path.rfind(device_include_dir(), 0) == 0;
      if (ours || path == p_.name || !read_file(path, &text)) continue;
      out->files[std::filesystem::absolute(path)] = sha256_hex(text);
    }
  }

  const Program &p_;
  const Compiler &compiler_;
  std::string opening_, own_;  // the program's text
  bool is_preprocessed_ = false;  // own_ is: a program for hipcc is compiled in that form
  std::string absent_;         // the key of an opening that is not there precompiled
  std::vector<std::string> includes_;
  Meetings meetings_;
  ScratchDir dir_;
  CompileJob job_;
};

}  // namespace

bool build_program(const Program &program, Built *out) {
  std::string passed_over;
  for (const Compiler &compiler : find_compilers()) {
    if ((program.options.is_hip || program.options.is_linked) && !knows_hip(compiler)) continue;
    const std::string key = key_of(program, compiler);
    if (cache_load(key, out)) return true;
    *out = Built();
    if (Build(program, compiler).run(out)) {
      out->log.insert(0, passed_over);
      cache_store(key, *out);
      return true;
    }
    std::string why = temporary_files_fault();
    if (!why.empty()) {
      out->log.insert(0, why + "\n");
      return false;
    }
    if (works(compiler, &why)) return false;
    passed_over += "hiprt: " + why + "\n";
  }
  out->log = no_compiler_message();
  return false;
}

bool link_programs(const std::vector<std::string> &bitcodes, Built *out) {
  for (const Compiler &compiler : find_compilers()) {
    if (!knows_hip(compiler)) continue;
    ScratchDir dir;
    std::vector<std::string> files;
    for (const std::string &bitcode : bitcodes) {
      files.push_back(dir.path() + "/" + std::to_string(files.size()) + ".bc");
      if (write_file(files.back(), bitcode)) continue;
      out->log = temporary_files_fault() + "\n";
      return false;
    }
    const std::string made = dir.path() + "/linked.so";
    std::unique_ptr<Module> module;
    const bool good = link_module(compiler, dir.path(), files, "", Names::Written, made, &out->log) && read_file(made, &out->image) &&
                      load_object(out->image.data(), &module, &out->lowered, &out->log) == hipSuccess;
    out->log = without_paths(out->log, {dir.path() + "/"});
    return good;
  }
  out->log = no_compiler_message();
  return false;
}

}  // namespace cpu
