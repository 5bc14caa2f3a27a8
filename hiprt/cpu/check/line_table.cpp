#include "check/line_table.h"

#include <algorithm>
#include <cstring>

namespace cpu {
namespace {

// Reads values from a section; after its end they are zero.
class Bytes {
 public:
  Bytes(const unsigned char *p, const unsigned char *end) : p_(p), end_(end) {}

  template <class T>
  T fixed() {
    T value{};
    if (left() >= sizeof(T)) std::memcpy(&value, p_, sizeof(T));
    skip(sizeof(T));
    return value;
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = fixed<uint8_t>();
      if (shift < 64) value |= uint64_t(byte & 0x7F) << shift;
      if (!(byte & 0x80)) return value;
    }
  }
  int64_t sleb() {
    int64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
      byte = fixed<uint8_t>();
      if (shift < 64) value |= int64_t(byte & 0x7F) << shift;
      shift += 7;
    } while (byte & 0x80);
    return byte & 0x40 && shift < 64 ? value | -(int64_t{1} << shift) : value;
  }
  std::string text() {
    const size_t size = strnlen(reinterpret_cast<const char *>(p_), left());
    std::string out(reinterpret_cast<const char *>(p_), size);
    skip(size + 1);
    return out;
  }
  void skip(size_t n) { p_ += std::min(n, left()); }
  size_t left() const { return static_cast<size_t>(end_ - p_); }
  const unsigned char *place() const { return p_; }

 private:
  const unsigned char *p_, *end_;
};

enum : uint8_t { kCopy = 1, kAdvancePc, kAdvanceLine, kSetFile, kSetColumn, kNegate, kBlock, kConstAddPc, kFixedPc };
enum : uint8_t { kEndSequence = 1, kSetAddress = 2 };

}  // namespace

LineTable::LineTable(const unsigned char *section, size_t size) {
  Bytes all(section, section + size);
  while (all.left() > 4) {
    const auto length = all.fixed<uint32_t>();
    if (length > all.left()) break;
    read_unit(all.place(), all.place() + length);
    all.skip(length);
  }
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row &a, const Row &b) { return a.address < b.address; });
}

void LineTable::read_unit(const unsigned char *p, const unsigned char *end) {
  Bytes in(p, end);
  if (in.fixed<uint16_t>() != 4) return;
  const auto header = in.fixed<uint32_t>();
  Bytes program(in.place() + std::min<size_t>(header, in.left()), end);
  const auto unit = in.fixed<uint8_t>();
  in.skip(2);
  const auto line_base = in.fixed<int8_t>();
  const auto line_range = std::max<uint8_t>(in.fixed<uint8_t>(), 1), opcode_base = in.fixed<uint8_t>();
  std::vector<uint8_t> operands(opcode_base ? opcode_base : 1);
  for (unsigned i = 1; i < opcode_base; ++i) operands[i] = in.fixed<uint8_t>();
  while (in.left() && !in.text().empty()) continue;  // folders
  const auto first = static_cast<uint32_t>(files_.size());
  files_.emplace_back();  // files are counted from 1
  for (std::string name = in.text(); !name.empty(); name = in.text()) {
    files_.push_back(name);
    in.uleb(), in.uleb(), in.uleb();
  }
  Row row{0, 1, 1, false};
  const auto emit = [&] { rows_.push_back({row.address, first + row.file, row.line, row.is_end}); };
  while (program.left()) {
    const auto opcode = program.fixed<uint8_t>();
    if (opcode >= opcode_base) {
      const unsigned step = opcode - opcode_base;
      row.address += uint64_t{unit} * (step / line_range);
      row.line += static_cast<uint32_t>(line_base + static_cast<int>(step % line_range));
      emit();
      continue;
    }
    switch (opcode) {
      case 0: {
        const uint64_t length = program.uleb();
        Bytes extended(program.place(), program.place() + std::min<uint64_t>(length, program.left()));
        const auto what = extended.fixed<uint8_t>();
        if (what == kSetAddress) row.address = extended.fixed<uint64_t>();
        if (what == kEndSequence) {
          row.is_end = true;
          emit();
          row = {0, 1, 1, false};
        }
        program.skip(length);
        break;
      }
      case kCopy: emit(); break;
      case kAdvancePc: row.address += unit * program.uleb(); break;
      case kAdvanceLine: row.line += static_cast<uint32_t>(program.sleb()); break;
      case kSetFile: row.file = static_cast<uint32_t>(program.uleb()); break;
      case kNegate: case kBlock: break;
      case kConstAddPc: row.address += uint64_t{unit} * ((255u - opcode_base) / line_range); break;
      case kFixedPc: row.address += program.fixed<uint16_t>(); break;
      default:
        for (unsigned i = 0; i < operands[opcode]; ++i) program.uleb();
    }
  }
}

std::string LineTable::at(uint64_t address) const {
  const auto after = std::upper_bound(rows_.begin(), rows_.end(), address,
                                [](uint64_t value, const Row &row) { return value < row.address; });
  if (after == rows_.begin()) return "";
  // Line 0 stands for code of no line, and our headers say nothing to a reader: the nearest line of the program counts.
  const auto is_of_program = [&](const Row &row) {
    return row.line && row.file < files_.size() && files_[row.file].rfind("cpu_", 0) != 0;
  };
  auto at = after - 1;
  for (auto row = at; row != rows_.end() && !row->is_end; ++row) {
    if (is_of_program(*row)) return files_[row->file] + ":" + std::to_string(row->line);
  }
  for (; !at->is_end; --at) {
    if (is_of_program(*at)) return files_[at->file] + ":" + std::to_string(at->line);
    if (at == rows_.begin()) break;
  }
  return "";
}

}  // namespace cpu
