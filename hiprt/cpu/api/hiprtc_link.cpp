// hiprtc's links: bitcode of several programs becomes one code object.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/hiprtc_status.h"
#include "compile/program.h"
#include "hip/hip_jit_types.h"
#include "registry.h"

using cpu::rtc_api;

namespace {

// A text buffer of the application's for messages.
struct LogBuffer {
  char *text = nullptr;
  size_t size = 0;

  void write(const std::string &message) const {
    if (!text || !size) return;
    const size_t length = std::min(message.size(), size - 1);
    std::memcpy(text, message.data(), length);
    text[length] = 0;
  }
};

struct RtcLink {
  std::mutex lock;
  std::vector<std::string> bitcodes;
  cpu::Built built;
  LogBuffer messages, errors;
};

// It is never destroyed, because other threads may still use it while the process exits.
cpu::Registry<hiprtcLinkState, RtcLink> &links() {
  static auto &all = *new cpu::Registry<hiprtcLinkState, RtcLink>;
  return all;
}

// Calls with the live, locked link behind a handle.
template <class Call>
hiprtcResult with(hiprtcLinkState handle, Call &&call) noexcept {
  return rtc_api([&] {
    const std::shared_ptr<RtcLink> link = links().find(handle);
    if (!link) return HIPRTC_ERROR_INVALID_INPUT;
    const std::lock_guard<std::mutex> hold(link->lock);
    return call(*link);
  });
}

// The options for an AMD backend have nothing to act on.
void read_option(hipJitOption option, void *value, RtcLink *link) {
  if (option == hipJitOptionInfoLogBuffer) link->messages.text = static_cast<char *>(value);
  if (option == hipJitOptionInfoLogBufferSizeBytes) link->messages.size = reinterpret_cast<uintptr_t>(value);
  if (option == hipJitOptionErrorLogBuffer) link->errors.text = static_cast<char *>(value);
  if (option == hipJitOptionErrorLogBufferSizeBytes) link->errors.size = reinterpret_cast<uintptr_t>(value);
}

hiprtcResult add(RtcLink &link, hipJitInputType type, std::string bytes) {
  static const std::string magic = "BC\xC0\xDE";
  if (type < hipJitInputLLVMBitcode) return HIPRTC_ERROR_INVALID_INPUT;
  if (type != hipJitInputLLVMBitcode || bytes.compare(0, magic.size(), magic) != 0) {
    link.errors.write("hiprtc: this device links LLVM bitcode that hiprtcGetBitcode gave, and nothing else\n");
    return HIPRTC_ERROR_PROGRAM_CREATION_FAILURE;
  }
  link.bitcodes.push_back(std::move(bytes));
  return HIPRTC_SUCCESS;
}

}  // namespace

extern "C" {

hiprtcResult hiprtcLinkCreate(unsigned num_options, hipJitOption *option_ptr, void **option_vals_pptr,
                              hiprtcLinkState *hip_link_state_ptr) {
  return rtc_api([&] {
    if (!hip_link_state_ptr || (num_options && (!option_ptr || !option_vals_pptr))) return HIPRTC_ERROR_INVALID_INPUT;
    auto link = std::make_shared<RtcLink>();
    for (unsigned i = 0; i < num_options; ++i) read_option(option_ptr[i], option_vals_pptr[i], link.get());
    *hip_link_state_ptr = links().add(std::move(link));
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcLinkAddFile(hiprtcLinkState hip_link_state, hipJitInputType input_type, const char *file_path, unsigned,
                               hipJitOption *, void **) {
  return with(hip_link_state, [&](RtcLink &link) {
    if (!file_path || input_type < hipJitInputLLVMBitcode) return HIPRTC_ERROR_INVALID_INPUT;
    std::ifstream file(file_path, std::ios::binary);
    if (!file) return HIPRTC_ERROR_PROGRAM_CREATION_FAILURE;
    return add(link, input_type, {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  });
}

hiprtcResult hiprtcLinkAddData(hiprtcLinkState hip_link_state, hipJitInputType input_type, void *image, size_t image_size,
                               const char *, unsigned, hipJitOption *, void **) {
  return with(hip_link_state, [&](RtcLink &link) {
    if (!image || !image_size) return HIPRTC_ERROR_INVALID_INPUT;
    return add(link, input_type, std::string(static_cast<const char *>(image), image_size));
  });
}

hiprtcResult hiprtcLinkComplete(hiprtcLinkState hip_link_state, void **bin_out, size_t *size_out) {
  return with(hip_link_state, [&](RtcLink &link) {
    if (!bin_out || !size_out) return HIPRTC_ERROR_INVALID_INPUT;
    link.built = cpu::Built();
    const bool good = cpu::link_programs(link.bitcodes, &link.built);
    (good ? link.messages : link.errors).write(link.built.log);
    if (!good) return HIPRTC_ERROR_LINKING;
    *bin_out = link.built.image.data();
    *size_out = link.built.image.size();
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcLinkDestroy(hiprtcLinkState hip_link_state) {
  return rtc_api([&] { return links().remove(hip_link_state) ? HIPRTC_SUCCESS : HIPRTC_ERROR_INVALID_INPUT; });
}

}  // extern "C"
