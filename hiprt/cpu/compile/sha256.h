// SHA-256 (FIPS 180-4), which makes cache keys and checksums.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace cpu {

class Sha256 {
 public:
  Sha256 &add(const void *data, size_t size);
  // Adds a text and its length, so that neighbouring fields cannot run into each other.
  Sha256 &field(const std::string &text);
  std::string hex();  // ends the hash

 private:
  void block(const uint8_t *p);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t length_ = 0;
};

std::string sha256_hex(const std::string &text);

}  // namespace cpu
