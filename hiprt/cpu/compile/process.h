// Running another program: no shell, output captured.
#pragma once

#include <string>
#include <vector>

namespace cpu {

struct Outcome {
  bool started;        // false: the program could not be executed at all
  int status;          // exit status; 128 + signal number if a signal ended it
  std::string output;  // standard output and error, as one text
};

Outcome run_process(const std::vector<std::string> &command);

// A directory of its own, removed with everything in it. path() is empty if none could be made.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir &) = delete;
  ScratchDir &operator=(const ScratchDir &) = delete;
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

bool read_file(const std::string &path, std::string *text);
bool write_file(const std::string &path, const std::string &text);

}  // namespace cpu
