// Reads a 64-bit little-endian ELF image in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cpu {

struct Symbol {
  std::string name;
  uint64_t value, size;
  unsigned type;      // STT_*
  bool is_defined;
};

struct Section {
  std::string name;
  uint64_t address, offset, size;
};

struct ElfImage {
  size_t size;        // size of the whole image, as its headers tell
  uint16_t machine, type;
  std::vector<Symbol> symbols;
  std::vector<Section> sections;

  const Symbol *find(const std::string &name) const;
};

// Returns the ELF machine number of this process.
uint16_t host_machine();

// Returns false if the bytes are no ELF image of this class. Of an image for another machine only the file header is
// read.
bool read_elf(const void *image, ElfImage *out);

}  // namespace cpu
