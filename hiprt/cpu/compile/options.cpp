#include "compile/options.h"

#include <algorithm>

#include "compile/tokens.h"

namespace cpu {
namespace {

bool begins(const std::string &text, const char *prefix) { return text.rfind(prefix, 0) == 0; }

bool is_one_of(const std::string &text, std::initializer_list<const char *> all) {
  return std::any_of(all.begin(), all.end(), [&](const char *one) { return text == one; });
}

// The flags that the compilers take as they are.
bool is_plain(const std::string &o) {
  if (is_one_of(o, {"-w", "-g", "-ffast-math", "-fno-fast-math", "-ffinite-math-only", "-fno-finite-math-only", "-fassociative-math",
                    "-fno-associative-math", "-fsigned-zeros", "-fno-signed-zeros", "-ftrapping-math", "-fno-trapping-math"}))
    return true;
  if (begins(o, "-Wl,") || begins(o, "-Wa,") || begins(o, "-Wp,")) return false;
  return begins(o, "-W") || begins(o, "-O") || begins(o, "-ffp-contract=");
}

// The flags of AMD's compiler that choose among right results, or how code for AMD is made: they mean nothing here. Numbers below
// the least normal one are never flushed to zero.
bool is_ignored(const std::string &o) {
  return is_one_of(o, {"-munsafe-fp-atomics", "-mno-unsafe-fp-atomics", "-fgpu-flush-denormals-to-zero", "-fno-gpu-flush-denormals-to-zero",
                       "-fhip-fp32-correctly-rounded-divide-sqrt", "-fno-hip-fp32-correctly-rounded-divide-sqrt", "-mcumode",
                       "-mno-cumode", "-mamdgpu-ieee", "-mno-amdgpu-ieee"}) ||
         begins(o, "-Rpass") || begins(o, "-mcode-object-version=");
}

// Our prelude needs C++14, which accepts programs of older standards.
std::string standard(const std::string &name) {
  const bool old = is_one_of(name, {"c++98", "c++03", "c++0x", "c++11", "gnu++98", "gnu++03", "gnu++0x", "gnu++11"});
  return "-std=" + (old ? "gnu++14" : name);
}

// Returns whether a text is NAME or NAME=VALUE, as -D takes it.
std::string definition(const std::string &text) {
  const size_t equals = text.find('=');
  const std::string value = equals == std::string::npos ? "1" : text.substr(equals + 1);
  return "#define " + text.substr(0, equals) + " " + value.substr(0, value.find('\n')) + "\n";
}

// Returns the value of an option that is written in one word or in two; null if this is another option.
const std::string *value_of(const std::vector<std::string> &given, size_t *i, std::initializer_list<const char *> names,
                            std::string *storage) {
  for (const char *name : names) {
    const std::string &o = given[*i];
    const size_t length = std::char_traits<char>::length(name);
    if (o == name && name[length - 1] != '=' && *i + 1 < given.size()) return &given[++*i];
    if (o.size() > length && begins(o, name)) return &(*storage = o.substr(length));
  }
  return nullptr;
}

}  // namespace

bool read_options(const std::vector<std::string> &given, Options *out, std::string *message) {
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string &o = given[i];
    std::string storage;
    const auto value = [&](std::initializer_list<const char *> names) { return value_of(given, &i, names, &storage); };
    if (o == "-xhip" || o == "-xhip-cpp-output") {
      out->is_hip = true;
      out->is_preprocessed = o != "-xhip";
    } else if (o == "-fgpu-rdc" || o == "-fno-gpu-rdc") {
      out->is_linked = o == "-fgpu-rdc";
    } else if (is_one_of(o, {"-include", "-isystem", "-iquote", "-idirafter"}) && i + 1 < given.size()) {
      out->flags.insert(out->flags.end(), {o, given[++i]});
    } else if (const std::string *text = value({"-D", "--define-macro="})) {
      out->definitions += definition(*text);
      // Our own headers read this one.
      if (begins(*text, "__HIPRTC_PTRDIFF_T_IS_LONG_LONG__")) out->flags.push_back("-D" + *text);
    } else if (const std::string *name = value({"-U", "--undefine-macro="})) {
      out->definitions += "#undef " + *name + "\n";
    } else if (const std::string *dir = value({"-I", "--include-path="})) {
      out->flags.push_back("-I" + *dir);
    } else if (const std::string *year = value({"--std=", "-std="})) {
      out->flags.push_back(standard(*year));
    } else if (is_plain(o)) {
      out->flags.push_back(o);
    } else if (is_one_of(o, {"-fhonor-nans", "-fhonor-infinities"})) {
      out->flags.push_back("-fno-finite-math-only");  // which g++ has too, and means both
    } else if (const std::string *threads = value({"--gpu-max-threads-per-block="}); threads && is_number(*threads)) {
      out->flags.push_back("-D__HIPRT_MAX_BLOCK__=" + *threads);
    } else if (is_ignored(o)) {
      continue;
    } else if (is_one_of(o, {"-fno-honor-nans", "-fno-honor-infinities", "-fslp-vectorize", "-fno-slp-vectorize"})) {
      out->clang_flags.push_back(o);
    } else if (o == "-mllvm" && i + 1 < given.size()) {
      // Other options are mostly for passes that make AMD's code.
      const std::string &option = given[++i];
      if (!begins(option, "-print-")) continue;
      out->is_printing = true;
      out->clang_flags.insert(out->clang_flags.end(), {o, option});
    } else if (!value({"--gpu-architecture=", "--gpu-architecture", "--offload-arch=", "--offload-arch", "-arch=", "-arch"})) {
      *message = "hiprtc: error: unknown option '" + o + "'\n";
      return false;
    }
  }
  if (out->is_linked) out->flags.push_back("-D__HIPRT_LINKED__=1");
  return true;
}

}  // namespace cpu
