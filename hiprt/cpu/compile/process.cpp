#include "compile/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

extern "C" char **environ;

namespace cpu {
namespace {

// Returns the child's environment: ours, without the libraries that are preloaded into this process only.
std::vector<char *> child_environment() {
  std::vector<char *> out;
  for (char **e = environ; e && *e; ++e)
    if (std::strncmp(*e, "LD_PRELOAD=", 11) != 0) out.push_back(*e);
  out.push_back(nullptr);
  return out;
}

std::string drain(int fd) {
  std::string text;
  char chunk[4096];
  for (;;) {
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n > 0) text.append(chunk, size_t(n));
    else if (n == 0 || errno != EINTR) return text;
  }
}

std::string temporary_folder() {
  const char *base = std::getenv("TMPDIR");
  return base && *base ? base : "/tmp";
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Outcome run_process(const std::vector<std::string> &command) {
  Outcome out{false, -1, ""};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return out;
  std::vector<char *> argv;
  for (const std::string &word : command) argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t child = 0;
  out.started = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), child_environment().data()) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (out.started) {
    out.output = drain(ends[0]);
    out.status = wait_for(child);
  }
  close(ends[0]);
  return out;
}

ScratchDir::ScratchDir() {
  std::string name = temporary_folder() + "/hiprt-XXXXXX";
  if (mkdtemp(name.data())) path_ = name;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool read_file(const std::string &path, std::string *text) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat info;
  const bool is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (is_file) *text = drain(fd);
  close(fd);
  return is_file;
}

bool write_file(const std::string &path, const std::string &text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  size_t done = 0;
  int fault = 0;
  while (done < text.size() && !fault) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n >= 0) done += size_t(n);
    else if (errno != EINTR) fault = errno;
  }
  if (close(fd) != 0 && !fault) fault = errno;
  errno = fault;
  return !fault;
}

std::string temporary_files_fault() {
  // More than a compiler writes for a kernel.
  static const std::string sample(size_t{1} << 20, '\n');
  const ScratchDir dir;
  if (!dir.path().empty() && write_file(dir.path() + "/sample", sample)) return "";
  return "hiprt: temporary files cannot be written in " + temporary_folder() + ": " + std::strerror(errno) +
         "; set TMPDIR to a folder with space";
}

}  // namespace cpu
