// Wrong uses of libhiprt through hiprt.hpp, which is included before any header of HIP's, and what holds behind each.
// Prints "ok".
#include "hiprt/hiprt.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"

namespace {

constexpr int Size = 256;
constexpr hiprt_dims Dims{{1, 1, 1}, {Size, 1, 1}, 0, 0};

#define CHECK(fine)                                               \
  do {                                                            \
    if (fine) break;                                              \
    std::fprintf(stderr, "line %d: %s\n", __LINE__, #fine);       \
    std::exit(1);                                                 \
  } while (0)

// The error that some work throws.
template <typename Work>
hiprt::error thrown(Work &&work) {
  try {
    work();
  } catch (const hiprt::error &failure) {
    return failure;
  }
  CHECK(!"nothing was thrown");
  std::abort();
}

bool has(const hiprt::error &failure, const char *text) { return std::string(failure.what()).find(text) != std::string::npos; }

hipModule_t compile() {
  const char *source =
      "extern \"C\" __global__ void add(const int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }\n"
      "struct pair { int by; const int* x; };\n"
      "extern \"C\" __global__ void put(pair from, int* y) { y[threadIdx.x] = from.x[threadIdx.x] * from.by; }\n"
      "extern \"C\" __global__ void store(unsigned* word, unsigned value) { *word = value; }\n";
  hiprtcProgram program = nullptr;
  std::size_t size = 0;
  CHECK(!hiprtcCreateProgram(&program, source, "add.hip", 0, nullptr, nullptr) && !hiprtcCompileProgram(program, 0, nullptr));
  CHECK(!hiprtcGetCodeSize(program, &size));
  std::vector<char> code(size);
  hipModule_t module = nullptr;
  CHECK(!hiprtcGetCode(program, code.data()) && !hipModuleLoadData(&module, code.data()));
  hiprtcDestroyProgram(&program);
  return module;
}

struct Pair {
  int by;
  const int *x;
};

hipFunction_t function_of(hipModule_t module, const char *name) {
  hipFunction_t function = nullptr;
  CHECK(!hipModuleGetFunction(&function, module, name));
  return function;
}

}  // namespace

int main() {
  CHECK(thrown([] { hiprt::step("early"); }).status() == HIPRT_E_CLOSED);
  hiprt::open();
  const hipModule_t module = compile();
  const hiprt::kernel<hiprt::reads<int>, hiprt::updates<int>> add(function_of(module, "add"), "add");
  const hiprt::kernel<hiprt::writes<std::uint32_t>, std::uint32_t> store(function_of(module, "store"), "store");
  hipStream_t handle = nullptr;
  int *x = nullptr, *y = nullptr, *z = nullptr;
  CHECK(!hipStreamCreateWithFlags(&handle, hipStreamNonBlocking));
  for (int **each : {&x, &y, &z}) CHECK(!hipMalloc(reinterpret_cast<void **>(each), Size * sizeof(int)));
  {
    CHECK(thrown([&] { hiprt::stream(handle, -1); }).status() == HIPRT_E_ARGUMENT);
    hiprt::stream stream(handle, 0);
    for (int *each : {x, y, z}) stream.fill(each, each == x ? 1 : 0, Size);
    CHECK(hiprt::probe(stream, store, reinterpret_cast<std::uint32_t *>(z)) == HIPRT_RUNGS);
    hiprt::step step("wrong uses");
    const auto launch = [&](const hiprt_dims &dims) { add(stream, dims, {x, Size}, {y, Size}); };

    // What the work throws comes out, nothing of it runs, and the step is as it was.
    bool is_thrown = false;
    try {
      step(stream, [&] {
        launch(Dims);
        throw std::runtime_error("of the engine");
      });
    } catch (const std::runtime_error &failure) {
      is_thrown = std::string(failure.what()) == "of the engine";
    }
    CHECK(is_thrown);
    CHECK(thrown([&] { step.again(stream); }).status() == HIPRT_E_ARGUMENT);

    // A launch that HIP refuses is named, alone and among others.
    constexpr hiprt_dims Wide{{1, 1, 1}, {4096, 1, 1}, 0, 0};
    CHECK(has(thrown([&] { launch(Wide); }), "add, grid 1x1x1 of 4096x1x1"));
    const hiprt::error refused = thrown([&] { step(stream, [&] { launch(Dims), launch(Wide); }); });
    CHECK(has(refused, "add, grid 1x1x1 of 4096x1x1") && refused.ran());

    // The step goes on, with a graph.
    stream.fill(y, 0, Size);
    CHECK(step(stream, [&] { launch(Dims); }).rung == HIPRT_INSTANTIATE);
    CHECK(step.again(stream).rung == HIPRT_REPLAY);
    const auto address = [](int *of) { return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(of)); };
    const std::vector<hiprt_move> moves{{address(y), address(y + Size), address(z)}};
    CHECK(thrown([&] { step.move(stream, {moves[0], moves[0]}); }).status() == HIPRT_E_ARGUMENT);
    CHECK(step.move(stream, moves).rung == HIPRT_PATCH);
    int host[2];
    stream.copy(host, y + Size - 1, sizeof(int), hipMemcpyDeviceToHost);
    stream.copy(host + 1, z + Size - 1, sizeof(int), hipMemcpyDeviceToHost);
    stream.synchronize();
    CHECK(host[0] == 2 && host[1] == 1);

    // An address in a structure is that of memory that moves, once it is told of.
    hiprt::kernel<Pair, hiprt::writes<int>> put(function_of(module, "put"), "put");
    CHECK(has(thrown([&] { put.hold_address(0, (std::size_t{1} << 32) + offsetof(Pair, x)); }), "are not in a value"));
    CHECK(thrown([&] { put.hold_address(1); }).status() == HIPRT_E_ARGUMENT);
    put.hold_address(0, offsetof(Pair, x));
    hiprt::step held("an address in a structure");
    held(stream, [&] { put(stream, Dims, {3, x}, {y, Size}); });
    stream.fill(z, 2, Size);
    CHECK(held.move(stream, {{address(x), address(x + Size), address(z)}}).rung == HIPRT_PATCH);
    stream.copy(host, y, sizeof host, hipMemcpyDeviceToHost);
    stream.synchronize();
    CHECK(host[0] == 6 && host[1] == 6);

    // What was launched last is told, and right.
    CHECK(step.explain() == "patch: arrays moved, 1 nodes" && !step.verify(stream).differs);
    CHECK(step.dump().find("\"kernel_name\": \"add\"") != std::string::npos);
    CHECK(thrown([] { hiprt::step("empty").explain(); }).status() == HIPRT_E_ARGUMENT);

    // Memory of a pool, and intermediates of a step in an arena.
    hiprt::pool pool(0, 1 << 20);
    hiprt::arena arena(pool);
    hiprt::step summed("in an arena");
    hiprt::block<int> taken = pool.allocate<int>(stream, Size);
    CHECK(thrown([&] { pool.allocate<int>(stream, 1 << 20); }).status() == HIPRT_E_LIMIT);

    // A count whose bytes no number holds is refused, and not taken for a small one.
    constexpr std::size_t TooMany = (std::size_t{1} << 62) + 1;
    CHECK(thrown([&] { pool.allocate<int>(stream, TooMany); }).status() == HIPRT_E_LIMIT);
    CHECK(thrown([&] { arena.request<int>(TooMany); }).status() == HIPRT_E_LIMIT);
    CHECK(has(thrown([&] { add(stream, Dims, {x, Size}, {y, TooMany}); }), "add, argument 1: "));
    int *asked[2] = {};
    const auto sum = [&] {
      for (int *&each : asked) {
        each = arena.request<int>(Size, &each == asked + 1);
        stream.fill(each, 1, Size);
      }
      add(stream, Dims, {asked[0], Size}, {asked[1], Size});
      const auto at = [&](int i) { return hiprt_intermediate{address(asked[i]), address(asked[i] + Size), i == 1, 0}; };
      CHECK(summed.plan({at(0), at(1)}).size() == 2);
      summed.settle(arena);
    };
    CHECK(summed(stream, sum).rung == HIPRT_INSTANTIATE && summed(stream, sum).rung == HIPRT_REPLAY);
    stream.copy(taken.data(), arena.find(asked[1]), taken.size() * sizeof(int), hipMemcpyDeviceToDevice);
    stream.copy(host, taken.data(), sizeof host, hipMemcpyDeviceToHost);
    stream.synchronize();
    CHECK(host[0] == 2 && host[1] == 2 && arena.plan().nbytes == arena.plan().requested);
    CHECK(thrown([&] { arena.find(x); }).status() == HIPRT_E_ARGUMENT);
    taken = pool.allocate<int>(stream, 1);
    CHECK(pool.trim() == 1024 && pool.stats().chunks == 2);
    pool.leave(stream);

    // A stream that is closed takes no more work, and may be destroyed before what used it.
    stream.close();
    CHECK(!hipStreamDestroy(handle));
    CHECK(thrown([&] { step.again(stream); }).status() == HIPRT_E_CLOSED);
    CHECK(thrown([&] { step(stream, [] {}); }).status() == HIPRT_E_CLOSED);
  }
  for (int *each : {x, y, z}) CHECK(!hipFree(each));
  CHECK(!hipModuleUnload(module));
  std::puts("ok");
}
