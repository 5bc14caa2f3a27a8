#include "engine/elf_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace cpu {
namespace {

// Copies structures from offsets that it checks against the image's size.
class Reader {
 public:
  Reader(const void *image, size_t size) : base_(static_cast<const char *>(image)), size_(size) {}

  template <class T>
  bool get(uint64_t offset, T *out) const {
    if (offset > size_ || sizeof(T) > size_ - offset) return false;
    std::memcpy(out, base_ + offset, sizeof(T));
    return true;
  }
  std::string text(uint64_t offset) const {
    if (offset >= size_) return "";
    return std::string(base_ + offset, strnlen(base_ + offset, size_ - offset));
  }

 private:
  const char *base_;
  size_t size_;
};

void read_symbols(const Reader &in, const Elf64_Shdr &table, const Elf64_Shdr &names, ElfImage *out) {
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym s;
    if (!in.get(table.sh_offset + at, &s)) return;
    const uint32_t type = ELF64_ST_TYPE(s.st_info);
    out->symbols.push_back({in.text(names.sh_offset + s.st_name), s.st_value, s.st_size, type, s.st_shndx != SHN_UNDEF});
  }
}

void read_sections(const Reader &in, const Elf64_Ehdr &header, ElfImage *out) {
  std::vector<Elf64_Shdr> all(header.e_shnum);
  for (size_t i = 0; i < all.size(); ++i)
    if (!in.get(header.e_shoff + i * header.e_shentsize, &all[i])) return;
  if (header.e_shstrndx >= all.size()) return;
  const uint64_t names = all[header.e_shstrndx].sh_offset;
  for (const Elf64_Shdr &s : all) {
    out->sections.push_back({in.text(names + s.sh_name), s.sh_addr, s.sh_offset, s.sh_size});
    if (s.sh_type == SHT_SYMTAB && s.sh_link < all.size()) read_symbols(in, s, all[s.sh_link], out);
  }
}

}  // namespace

const Symbol *ElfImage::find(const std::string &name) const {
  const auto found = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol &s) { return s.name == name; });
  return found == symbols.end() ? nullptr : &*found;
}

uint16_t host_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
#error "the CPU device supports x86-64 and aarch64"
#endif
}

bool read_elf(const void *image, ElfImage *out) {
  if (strncmp(static_cast<const char *>(image), ELFMAG, SELFMAG) != 0) return false;
  Elf64_Ehdr header;
  std::memcpy(&header, image, EI_NIDENT);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) return false;
  std::memcpy(&header, image, sizeof header);
  out->machine = header.e_machine;
  out->type = header.e_type;
  out->size = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  if (header.e_machine == host_machine() && header.e_shentsize == sizeof(Elf64_Shdr))
    read_sections(Reader(image, out->size), header, out);
  return true;
}

}  // namespace cpu
