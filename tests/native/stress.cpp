// Many threads and streams at once through the C core on the CPU device, for ThreadSanitizer.
//
// Each thread has its own streams, recorders and buffers, as G12 allows; kernels, module, compiler and device are shared.
// Every result is checked. Usage: stress LIBRARY [THREADS STREAMS ROUNDS]; prints "ok" and exits with 0.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"

extern "C" {
#include "library.h"

#include "interface.h"
}

namespace {

constexpr int kSize = 1024;
const char *const kSource = R"(
extern "C" __global__ void scale_add(const int* x, int* y, int by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by + y[i];
}
extern "C" __global__ void turn(int* y, int n) {
  __shared__ int tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? y[i] : 0;
  __syncthreads();
  if (i < n) y[i] = tile[blockDim.x - 1 - threadIdx.x];
}
)";

void check(bool fine, const char *what) {
  if (fine) return;
  std::fprintf(stderr, "failed: %s (%s: %s)\n", what, hiprt_failure_call(), hiprt_failure_detail());
  std::_Exit(1);
}

hiprt_kernel *make_kernel(hipModule_t module, const char *name, std::vector<hiprt_argument> args) {
  hipFunction_t function = nullptr;
  check(hipModuleGetFunction(&function, module, name) == hipSuccess, "hipModuleGetFunction");
  const auto count = static_cast<uint32_t>(args.size());
  hiprt_kernel *kernel;
  check(hiprt_kernel_create(reinterpret_cast<uint64_t>(function), name, count, args.data(), &kernel) == 0, "kernel");
  return kernel;
}

hipModule_t compile() {
  hiprtcProgram program = nullptr;
  check(hiprtcCreateProgram(&program, kSource, "stress.hip", 0, nullptr, nullptr) == HIPRTC_SUCCESS, "create program");
  check(hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_SUCCESS, "compile");
  size_t size = 0;
  hiprtcGetCodeSize(program, &size);
  std::string code(size, '\0');
  hiprtcGetCode(program, code.data());
  hiprtcDestroyProgram(&program);
  hipModule_t module = nullptr;
  check(hipModuleLoadData(&module, code.data()) == hipSuccess, "hipModuleLoadData");
  return module;
}

// One launch as hiprt_launch takes it: dimensions, arguments (buffers, then ints), {start, end} of each buffer.
struct Launch {
  std::vector<uint64_t> head{4 | uint64_t{1} << 32, 1 | uint64_t{256} << 32, 1 | uint64_t{1} << 32, 0}, ranges;
  std::vector<int> values;
  Launch &buffer(const int *address) {
    const auto at = reinterpret_cast<uint64_t>(address);
    head.push_back(at);
    ranges.insert(ranges.end(), {at, at + kSize * sizeof(int)});
    return *this;
  }
  Launch &value(int v) {
    values.push_back(v);
    return *this;
  }
  void on(hiprt_stream *stream, hiprt_kernel *kernel) const {
    std::vector<uint64_t> payload(head.size() + (values.size() + 1) / 2 + ranges.size());
    std::copy(head.begin(), head.end(), payload.begin());
    std::memcpy(payload.data() + head.size(), values.data(), values.size() * sizeof(int));
    std::copy(ranges.begin(), ranges.end(), payload.end() - static_cast<std::ptrdiff_t>(ranges.size()));
    const auto *bytes = reinterpret_cast<const char *>(payload.data());
    check(hiprt_launch(stream, kernel, bytes, static_cast<uint32_t>(payload.size() * 8)) == 0, "hiprt_launch");
  }
};

struct Lane {
  hipStream_t handle = nullptr;
  hiprt_stream *stream = nullptr;
  hiprt_exec *exec = nullptr;
  int *x = nullptr, *y = nullptr;
  int expected = 0;
};

hiprt_kernel *scale_add, *turn;

void issue(const Lane &lane, int by) {
  Launch().buffer(lane.x).buffer(lane.y).value(by).value(kSize).on(lane.stream, scale_add);
  Launch().buffer(lane.y).value(kSize).on(lane.stream, turn);
  Launch().buffer(lane.y).value(kSize).on(lane.stream, turn);
}

