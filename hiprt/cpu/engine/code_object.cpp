#include "engine/code_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "check/checks.h"
#include "check/kernel_check.h"
#include "engine/callbacks.h"
#include "engine/elf_image.h"
#include "include/cpu_abi.h"

namespace cpu {
namespace {

constexpr const char *kInfoSymbol = "__hiprt_module";
constexpr const char *kEmulated = "__emutls_v.";

// Held around dlopen and dlclose. ThreadSanitizer does not know their own lock, and would report a race between a
// module and one that lay at the same addresses before.
std::mutex &loader_lock() {
  static std::mutex &lock = *new std::mutex;
  return lock;
}

struct Object : Module {
  ~Object() override {
    if (code) module_unloaded(code, size);
    const std::lock_guard<std::mutex> hold(loader_lock());
    if (handle) dlclose(handle);
  }
  void *handle = nullptr;
  size_t size = 0;  // while kernels are checked
  std::vector<std::unique_ptr<KernelCode>> codes;
};

// Returns whether an image is in order but meant for another machine.
bool is_foreign(const char *p) {
  for (const char *magic : {"__CLANG_OFFLOAD_BUNDLE__", "CCOB", "//", ".version", "BC\xC0\xDE"})
    if (strncmp(p, magic, std::strlen(magic)) == 0) return true;
  return false;
}

// Returns a path that opens the descriptor and differs from every path before. Descriptor numbers are used again, and
// dlopen takes an open library for the one asked for if their paths are equal. The bits of a count become "/." and "/"
// in the path.
std::string path_of(int fd) {
  static std::atomic<uint64_t> generation{0};
  std::string path = "/proc/self/fd";
  for (uint64_t bits = generation++; bits; bits >>= 1) path += bits & 1 ? "/." : "/";
  return path + "/" + std::to_string(fd);
}

void *open_image(const void *image, size_t size, std::string *why) {
  const int fd = memfd_create("hiprt-module", MFD_CLOEXEC);
  const char *p = static_cast<const char *>(image);
  size_t done = 0;
  while (fd >= 0 && done < size) {
    const ssize_t n = write(fd, p + done, size - done);
    if (n <= 0) break;
    done += size_t(n);
  }
  void *handle = nullptr;
  if (done == size) {
    const std::string path = path_of(fd);
    const std::lock_guard<std::mutex> hold(loader_lock());
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) *why = dlerror();
  }
  if (fd >= 0) close(fd);
  return handle;
}

// Finds the function or variable that an address lies in.
class Symbols {
 public:
  Symbols(const ElfImage &elf, uintptr_t base) : base_(base) {
    for (const Symbol &s : elf.symbols)
      if (s.is_defined && (s.type == STT_FUNC || s.type == STT_OBJECT)) all_.push_back(&s);
    std::sort(all_.begin(), all_.end(), [](const Symbol *a, const Symbol *b) { return a->value < b->value; });
  }
  const Symbol *at(const void *address) const {
    const uint64_t value = reinterpret_cast<uintptr_t>(address) - base_;
    const auto after = std::upper_bound(all_.begin(), all_.end(), value,
                                        [](uint64_t v, const Symbol *s) { return v < s->value; });
    if (after == all_.begin()) return nullptr;
    const Symbol *s = *(after - 1);
    return value < s->value + std::max<uint64_t>(s->size, 1) ? s : nullptr;
  }

