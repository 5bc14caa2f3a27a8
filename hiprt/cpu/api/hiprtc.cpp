// The functions of hiprtc.
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "api/hiprtc_status.h"
#include "compile/program.h"
#include "hip/hip_version.h"
#include "registry.h"

using cpu::rtc_api;

namespace {

struct RtcProgram {
  std::mutex lock;
  cpu::Program text;
  cpu::Built built;
  bool compiled = false;   // the last compilation succeeded
  bool attempted = false;  // there is a log

  // Returns whether there is bitcode, or code that can be loaded.
  bool has(bool bitcode) const { return compiled && text.options.is_linked == bitcode; }
};

// It is never destroyed, because other threads may still use it while the process exits.
cpu::Registry<hiprtcProgram, RtcProgram> &programs() {
  static auto &all = *new cpu::Registry<hiprtcProgram, RtcProgram>;
  return all;
}

// Calls with the live, locked program behind a handle.
template <class Call>
hiprtcResult with(hiprtcProgram handle, Call &&call) noexcept {
  return rtc_api([&] {
    const std::shared_ptr<RtcProgram> program = programs().find(handle);
    if (!program) return HIPRTC_ERROR_INVALID_PROGRAM;
    const std::lock_guard<std::mutex> hold(program->lock);
    return call(*program);
  });
}

bool is_include_name(const std::string &name) {
  return !name.empty() && name[0] != '/' && ("/" + name + "/").find("/../") == std::string::npos;
}

hiprtcResult take_text(const char *src, const char *name, int count, const char *const *headers, const char *const *names,
                       cpu::Program *out) {
  if (!src || count < 0 || (count > 0 && (!headers || !names))) return HIPRTC_ERROR_INVALID_INPUT;
  out->source = src;
  out->name = name && *name ? name : "program.hip";
  for (int i = 0; i < count; ++i) {
    if (!headers[i] || !names[i] || !is_include_name(names[i])) return HIPRTC_ERROR_INVALID_INPUT;
    out->headers.emplace_back(names[i], headers[i]);
  }
  return HIPRTC_SUCCESS;
}

// Copies bytes out. Texts have a terminating zero (`extra` is 1), which their sizes count; images have none.
hiprtcResult give(const std::string &bytes, size_t extra, char *out) {
  if (!out) return HIPRTC_ERROR_INVALID_INPUT;
  std::memcpy(out, bytes.c_str(), bytes.size() + extra);
  return HIPRTC_SUCCESS;
}

hiprtcResult give_size(size_t size, size_t *out) {
  if (!out) return HIPRTC_ERROR_INVALID_INPUT;
  *out = size;
  return HIPRTC_SUCCESS;
}

}  // namespace

