// The lines of a program that its instructions come from: DWARF's line table, version 4 (dwarfstd.org, section 6.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cpu {

class LineTable {
 public:
  LineTable() = default;
  // Reads the section .debug_line of an image.
  LineTable(const unsigned char *section, size_t size);
  // Returns "file:line" for an address relative to the image's base, or an empty text.
  std::string at(uint64_t address) const;

 private:
  struct Row {
    uint64_t address;
    uint32_t file, line;
    bool is_end;
  };
  void read_unit(const unsigned char *p, const unsigned char *end);

  std::vector<std::string> files_;
  std::vector<Row> rows_;  // sorted by address
};

}  // namespace cpu
