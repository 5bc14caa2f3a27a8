// SHA-256 for C++: the keys and checksums of the cache of compiled programs.
#pragma once

#include <string>

#include "sha256.h"

namespace cpu {

class Sha256 {
 public:
  Sha256() { hiprt_sha256_begin(&hash_); }

  // Adds a text and its length, so that neighbouring fields cannot run into each other.
  Sha256 &field(const std::string &text) {
    hiprt_sha256_field(&hash_, text.data(), text.size());
    return *this;
  }
  Sha256 &add(const std::string &text) {
    hiprt_sha256_add(&hash_, text.data(), text.size());
    return *this;
  }
  // Ends the hash.
  std::string hex() {
    char digits[HIPRT_SHA256_DIGITS + 1];
    hiprt_sha256_end(&hash_, digits);
    return digits;
  }

 private:
  hiprt_sha256 hash_;
};

inline std::string sha256_hex(const std::string &text) { return Sha256().add(text).hex(); }

}  // namespace cpu
