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

// A temporary directory in TMPDIR. It is removed with everything in it at the end. If none could be made, path() is
// empty and errno says why.
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
// Returns false if the file cannot be written as a whole; errno says why.
bool write_file(const std::string &path, const std::string &text);

// Returns a sentence for people if temporary files cannot be written, which is not the fault of a compiler that fails
// then; empty if they can.
std::string temporary_files_fault();

}  // namespace cpu
