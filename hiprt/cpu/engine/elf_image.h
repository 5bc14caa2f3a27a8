// Reading a 64-bit little-endian ELF image in memory.
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
  size_t size;        // of the whole image, by its headers
  uint16_t machine, type;
  std::vector<Symbol> symbols;
  std::vector<Section> sections;

  const Symbol *find(const std::string &name) const;
};

// The ELF machine number of this process.
uint16_t host_machine();

// False if the bytes are no ELF image of this class. Only the file header is read until the machine is known to be the host's.
bool read_elf(const void *image, ElfImage *out);

}  // namespace cpu
