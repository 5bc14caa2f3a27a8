// A transformer block in C++: kernels of the engine's own, launched as one graph.
//
// Norm, query with keys and values of everything before, output, norm, a gated projection: 8 launches a layer, 4 layers,
// 64 positions. The position and the number of positions lie in device memory, so that every launch but the first is a
// replay. The same is computed on the host, and compared.
//
// H=$(python -c "import hiprt; print(hiprt.__path__[0])")
// g++ -std=c++17 -I$H/native/include block.cpp -o block -L$H/native/lib -lhiprt -L$H/cpu -lamdhip64
//   -Wl,-rpath,$H/native/lib:$H/cpu && ./block
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hip/hip_runtime_api.h"
#include "hip/hiprtc.h"
#include "hiprt/hiprt.hpp"

namespace {

constexpr int kWidth = 32, kInner = 64, kLayers = 4, kPositions = 64;

const char *const kSource = R"(
#define WIDTH 32
extern "C" __global__ void rms_norm(const float* x, float* y) {
  float sum = 0;
  for (int i = 0; i < WIDTH; i++) sum += x[i] * x[i];
  y[threadIdx.x] = x[threadIdx.x] / sqrtf(sum / WIDTH + 1e-6f);
}
extern "C" __global__ void product(const float* x, const float* w, float* y, int inner) {
  float sum = 0;
  for (int i = 0; i < inner; i++) sum += w[threadIdx.x * inner + i] * x[i];
  y[threadIdx.x] = sum;
}
extern "C" __global__ void keep(const float* x, const int* at, float* cache) {
  cache[*at * WIDTH + threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void attend(const float* q, const float* cache, const int* at, float* x) {
  float sum = 0, weights = 0;
  for (int t = 0; t <= *at; t++) {
    float score = 0;
    for (int i = 0; i < WIDTH; i++) score += q[i] * cache[t * WIDTH + i];
    const float weight = expf(score / sqrtf(WIDTH));
    weights += weight;
    sum += weight * cache[t * WIDTH + threadIdx.x];
  }
  x[threadIdx.x] += sum / weights;
}
extern "C" __global__ void gate(float* h) { h[threadIdx.x] = h[threadIdx.x] / (1 + expf(-h[threadIdx.x])); }
extern "C" __global__ void add(const float* y, float* x) { x[threadIdx.x] += y[threadIdx.x]; }
extern "C" __global__ void count(int* at) { *at += 1; }
)";

void ok(hipError_t status) {
  if (status != hipSuccess) throw std::runtime_error("HIP: " + std::to_string(static_cast<int>(status)));
}

// Device memory with an owner.
template <typename T>
class memory {
 public:
  explicit memory(std::size_t count) : count_(count) {
    ok(hipMalloc(reinterpret_cast<void **>(&at_), count * sizeof(T)));
    ok(hipMemset(at_, 0, count * sizeof(T)));
    ok(hipStreamSynchronize(nullptr));  // other streams do not wait for the fill
  }
  explicit memory(const std::vector<T> &host) : memory(host.size()) {
    ok(hipMemcpy(at_, host.data(), count_ * sizeof(T), hipMemcpyHostToDevice));
  }
  memory(const memory &) = delete;
  memory(memory &&other) noexcept : at_(std::exchange(other.at_, nullptr)), count_(other.count_) {}
  ~memory() { (void)hipFree(at_); }
  hiprt::reads<T> in() const { return {at_, count_}; }
  hiprt::writes<T> out() { return {at_, count_}; }
  hiprt::updates<T> both() { return {at_, count_}; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    ok(hipMemcpy(values.data(), at_, count_ * sizeof(T), hipMemcpyDeviceToHost));
    return values;
  }

 private:
  T *at_ = nullptr;
  std::size_t count_;
};

std::vector<float> weights(std::size_t count, unsigned seed) {
  std::vector<float> made(count);
  for (float &value : made) {
    seed = seed * 1664525u + 1013904223u;
    value = 0.2f * (static_cast<float>(seed >> 8) / (1 << 23) - 1);
  }
  return made;
}

hipModule_t compile() {
  hiprtcProgram program = nullptr;
  std::size_t size = 0;
  hipModule_t module = nullptr;
  if (hiprtcCreateProgram(&program, kSource, "block.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS ||
      hiprtcCompileProgram(program, 0, nullptr) != HIPRTC_SUCCESS || hiprtcGetCodeSize(program, &size) != HIPRTC_SUCCESS)
    throw std::runtime_error("hiprtc");
  std::string code(size, '\0');
  hiprtcGetCode(program, code.data());
  hiprtcDestroyProgram(&program);
  ok(hipModuleLoadData(&module, code.data()));
  return module;
}

hipFunction_t find(hipModule_t module, const char *name) {
  hipFunction_t function = nullptr;
  ok(hipModuleGetFunction(&function, module, name));
  return function;
}

using hiprt::reads, hiprt::writes, hiprt::updates;

// The engine's kernel library.
struct kernels {
  explicit kernels(hipModule_t m)
      : norm(find(m, "rms_norm"), "norm"), product(find(m, "product"), "product"), keep(find(m, "keep"), "keep"),
        attend(find(m, "attend"), "attend"), gate(find(m, "gate"), "gate"), add(find(m, "add"), "add"),
        count(find(m, "count"), "count") {}
  hiprt::kernel<reads<float>, writes<float>> norm;
  hiprt::kernel<reads<float>, reads<float>, writes<float>, int> product;
  hiprt::kernel<reads<float>, reads<int>, updates<float>> keep;
  hiprt::kernel<reads<float>, reads<float>, reads<int>, updates<float>> attend;
  hiprt::kernel<updates<float>> gate;
  hiprt::kernel<reads<float>, updates<float>> add;
  hiprt::kernel<updates<int>> count;
};

struct layer {
  explicit layer(unsigned seed)
      : query_host(weights(kWidth * kWidth, seed)), up_host(weights(kInner * kWidth, seed + 1)),
        down_host(weights(kWidth * kInner, seed + 2)), query(query_host), up(up_host), down(down_host),
        cache(kPositions * kWidth) {}
  std::vector<float> query_host, up_host, down_host;
  memory<float> query, up, down, cache;
};

constexpr hiprt_dims over(std::uint32_t threads) { return {{1, 1, 1}, {threads, 1, 1}, 0, 0}; }

struct engine {
  explicit engine(hipModule_t module) : k(module), x(weights(kWidth, 7)) {
    for (unsigned i = 0; i < kLayers; ++i) layers.emplace_back(100 * i + 1);
  }
  void issue(const hiprt::stream &on) {
    for (layer &l : layers) {
      k.norm(on, over(kWidth), x.in(), y.out());
      k.keep(on, over(kWidth), y.in(), at.in(), l.cache.both());
      k.product(on, over(kWidth), y.in(), l.query.in(), q.out(), kWidth);
      k.attend(on, over(kWidth), q.in(), l.cache.in(), at.in(), x.both());
      k.product(on, over(kInner), x.in(), l.up.in(), h.out(), kWidth);
      k.gate(on, over(kInner), h.both());
      k.product(on, over(kWidth), h.in(), l.down.in(), y.out(), kInner);
      k.add(on, over(kWidth), y.in(), x.both());
    }
    k.count(on, over(1), at.both());
  }
  kernels k;
  std::vector<layer> layers;
  memory<float> x, y{kWidth}, q{kWidth}, h{kInner};
  memory<int> at{1};
};

// The same on the host.
std::vector<float> expected(const engine &e) {
  std::vector<float> x = weights(kWidth, 7);
  std::vector<std::vector<float>> caches(kLayers);
  const auto product = [](const std::vector<float> &w, const std::vector<float> &v, int rows) {
    std::vector<float> y(static_cast<std::size_t>(rows), 0.0f);
    for (std::size_t r = 0; r < y.size(); ++r)
      for (std::size_t i = 0; i < v.size(); ++i) y[r] += w[r * v.size() + i] * v[i];
    return y;
  };
  for (int position = 0; position < kPositions; ++position)
    for (std::size_t i = 0; i < kLayers; ++i) {
      float square = 0, total = 0;
      for (float value : x) square += value * value;
      std::vector<float> y = x, sum(kWidth, 0.0f), &cache = caches[i];
      for (float &value : y) value /= std::sqrt(square / kWidth + 1e-6f);
      cache.insert(cache.end(), y.begin(), y.end());
      const std::vector<float> q = product(e.layers[i].query_host, y, kWidth);
      for (std::size_t t = 0; t < cache.size(); t += kWidth) {
        float score = 0;
        for (std::size_t j = 0; j < kWidth; ++j) score += q[j] * cache[t + j];
        const float weight = std::exp(score / std::sqrt(static_cast<float>(kWidth)));
        total += weight;
        for (std::size_t j = 0; j < kWidth; ++j) sum[j] += weight * cache[t + j];
      }
      for (std::size_t j = 0; j < kWidth; ++j) x[j] += sum[j] / total;
      std::vector<float> h = product(e.layers[i].up_host, x, kInner);
      for (float &value : h) value /= 1 + std::exp(-value);
      y = product(e.layers[i].down_host, h, kWidth);
      for (std::size_t j = 0; j < kWidth; ++j) x[j] += y[j];
    }
  return x;
}

int run() {
  hiprt::open();
  const hipModule_t module = compile();
  hipStream_t handle = nullptr;
  ok(hipStreamCreateWithFlags(&handle, hipStreamNonBlocking));
  float worst = 0;
  {
    hiprt::stream stream(handle, 0);
    stream.own();
    engine e(module);
    hiprt::step step("block");
    const hiprt_outcome first = step(stream, [&] { e.issue(stream); });
    for (int position = 1; position < kPositions; ++position) step.again(stream);
    stream.synchronize();
    const std::vector<float> got = e.x.host(), wanted = expected(e);
    for (std::size_t i = 0; i < kWidth; ++i)
      worst = std::max(worst, std::fabs(got[i] - wanted[i]) / std::max(1.0f, std::fabs(wanted[i])));
    const hiprt_step_stats stats = step.stats();
    std::printf("%u nodes, %llu instantiated, %llu replayed; %s\n", first.nodes,
                static_cast<unsigned long long>(stats.rungs[HIPRT_INSTANTIATE]),
                static_cast<unsigned long long>(stats.rungs[HIPRT_REPLAY]),
                worst < 1e-3f ? "as on the host" : "OTHER THAN ON THE HOST");
    stream.close();
  }
  ok(hipStreamDestroy(handle));
  ok(hipModuleUnload(module));
  return worst < 1e-3f ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