extern "C" {

const char *hiprtcGetErrorString(hiprtcResult result) {
  switch (result) {
    case HIPRTC_SUCCESS: return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_OUT_OF_MEMORY: return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case HIPRTC_ERROR_PROGRAM_CREATION_FAILURE: return "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case HIPRTC_ERROR_INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_INVALID_OPTION: return "HIPRTC_ERROR_INVALID_OPTION";
    case HIPRTC_ERROR_COMPILATION: return "HIPRTC_ERROR_COMPILATION";
    case HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE: return "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    case HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION: return "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION: return "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID: return "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case HIPRTC_ERROR_INTERNAL_ERROR: return "HIPRTC_ERROR_INTERNAL_ERROR";
    case HIPRTC_ERROR_LINKING: return "HIPRTC_ERROR_LINKING";
  }
  return "Invalid HIPRTC error code";
}

hiprtcResult hiprtcVersion(int *major, int *minor) {
  if (!major || !minor) return HIPRTC_ERROR_INVALID_INPUT;
  *major = HIP_VERSION_MAJOR;
  *minor = HIP_VERSION_MINOR;
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram *prog, const char *src, const char *name, int numHeaders,
                                 const char *const *headers, const char *const *includeNames) {
  return rtc_api([&] {
    if (!prog) return HIPRTC_ERROR_INVALID_INPUT;
    auto program = std::make_shared<RtcProgram>();
    const hiprtcResult status = take_text(src, name, numHeaders, headers, includeNames, &program->text);
    if (status == HIPRTC_SUCCESS) *prog = programs().add(std::move(program));
    return status;
  });
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram *prog) {
  return rtc_api([&] {
    // Callers often pass the handle instead of its address (in hip-python: program.createRef()).
    if (!prog || programs().find(reinterpret_cast<hiprtcProgram>(prog))) return HIPRTC_ERROR_INVALID_INPUT;
    if (!programs().remove(*prog)) return HIPRTC_ERROR_INVALID_PROGRAM;
    *prog = nullptr;
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcAddNameExpression(hiprtcProgram prog, const char *name_expression) {
  return with(prog, [&](RtcProgram &p) {
    if (!name_expression || !*name_expression) return HIPRTC_ERROR_INVALID_INPUT;
    if (p.attempted) return HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    p.text.expressions.push_back(name_expression);
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram prog, int numOptions, const char *const *options) {
  return with(prog, [&](RtcProgram &p) {
    if (numOptions < 0 || (numOptions > 0 && !options)) return HIPRTC_ERROR_INVALID_INPUT;
    std::vector<std::string> given;
    for (int i = 0; i < numOptions; ++i) {
      if (!options[i]) return HIPRTC_ERROR_INVALID_INPUT;
      given.push_back(options[i]);
    }
    p.built = cpu::Built();
    p.text.options = cpu::Options();
    p.attempted = true;
    p.compiled = false;
    if (!cpu::read_options(given, &p.text.options, &p.built.log)) return HIPRTC_ERROR_INVALID_OPTION;
    p.compiled = cpu::build_program(p.text, &p.built);
    // LLVM prints its code to standard error, which in HIP is the program's own.
    if (p.text.options.is_printing) std::fputs(p.built.log.c_str(), stderr);
    return p.compiled ? HIPRTC_SUCCESS : HIPRTC_ERROR_COMPILATION;
  });
}

hiprtcResult hiprtcGetLoweredName(hiprtcProgram prog, const char *name_expression, const char **lowered_name) {
  return with(prog, [&](RtcProgram &p) {
    if (!name_expression || !lowered_name) return HIPRTC_ERROR_INVALID_INPUT;
    if (!p.compiled) return HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    const auto found = p.built.lowered.find(name_expression);
    if (found == p.built.lowered.end()) return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    *lowered_name = found->second.c_str();
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram prog, size_t *logSizeRet) {
  return with(prog, [&](RtcProgram &p) { return give_size(p.built.log.size() + 1, logSizeRet); });
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram prog, char *log) {
  return with(prog, [&](RtcProgram &p) { return give(p.built.log, 1, log); });
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram prog, size_t *codeSizeRet) {
  return with(prog, [&](RtcProgram &p) {
    return p.has(false) ? give_size(p.built.image.size(), codeSizeRet) : HIPRTC_ERROR_INVALID_PROGRAM;
  });
}

hiprtcResult hiprtcGetCode(hiprtcProgram prog, char *code) {
  return with(prog, [&](RtcProgram &p) { return p.has(false) ? give(p.built.image, 0, code) : HIPRTC_ERROR_INVALID_PROGRAM; });
}

hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram prog, size_t *bitcode_size) {
  if (!bitcode_size) return HIPRTC_ERROR_INVALID_INPUT;
  return with(prog, [&](RtcProgram &p) { return p.has(true) ? give_size(p.built.image.size(), bitcode_size) : HIPRTC_ERROR_INVALID_PROGRAM; });
}

hiprtcResult hiprtcGetBitcode(hiprtcProgram prog, char *bitcode) {
  if (!bitcode) return HIPRTC_ERROR_INVALID_INPUT;
  return with(prog, [&](RtcProgram &p) { return p.has(true) ? give(p.built.image, 0, bitcode) : HIPRTC_ERROR_INVALID_PROGRAM; });
}

}  // extern "C"
