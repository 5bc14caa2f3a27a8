// The cache of compiled programs on disk, which all processes of a user share.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace cpu {

// What compiling a program yields.
struct Built {
  std::string image;
  std::string log;                             // warnings
  std::map<std::string, std::string> lowered;  // from name expression to symbol
  std::map<std::string, std::string> files;    // from path to hash, for every file that the program includes from disk
};

// Gives the entry stored under the key; false if there is none, its bytes are damaged, or a file that it was built from
// has changed.
bool cache_load(const std::string &key, Built *out);

// Stores an entry. It is written beside and renamed, so that readers see all of it or nothing. A failure is no error.
// If the folder then holds more than HIPRT_CACHE_MAX_MB, the least recently used files are removed.
void cache_store(const std::string &key, const Built &built);

}  // namespace cpu