void open_lane(Lane *lane) {
  check(hipStreamCreateWithFlags(&lane->handle, hipStreamNonBlocking) == hipSuccess, "hipStreamCreateWithFlags");
  check(hiprt_stream_create(reinterpret_cast<uint64_t>(lane->handle), 0, &lane->stream) == 0, "stream");
  hiprt_stream_own(lane->stream);
  check(hipMalloc(reinterpret_cast<void **>(&lane->x), kSize * sizeof(int)) == hipSuccess, "hipMalloc");
  check(hipMalloc(reinterpret_cast<void **>(&lane->y), kSize * sizeof(int)) == hipSuccess, "hipMalloc");
  check(hiprt_fill(lane->stream, reinterpret_cast<uint64_t>(lane->x), 1, 4, kSize) == 0, "fill x");
  check(hiprt_fill(lane->stream, reinterpret_cast<uint64_t>(lane->y), 0, 4, kSize) == 0, "fill y");
}

// Record, then replay or patch; now and then start over, or launch eagerly.
void step(Lane *lane, int round) {
  const int by = round % 7 + 1;
  lane->expected += by;
  if (round % 5 == 4) return issue(*lane, by);
  hiprt_recorder *recorder;
  check(hiprt_recorder_create(1, &recorder) == 0, "recorder");
  check(hiprt_recorder_start(recorder, lane->stream, 0) == 0, "record");
  issue(*lane, by);
  hiprt_stream_stop(lane->stream);
  uint32_t patched = 0;
  int ran = 0;
  if (lane->exec && round % 11 == 0) {
    hiprt_exec_release(lane->exec);
    lane->exec = nullptr;
  }
  if (!lane->exec) {
    check(hiprt_exec_create(recorder, 0, 4, 0, nullptr, &lane->exec) == 0, "hiprt_exec_create");
  } else {
    check(hiprt_exec_wait(lane->exec) == 0, "hiprt_exec_wait");
    check(round % 2 ? hiprt_exec_patch(lane->exec, recorder, &patched) == 0
                    : hiprt_exec_update(lane->exec, recorder) == 0,
          "patch or update");
  }
  hiprt_recorder_release(recorder);
  check(hiprt_exec_launch(lane->exec, lane->stream, round % 3 == 0, &ran) == 0, "hiprt_exec_launch");
}

void close_lane(Lane *lane) {
  int ran = 0;
  std::vector<int> result(kSize);
  check(hiprt_copy(lane->stream, reinterpret_cast<uint64_t>(result.data()), reinterpret_cast<uint64_t>(lane->y),
                   kSize * sizeof(int), 2) == 0, "copy");
  check(hiprt_stream_synchronize(lane->stream) == 0, "synchronize");
  for (int value : result) check(value == lane->expected, "result");
  check(hiprt_exec_launch(lane->exec, lane->stream, 0, &ran) == 0, "hiprt_exec_launch");
  hiprt_stream_close(lane->stream, 1);
  check(hipStreamDestroy(lane->handle) == hipSuccess, "hipStreamDestroy");
  hiprt_stream_release(lane->stream);
  hiprt_exec_release(lane->exec);
  check(hipFree(lane->x) == hipSuccess && hipFree(lane->y) == hipSuccess, "hipFree");
}

// Threads open the compiler while others use it.
void ask_compiler(const char *library) {
  int major = 0, minor = 0;
  check(hiprt_compiler_open(library) == 0, "hiprt_compiler_open");
  check(hiprt_hiprtc.hiprtcVersion(&major, &minor) == HIPRTC_SUCCESS && major, "hiprtcVersion");
}

void work(const char *library, int streams, int rounds) {
  std::vector<Lane> lanes(static_cast<size_t>(streams));
  for (Lane &lane : lanes) open_lane(&lane);
  for (int round = 0; round < rounds; ++round) {
    ask_compiler(library);
    for (Lane &lane : lanes) step(&lane, round);
  }
  for (Lane &lane : lanes) close_lane(&lane);
}

}  // namespace

int main(int argc, char **argv) {
  const int threads = argc > 2 ? std::atoi(argv[2]) : 8;
  const int streams = argc > 3 ? std::atoi(argv[3]) : 4;
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 40;
  check(argc > 1 && hiprt_library_open(argv[1]) == 0, "hiprt_library_open");
  const hipModule_t module = compile();
  scale_add = make_kernel(module, "scale_add", {{8, 8, 1}, {8, 8, 3}, {4, 4, 0}, {4, 4, 0}});
  turn = make_kernel(module, "turn", {{8, 8, 3}, {4, 4, 0}});
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(work, argv[1], streams, rounds);
  for (std::thread &thread : all) thread.join();
  hiprt_kernel_release(scale_add);
  hiprt_kernel_release(turn);
  check(hipModuleUnload(module) == hipSuccess, "hipModuleUnload");
  std::puts("ok");
  return 0;
}
