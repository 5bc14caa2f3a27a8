// HIP's functions of errors: the names and meanings of codes, and a thread's last error.
#include "hip/hiprt_error_texts.h"
#include "runtime/status.h"

namespace cpu {
namespace {

struct Text {
  hipError_t code;
  const char *name;
  const char *meaning;
};

constexpr Text kTexts[] = {
#define TEXT(code, meaning) {code, #code, meaning},
    HIPRT_ERROR_TEXTS(TEXT)
#undef TEXT
};

const Text *find_text(hipError_t code) {
  for (const Text &text : kTexts) {
    if (text.code == code) return &text;
  }
  return nullptr;
}

const Text &text_or_unknown(hipError_t code) {
  const Text *text = find_text(code);
  return text ? *text : *find_text(hipErrorUnknown);
}

}  // namespace
}  // namespace cpu

using namespace cpu;

hipError_t hipGetLastError() { return take_last_error(); }

hipError_t hipPeekAtLastError() { return peek_last_error(); }

hipError_t hipExtGetLastError() { return take_last_status(); }

const char *hipGetErrorName(hipError_t error) { return text_or_unknown(error).name; }

const char *hipGetErrorString(hipError_t error) { return text_or_unknown(error).meaning; }

hipError_t hipDrvGetErrorName(hipError_t error, const char **out) {
  const Text *text = find_text(error);
  if (!out || !text) return done(hipErrorInvalidValue);
  *out = text->name;
  return done(hipSuccess);
}

hipError_t hipDrvGetErrorString(hipError_t error, const char **out) {
  const Text *text = find_text(error);
  if (!out || !text) return done(hipErrorInvalidValue);
  *out = text->meaning;
  return done(hipSuccess);
}
