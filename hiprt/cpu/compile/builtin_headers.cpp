#include "compile/builtin_headers.h"

#include <algorithm>

#include "compile/tokens.h"

namespace cpu {
namespace {

struct Header {
  std::string path;
  std::vector<std::string> beginnings;  // of its names
};

// Only names that nobody but HIP may define are looked for: a program can have a `half` of its own.
const std::vector<Header> &headers() {
  static const std::vector<Header> all = {
      {"hip/hip_fp16.h", {"__half", "__halves2half2", "__float2half", "__floats2half2"}},
      {"hip/hip_bfloat16.h", {"hip_bfloat16"}},
      {"hip/hip_complex.h", {"hipFloatComplex", "hipDoubleComplex", "hipComplex", "make_hip"}},
      {"hip/hip_math_constants.h", {"HIP_"}},
      {"hip/texture_types.h", {"hipTexture", "hipAddressMode", "hipFilterMode", "hipReadMode", "HIP_IMAGE_", "HIP_SAMPLER_"}}};
  return all;
}

}  // namespace

std::vector<std::string> builtin_headers(const std::string &text) {
  const std::vector<Token> tokens = tokenize(text, nullptr);
  std::vector<std::string> out;
  for (const Header &header : headers()) {
    const auto is_name = [&](const Token &t) {
      return t.kind == Token::Word && t.text != "HIP_vector_type" &&
             std::any_of(header.beginnings.begin(), header.beginnings.end(),
                         [&](const std::string &beginning) { return t.text.rfind(beginning, 0) == 0; });
    };
    if (std::any_of(tokens.begin(), tokens.end(), is_name)) out.push_back(header.path);
  }
  return out;
}

}  // namespace cpu
