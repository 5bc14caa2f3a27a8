#include "check/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <mutex>
#include <set>

namespace cpu {
namespace {

constexpr size_t kMostReports = 1000;

const char *name_of(CheckKind kind) {
  switch (kind) {
    case CheckKind::Memory: return "memory";
    case CheckKind::Race: return "race";
    case CheckKind::Init: return "init";
    default: return "barrier";
  }
}

std::string place(const unsigned (&v)[3]) {
  return "(" + std::to_string(v[0]) + "," + std::to_string(v[1]) + "," + std::to_string(v[2]) + ")";
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
    else std::snprintf(code, sizeof code, "\\u%04x", c), out += code;
  }
  return out + "\"";
}

std::string list(const unsigned (&v)[3]) {
  return "[" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + "]";
}

std::string text_of(const Finding &f) {
  std::string out = std::string("hiprt check: ") + name_of(f.kind) + ": " + f.text + "\n";
  for (const Involved &i : f.involved) {
    out += "  " + (i.line.empty() ? std::string("(no line)") : i.line) + ": " + i.what + " by ";
    if (i.is_kernel) {
      out += "kernel '" + i.kernel + "'";
      if (i.has_thread) out += ", block " + place(i.block) + ", thread " + place(i.thread) + ", lane " +
             std::to_string(i.lane);
    } else {
      out += i.kernel;
    }
    out += i.work.empty() ? "\n" : ", " + i.work + "\n";
  }
  if (!f.buffer.empty()) out += "  at " + f.buffer + "\n";
  for (const std::string &stack : f.stacks) out += "  " + stack + "\n";
  return out;
}

std::string json_of(const Finding &f, const std::string &text) {
  std::string out = std::string("{\"kind\": \"") + name_of(f.kind) + "\", \"text\": " + quoted(f.text) + ", \"address\": " +
                    std::to_string(f.address) + ", \"buffer\": " + quoted(f.buffer) + ", \"involved\": [";
  for (size_t n = 0; n < f.involved.size(); ++n) {
    const Involved &i = f.involved[n];
    out += std::string(n ? ", " : "") + "{\"what\": " + quoted(i.what) + ", \"line\": " + quoted(i.line) + ", \"kernel\": " +
           quoted(i.kernel) + ", \"work\": " + quoted(i.work);
    if (i.has_thread) {
      out += ", \"block\": " + list(i.block) + ", \"thread\": " + list(i.thread) + ", \"lane\": " + std::to_string(i.lane);
    }
    out += "}";
  }
  out += "], \"stacks\": [";
  for (size_t n = 0; n < f.stacks.size(); ++n) out += (n ? ", " : "") + quoted(f.stacks[n]);
  return out + "], \"report\": " + quoted(text) + "}\n";
}

// Appends a line to a file that other processes may append to at the same time. False if it cannot be written.
bool append(const std::string &path, const std::string &line) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return false;
  const bool is_whole = write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  close(file);
  return is_whole;
}

void tell(const std::string &text, const std::string &json) {
  if (flags().check_report.empty() || !append(flags().check_report, json)) std::fputs(text.c_str(), stderr);
}

struct Suppression {
  std::string kind, text;
};

std::vector<Suppression> read_suppressions() {
  std::vector<Suppression> out;
  const std::string &path = flags().check_suppress;
  if (path.empty()) return out;
  std::ifstream file(path);
  if (!file) std::fprintf(stderr, "hiprt cpu device: HIPRT_CPU_CHECK_SUPPRESS: '%s' cannot be read\n", path.c_str());
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.empty() || line[0] == '#') continue;
    if (colon == std::string::npos || colon + 1 == line.size()) {
      std::fprintf(stderr, "hiprt cpu device: HIPRT_CPU_CHECK_SUPPRESS: '%s' is not kind:text and ignored\n", line.c_str());
      continue;
    }
    out.push_back({line.substr(0, colon), line.substr(colon + 1)});
  }
  return out;
}

bool is_suppressed(const Finding &f) {
  static const std::vector<Suppression> &all = *new std::vector<Suppression>(read_suppressions());
  for (const Suppression &s : all) {
    if (s.kind != "*" && s.kind != name_of(f.kind)) continue;
    for (const Involved &i : f.involved) {
      if (i.kernel.find(s.text) != std::string::npos || i.line.find(s.text) != std::string::npos) return true;
    }
  }
  return false;
}

}  // namespace

void report(const Finding &finding) {
  static std::mutex &lock = *new std::mutex;
  static auto &told = *new std::set<std::string>;
  std::string key = name_of(finding.kind);
  for (const Involved &i : finding.involved) key += "|" + i.kernel + "|" + i.line + "|" + i.what;
  const std::lock_guard<std::mutex> hold(lock);
  if (told.size() >= kMostReports || is_suppressed(finding) || !told.insert(key).second) return;
  const std::string text = text_of(finding);
  tell(text, json_of(finding, text));
}

void note_checked() {
  static const bool is_noted = flags().check_report.empty() || append(flags().check_report, "");
  (void)is_noted;
}

void report_unchecked(const std::string &text) {
  const std::string whole = "hiprt check: unchecked: " + text + "\n";
  tell(whole, "{\"kind\": \"unchecked\", \"text\": " + quoted(text) +
                  ", \"address\": 0, \"buffer\": \"\", \"involved\": [], \"stacks\": [], \"report\": " + quoted(whole) + "}\n");
}

}  // namespace cpu
