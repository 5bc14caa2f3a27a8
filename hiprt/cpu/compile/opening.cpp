#include "compile/opening.h"

#include <map>
#include <mutex>

#include "compile/cache.h"

namespace cpu {
namespace {

constexpr const char *kKind = "cpu-opening";
constexpr size_t kMost = 16;  // openings that a process remembers; each has a megabyte or two

struct Openings {
  std::mutex lock;
  std::map<std::string, std::shared_ptr<const std::string>> known;  // a null one was asked for once
};

Openings &openings() {
  static Openings all;
  return all;
}

}  // namespace

size_t opening_of(const std::string &text) {
  static const std::string mark = "#line 1 \"", ours = mark + "hiprt/";
  const size_t begin = text.find(mark);
  size_t end = begin;
  while (end != std::string::npos && text.compare(end, ours.size(), ours) == 0) end = text.find(mark, end + 1);
  const bool is_whole = end != std::string::npos && end != begin && text[end - 1] == '\n';
  return is_whole && text.find("#include") >= end ? end : 0;
}

std::shared_ptr<const std::string> precompiled_opening(const std::string &key, const std::function<bool(std::string *)> &make) {
  static const auto nothing = std::make_shared<const std::string>();
  std::lock_guard<std::mutex> hold(openings().lock);
  auto &known = openings().known;
  const auto found = known.find(key);
  if (found != known.end() && found->second) return found->second;
  std::string bytes;
  if (!cache_load_bytes(kKind, key, &bytes)) {
    if (found == known.end()) {
      if (known.size() >= kMost) known.clear();
      known[key] = nullptr;
      return nothing;
    }
    if (make(&bytes)) cache_store_bytes(kKind, key, bytes);
    else bytes.clear();
  }
  if (known.size() >= kMost) known.clear();
  return known[key] = std::make_shared<const std::string>(std::move(bytes));
}

}  // namespace cpu
