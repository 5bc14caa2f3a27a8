// Compiled programs in the cache of compiled code (code_cache.h), which all processes of a user share.
#pragma once

#include <map>
#include <string>

namespace cpu {

// What compiling a program yields.
struct Built {
  std::string image;
  std::string log;                             // warnings
  std::map<std::string, std::string> lowered;  // from name expression to symbol
  std::map<std::string, std::string> files;    // from path to hash, for every file that the program includes from disk
};

// Gives the program stored under the key; false if there is none, its bytes are damaged, or a file that it was built
// from has changed.
bool cache_load(const std::string &key, Built *out);

// Stores a program. A failure is no error: it is told once, and the next process compiles the program again.
void cache_store(const std::string &key, const Built &built);

// The same for bytes of another kind, whose key says all that they depend on.
bool cache_load_bytes(const char *kind, const std::string &key, std::string *bytes);
void cache_store_bytes(const char *kind, const std::string &key, const std::string &bytes);

}  // namespace cpu
