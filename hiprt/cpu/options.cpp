#include "options.h"

#include <algorithm>

namespace cpu {
namespace {

bool begins(const std::string &text, const char *prefix) { return text.rfind(prefix, 0) == 0; }

bool is_one_of(const std::string &text, std::initializer_list<const char *> all) {
  return std::any_of(all.begin(), all.end(), [&](const char *one) { return text == one; });
}

bool is_target(const std::string &o) {
  return begins(o, "--gpu-architecture=") || begins(o, "--offload-arch=") || begins(o, "-arch=");
}

// Flags that the compilers take as they are.
bool is_plain(const std::string &o) {
  if (is_one_of(o, {"-w", "-g", "-ffast-math", "-fno-fast-math"})) return true;
  if (begins(o, "-Wl,") || begins(o, "-Wa,") || begins(o, "-Wp,")) return false;
  return begins(o, "-W") || begins(o, "-O") || begins(o, "-ffp-contract=");
}

// Our prelude needs C++14, which takes the programs of older standards.
std::string standard(const std::string &name) {
  const bool old = is_one_of(name, {"c++98", "c++03", "c++0x", "c++11", "gnu++98", "gnu++03", "gnu++0x", "gnu++11"});
  return "-std=" + (old ? "gnu++14" : name);
}

}  // namespace

bool read_options(const std::vector<std::string> &given, std::vector<std::string> *flags, std::string *message) {
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string &o = given[i];
    const bool has_next = i + 1 < given.size();
    if (is_one_of(o, {"-D", "-U", "-I", "-include"}) && has_next) {
      flags->insert(flags->end(), {o, given[++i]});
    } else if (is_one_of(o, {"--gpu-architecture", "--offload-arch", "-arch"}) && has_next) {
      ++i;
    } else if (begins(o, "--std=") || begins(o, "-std=")) {
      flags->push_back(standard(o.substr(o.find('=') + 1)));
    } else if (o.size() > 2 && (begins(o, "-D") || begins(o, "-U") || begins(o, "-I"))) {
      flags->push_back(o);
    } else if (begins(o, "--include-path=") || begins(o, "--define-macro=")) {
      const size_t value = o.find('=') + 1;
      flags->insert(flags->end(), {o[2] == 'i' ? "-I" : "-D", o.substr(value)});
    } else if (is_plain(o)) {
      flags->push_back(o);
    } else if (!is_target(o)) {
      *message = "hiprtc: error: unknown option '" + o + "'\n";
      return false;
    }
  }
  return true;
}

}  // namespace cpu