 private:
  std::vector<const Symbol *> all_;
  uintptr_t base_;
};

// Returns whether a function is a checked kernel's loop over threads (cpu_kernel.h), which holds a copy of the kernel.
bool is_loop(const Symbol &s) {
  return s.name.find("__hiprt_symbol") != std::string::npos && s.name.find("7threadsE") != std::string::npos;
}

// Returns the functions that contain operations which leave marks in a section: synchronising ones (cpu_language.h), or those
// by which blocks may tell each other something (cpu_talk.h). A null stands for code outside any known function.
std::vector<const Symbol *> marked(const char *section, const ElfImage &elf, const Symbols &symbols, uintptr_t base) {
  std::vector<const Symbol *> out;
  for (const Section &s : elf.sections) {
    if (s.name != section) continue;
    for (uint64_t at = 0; at + 4 <= s.size; at += 4) {
      const char *mark = reinterpret_cast<const char *>(base + s.address + at);
      int32_t distance;
      std::memcpy(&distance, mark, 4);
      const Symbol *function = symbols.at(mark + distance);
      const bool is_copy = function && is_loop(*function);
      if (!is_copy && std::find(out.begin(), out.end(), function) == out.end()) out.push_back(function);
    }
  }
  return out;
}

// Returns what the mangled names of a function's local variables begin with.
std::string local_prefix(const std::string &function) {
  if (function.rfind("_Z", 0) == 0) return "_ZZ" + function.substr(2) + "E";
  return "_ZZ" + std::to_string(function.size()) + function + "E";
}

// A __shared__ variable of a module.
struct Shared {
  std::string name;
  uint64_t size, align;
  __hiprt_shared_variable *place;  // null for a variable in real thread-local storage
};

// Returns all but the dynamic arrays, which get their place here.
std::vector<Shared> shared_variables(const ElfImage &elf, uintptr_t base) {
  std::vector<Shared> out;
  const size_t prefix = std::strlen(kEmulated);
  for (const Symbol &s : elf.symbols) {
    if (s.is_defined && s.type == STT_TLS && s.size) out.push_back({s.name, s.size, 1, nullptr});
    if (!s.is_defined || s.name.compare(0, prefix, kEmulated) != 0) continue;
    auto *place = reinterpret_cast<__hiprt_shared_variable *>(base + s.value);
    if (place->size) out.push_back({s.name.substr(prefix), place->size, place->align, place});
    else place->offset = HIPRT_CPU_SHARED;
  }
  return out;
}

uint64_t take_place(const Shared &v, uint64_t at) {
  at = (at + v.align - 1) / v.align * v.align;
  if (v.place) v.place->offset = at;
  return at + v.size;
}

// Between variables of kernels that are checked lies memory that nobody owns, so that a step beyond one is seen.
constexpr uint64_t kSharedGap = 64;

// Gives the variables their places and the kernels their sizes. Variables declared in a kernel are its own and overlap
// those of other kernels; any kernel may use the others.
void place_shared(const std::vector<Shared> &all, const Module &module, uint64_t gap) {
  const auto owner_of = [&](const Shared &v) -> Kernel * {
    for (const auto &k : module.kernels)
      if (v.name.rfind(local_prefix(k->name), 0) == 0) return k.get();
    return nullptr;
  };
  const auto end_of = [&](const Kernel *owner, uint64_t at, std::vector<SharedPiece> *pieces) {
    for (const Shared &v : all) {
      if (owner_of(v) != owner) continue;
      at = take_place(v, at) + gap;
      pieces->push_back({at - gap - v.size, v.size, v.name});
    }
    return at;
  };
  std::vector<SharedPiece> common;
  const uint64_t end = end_of(nullptr, 0, &common);
  for (const auto &kernel : module.kernels) {
    kernel->shared_pieces = common;
    kernel->static_shared = uint32_t(std::min<uint64_t>(end_of(kernel.get(), end, &kernel->shared_pieces), UINT32_MAX));
  }
}

// The sizes that a program sees have no gaps, nor do kernels that would not fit with them.
void place_shared(const std::vector<Shared> &all, const Module &module) {
  place_shared(all, module, 0);
  if (!is_checking()) return;
  std::vector<uint32_t> sizes;
  for (const auto &kernel : module.kernels) sizes.push_back(kernel->static_shared);
  place_shared(all, module, kSharedGap);
  const auto fits = [](const auto &kernel) { return kernel->static_shared <= HIPRT_CPU_SHARED; };
  if (!std::all_of(module.kernels.begin(), module.kernels.end(), fits)) place_shared(all, module, 0);
  for (size_t i = 0; i < sizes.size(); ++i) module.kernels[i]->static_shared = sizes[i];
}

void add_kernel(const __hiprt_entry &e, const std::string &name, bool synchronises, bool may_talk, Object *object) {
  object->codes.push_back(std::unique_ptr<KernelCode>(new KernelCode{e.run, synchronises}));
  object->codes.back()->blocks = may_talk ? BlockRelation::Unknown : BlockRelation::Apart;
  auto kernel = std::make_unique<Kernel>();
  kernel->name = name;
  for (unsigned i = 0; i < e.param_count; ++i) kernel->params.push_back({e.params[i].offset, e.params[i].size});
  kernel->kernarg_size = e.kernarg_size;
  kernel->max_threads = e.max_threads;
  kernel->module = object;
  kernel->code = object->codes.back().get();
  object->kernels.push_back(std::move(kernel));
}

// clang makes two variables of a __managed__ one: NAME.managed, and the pointer NAME. A program sees the first under the
// name of the second.
void join_managed(std::vector<Global> *globals) {
  static const std::string suffix = ".managed";
  for (Global &global : *globals) {
    if (global.name.size() <= suffix.size() || global.name.compare(global.name.size() - suffix.size(), suffix.size(), suffix) != 0) continue;
    const std::string name = global.name.substr(0, global.name.size() - suffix.size());
    const auto pointer = std::find_if(globals->begin(), globals->end(), [&](const Global &g) { return g.name == name; });
    if (pointer == globals->end()) continue;
    global.name = name, global.pointer = static_cast<void **>(pointer->address);
    *global.pointer = global.address;
    pointer->size = 0;
  }
  globals->erase(std::remove_if(globals->begin(), globals->end(), [](const Global &g) { return !g.size; }), globals->end());
}

void add_globals(const ElfImage &elf, uintptr_t base, Object *object) {
  for (const Symbol &s : elf.symbols)
    if (s.type == STT_OBJECT && s.is_defined && s.size && s.name.find("__hiprt") == std::string::npos &&
        s.name.find("__emutls") == std::string::npos)
      object->globals.push_back({s.name, reinterpret_cast<void *>(base + s.value), s.size});
  join_managed(&object->globals);
}

std::vector<const __hiprt_entry *> entries_of(const __hiprt_module_info &info) {
  std::vector<const __hiprt_entry *> out(info.listed, info.listed_end);
  for (unsigned i = 0; i < info.count; ++i) out.push_back(&info.entries[i]);
  return out;
}

void add_entries(const ElfImage &elf, const __hiprt_module_info &info, uintptr_t base, Object *object,
                 std::map<std::string, std::string> *lowered) {
  const Symbols symbols(elf, base);
  const std::vector<const Symbol *> sync = marked(".hiprt_sync", elf, symbols, base);
  const std::vector<const Symbol *> talk = marked(".hiprt_talk", elf, symbols, base);
  const std::vector<const __hiprt_entry *> entries = entries_of(info);
  std::vector<const Symbol *> own;  // the functions that hold a kernel's code: itself and its loop over threads
  for (const __hiprt_entry *e : entries) {
    own.push_back(symbols.at(e->address()));
    own.push_back(symbols.at(reinterpret_cast<const void *>(e->run)));
  }
  const auto contains = [](const std::vector<const Symbol *> &all, const Symbol *s) {
    return std::find(all.begin(), all.end(), s) != all.end();
  };
  // Any kernel may call the other functions.
  const auto is_in_shared_code = [&](const std::vector<const Symbol *> &marks) {
    return std::any_of(marks.begin(), marks.end(), [&](const Symbol *s) { return !s || !contains(own, s); });
  };
  const bool all_synchronise = is_in_shared_code(sync), all_talk = is_in_shared_code(talk);
  std::vector<std::string> names;
  for (size_t i = 0; i < entries.size(); ++i) {
    const __hiprt_entry &e = *entries[i];
    const Symbol *symbol = own[2 * i];
    if (!symbol) continue;
    if (e.expression) (*lowered)[e.expression] = symbol->name;
    if (!e.run || std::find(names.begin(), names.end(), symbol->name) != names.end()) continue;
    names.push_back(symbol->name);
    const auto has = [&](const auto &marks) { return contains(marks, symbol) || contains(marks, own[2 * i + 1]); };
    add_kernel(e, symbol->name, all_synchronise || has(sync), all_talk || has(talk), object);
  }
  place_shared(shared_variables(elf, base), *object);
}

// Tells the checks where the module lies and which lines its instructions come from.
void note_lines(const unsigned char *image, const ElfImage &elf, uintptr_t base, Object *object) {
  uint64_t end = 0;
  for (const Section &s : elf.sections) {
    if (s.address) end = std::max(end, s.address + s.size);
  }
  const auto lines = std::find_if(elf.sections.begin(), elf.sections.end(),
                                  [](const Section &s) { return s.name == ".debug_line"; });
  const bool known = lines != elf.sections.end();
  module_loaded(base, end, known ? image + lines->offset : nullptr, known ? lines->size : 0);
  object->code = base;
  object->size = end;
}

}  // namespace

