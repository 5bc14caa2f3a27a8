// Compiled programs on disk, shared by all processes of a user.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace cpu {

// What compiling a program yields.
struct Built {
  std::string image;
  std::string log;                             // warnings
  std::map<std::string, std::string> lowered;  // name expression -> symbol
  std::map<std::string, std::string> files;    // path -> hash of every file that the program includes from disk
};

// The entry stored under the key, if its bytes are whole and the files it was built from are unchanged.
bool cache_load(const std::string &key, Built *out);

// Store an entry: written beside and renamed, so that readers see all of it or nothing. Failure is not an error.
// The least recently used files of the folder go where it holds more than HIPRT_CACHE_MAX_MB.
void cache_store(const std::string &key, const Built &built);

}  // namespace cpu
