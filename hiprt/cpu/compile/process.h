// Runs another program, without a shell, and captures its output.
#pragma once

#include <string>
#include <vector>

namespace cpu {

struct Outcome {
  bool started;        // false: the program could not be executed
  int status;          // the exit status, or 128 + the number of the signal that ended it
  std::string output;  // standard output and error, as one text
};

Outcome run_process(const std::vector<std::string> &command);

// A temporary directory. It is removed with everything in it at the end. path() is empty if none could be made.
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