hipError_t load_object(const void *image, std::unique_ptr<Module> *out, std::map<std::string, std::string> *lowered,
                       std::string *why) {
  ElfImage elf;
  if (!read_elf(image, &elf)) return is_foreign(static_cast<const char *>(image)) ? hipErrorNoBinaryForGpu : hipErrorInvalidImage;
  if (elf.machine != host_machine()) return hipErrorNoBinaryForGpu;
  const Symbol *symbol = elf.find(kInfoSymbol);
  if (elf.type != ET_DYN || !symbol) return hipErrorInvalidImage;
  auto object = std::make_unique<Object>();
  object->handle = open_image(image, elf.size, why);
  const auto *info = object->handle ? static_cast<const __hiprt_module_info *>(dlsym(object->handle, kInfoSymbol)) : nullptr;
  if (!info) return hipErrorInvalidImage;
  if (info->abi != HIPRT_CPU_ABI) return hipErrorNoBinaryForGpu;
  *info->host = &host_callbacks();
  const uintptr_t base = reinterpret_cast<uintptr_t>(info) - symbol->value;
  if (is_checking()) note_lines(static_cast<const unsigned char *>(image), elf, base, object.get());
  add_entries(elf, *info, base, object.get(), lowered);
  add_globals(elf, base, object.get());
  for (const auto &kernel : object->kernels) {
    if (kernel->static_shared <= HIPRT_CPU_SHARED) continue;
    *why = kernel->name + " has " + std::to_string(kernel->static_shared) + " bytes of shared memory, the limit is " +
           std::to_string(HIPRT_CPU_SHARED);
    return hipErrorInvalidImage;
  }
  *out = std::move(object);
  return hipSuccess;
}

hipError_t load_module(const void *image, std::unique_ptr<Module> *out) {
  std::map<std::string, std::string> lowered;
  std::string why;
  return load_object(image, out, &lowered, &why);
}

}  // namespace cpu
