#include "compile/cache.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "code_cache.h"
#include "compile/process.h"
#include "compile/hash.h"
#include "flags.h"

namespace cpu {
namespace {

constexpr const char *kKind = "cpu";

void put(const std::string &text, std::string *out) {
  const uint64_t size = text.size();
  out->append(reinterpret_cast<const char *>(&size), sizeof size).append(text);
}

void put(const std::map<std::string, std::string> &pairs, std::string *out) {
  put(std::to_string(pairs.size()), out);
  for (const auto &[name, value] : pairs) put(name, out), put(value, out);
}

// Reads fields in the order in which they were put.
class Fields {
 public:
  explicit Fields(const std::string &bytes) : bytes_(bytes) {}

  bool get(std::string *text) {
    uint64_t size;
    if (bytes_.size() - at_ < sizeof size) return false;
    std::memcpy(&size, bytes_.data() + at_, sizeof size);
    at_ += sizeof size;
    if (bytes_.size() - at_ < size) return false;
    *text = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }
  bool get(std::map<std::string, std::string> *pairs) {
    std::string count, name, value;
    if (!get(&count)) return false;
    for (unsigned long i = std::stoul(count); i > 0; --i) {
      if (!get(&name) || !get(&value)) return false;
      (*pairs)[name] = value;
    }
    return true;
  }

 private:
  const std::string &bytes_;
  size_t at_ = 0;
};

bool files_unchanged(const Built &built) {
  for (const auto &[path, hash] : built.files) {
    std::string text;
    if (!read_file(path, &text) || sha256_hex(text) != hash) return false;
  }
  return true;
}

}  // namespace

bool cache_load_bytes(const char *kind, const std::string &key, std::string *bytes) {
  if (flags().cache_dir.empty()) return false;
  uint64_t size;
  char *content = hiprt_cache_load(flags().cache_dir.c_str(), kind, key.c_str(), &size);
  if (!content) return false;
  bytes->assign(content, size);
  hiprt_cache_free(content);
  return true;
}

void cache_store_bytes(const char *kind, const std::string &key, const std::string &bytes) {
  const std::string &folder = flags().cache_dir;
  if (folder.empty()) return;
  if (hiprt_cache_store(folder.c_str(), kind, key.c_str(), bytes.data(), bytes.size(), flags().cache_bytes) == 0) return;
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    std::fprintf(stderr, "hiprt cpu device: %s cannot be written, and every process compiles its kernels again\n",
                 folder.c_str());
}

bool cache_load(const std::string &key, Built *out) {
  std::string bytes;
  if (!cache_load_bytes(kKind, key, &bytes)) return false;
  Built built;
  Fields fields(bytes);
  if (!fields.get(&built.image) || !fields.get(&built.log) || !fields.get(&built.lowered) || !fields.get(&built.files))
    return false;
  if (!files_unchanged(built)) return false;
  *out = std::move(built);
  return true;
}

void cache_store(const std::string &key, const Built &built) {
  std::string bytes;
  put(built.image, &bytes), put(built.log, &bytes), put(built.lowered, &bytes), put(built.files, &bytes);
  cache_store_bytes(kKind, key, bytes);
}

}  // namespace cpu
