#include "compile/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <tuple>

#include "compile/process.h"
#include "compile/sha256.h"
#include "flags.h"

namespace cpu {
namespace {

constexpr const char *kMagic = "hiprt-cache-1\n";
constexpr size_t kHashSize = 64;

std::string path_of(const std::string &key) {
  const std::string &dir = flags().cache_dir;
  return dir.empty() ? "" : dir + "/cpu/" + key.substr(0, 2) + "/" + key.substr(2);
}

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
  explicit Fields(const std::string &bytes, size_t at) : bytes_(bytes), at_(at) {}

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
  size_t at_;
};

// Holds an entry while it is read: a process that trims the cache leaves it alone, and it counts as just used.
class Reading {
 public:
  explicit Reading(const std::string &path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ >= 0 && flock(fd_, LOCK_SH) == 0) futimens(fd_, nullptr);
  }
  ~Reading() {
    if (fd_ >= 0) close(fd_);
  }
  Reading(const Reading &) = delete;
  Reading &operator=(const Reading &) = delete;

 private:
  int fd_;
};

// Returns whether a process may be writing a file: it does not have its entry's name yet, and is too young to be left
// over from a process that died.
bool is_written(const std::filesystem::path &path, time_t used) {
  constexpr time_t kAbandoned = 3600;
  return path.filename().string().find('.') != std::string::npos && time(nullptr) - used < kAbandoned;
}

// Removes a file unless a process reads it.
bool remove_unused(const std::filesystem::path &path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool removed = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(path.c_str()) == 0;
  close(fd);
  return removed;
}

// Removes the least recently used files of the whole folder until at most `bytes` are left.
void trim(const std::string &folder, size_t bytes) {
  std::vector<std::tuple<time_t, size_t, std::filesystem::path>> files;
  size_t held = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; at != end; at.increment(error)) {
    struct stat info;
    if (stat(at->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const size_t size = static_cast<size_t>(info.st_size);
    files.emplace_back(std::max(info.st_atime, info.st_mtime), size, at->path());
    held += size;
  }
  std::sort(files.begin(), files.end());
  for (const auto &[used, size, path] : files) {
    if (held <= bytes) return;
    if (!is_written(path, used) && remove_unused(path)) held -= size;
  }
}

bool files_unchanged(const Built &built) {
  for (const auto &[path, hash] : built.files) {
    std::string text;
    if (!read_file(path, &text) || sha256_hex(text) != hash) return false;
  }
  return true;
}

}  // namespace

bool cache_load(const std::string &key, Built *out) {
  const std::string path = path_of(key);
  std::string bytes;
  const Reading reading(path);
  const size_t header = std::strlen(kMagic) + kHashSize;
  if (path.empty() || !read_file(path, &bytes) || bytes.size() < header) return false;
  if (bytes.compare(0, std::strlen(kMagic), kMagic) != 0) return false;
  const std::string hash = Sha256().add(bytes.data() + header, bytes.size() - header).hex();
  if (bytes.compare(std::strlen(kMagic), kHashSize, hash) != 0) return false;
  Built built;
  Fields fields(bytes, header);
  if (!fields.get(&built.image) || !fields.get(&built.log) || !fields.get(&built.lowered) || !fields.get(&built.files))
    return false;
  if (!files_unchanged(built)) return false;
  *out = std::move(built);
  return true;
}

void cache_store(const std::string &key, const Built &built) {
  static std::atomic<unsigned> serial{0};
  const std::string path = path_of(key);
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(path.substr(0, path.rfind('/')), error);
  std::string body;
  put(built.image, &body), put(built.log, &body), put(built.lowered, &body), put(built.files, &body);
  const std::string fresh = path + "." + std::to_string(getpid()) + "." + std::to_string(serial++);
  const bool written = write_file(fresh, kMagic + sha256_hex(body) + body);
  if (!written || std::rename(fresh.c_str(), path.c_str()) != 0) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
      std::fprintf(stderr, "hiprt cpu device: %s cannot be written, and every process compiles its kernels again\n",
                   flags().cache_dir.c_str());
    std::filesystem::remove(fresh, error);
  }
  if (flags().cache_bytes) trim(flags().cache_dir, flags().cache_bytes);
}

}  // namespace cpu
