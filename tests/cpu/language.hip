#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#define CHECK(call)                                                        \
  do {                                                                     \
    const hipError_t status = (call);                                      \
    if (status) {                                                          \
      std::printf("%d: %s: %s\n", __LINE__, #call, hipGetErrorName(status)); \
      return 1;                                                            \
    }                                                                      \
  } while (0)
#define EXPECT(condition)                                  \
  do {                                                     \
    if (!(condition)) std::printf("%d: %s\n", __LINE__, #condition), ++wrong; \
  } while (0)

int wrong = 0;

__device__ int counter = 5;
__device__ float table[4] = {1, 2, 3, 4};
static __device__ int hidden = 9;
__constant__ float weights[3];
__managed__ int shared_by_all = 7;
namespace deep { __device__ double inside = 0.5; }

struct Pair { char tag; double value; };
struct Odd { char bytes[3]; };

__device__ __host__ inline int twice(int x) { return 2 * x; }
__device__ float helper(float x) { return std::sqrt(x) + fabsf(x) + std::max(x, 2.f) + fabs(x); }

template <class T, int N = 3>
__global__ void scale(T *out, const T *in, int n, T by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * by + N;
}
template <class F>
__global__ void apply(F f, int n) { if (int(threadIdx.x) < n) f(threadIdx.x); }
template <class... Args>
__global__ void sum_all(int *out, Args... args) { *out = (0 + ... + int(args)); }
__global__ void mixed(char, Pair pair, const Odd odd, float (*)[2], double *out, int = 3) {
  out[0] = pair.tag + pair.value + odd.bytes[2];
}
__global__ void __launch_bounds__(64) globals(float *out) {
  const int i = threadIdx.x;
  if (i == 0) counter += hidden, shared_by_all = shared_by_all + 1, deep::inside *= 2;
  if (i < 3) out[i] = weights[i] * table[i];
}
__global__ void reverse(int *data) {
  extern __shared__ int room[];
  __shared__ int fixed[32];
  const int i = threadIdx.x;
  room[i] = data[i];
  fixed[i % 32] = i;
  __syncthreads();
  data[i] = room[blockDim.x - 1 - i] + 0 * fixed[0];
}
__global__ void warp(int *out) {
  int v = threadIdx.x;
  for (int i = 0; i < int(threadIdx.x) % 3; ++i) v += __shfl_xor(v, 0);
  int s = v;
  for (int d = 16; d; d /= 2) s += __shfl_down(s, d);
  out[threadIdx.x] = s;
  out[32] = __popcll(__ballot(1)), out[33] = warpSize;
}
namespace space {
namespace {
__global__ void quiet(int *p) { *p = 41; }
}
struct Holder { static __global__ void member(int *p, int v) { *p = v; } };
}
extern "C" __global__ void plain_name(int *p) { atomicAdd(p, 1); }
__global__ void overload(int *p) { *p = 1; }
__global__ void overload(float *p) { *p = 2; }
struct Shape { __device__ virtual ~Shape() {} __device__ virtual int area() const = 0; };
struct Square : Shape { int a; __device__ explicit Square(int x) : a(x) {} __device__ int area() const override { return a * a; } };
__global__ void virtuals(int *out) { Shape *s = new Square(7); *out = s->area(); delete s; }
__global__ void math(double *out, float x, double y) {
  out[0] = sinf(x) + std::sin(y) + sin(x) + pow(y, 2) + powf(x, 2) + std::pow(x, 2.f) + exp(y) + abs(-3) + std::abs(-2.5f) + rsqrtf(4);
  out[1] = helper(x) + floor(y) + min(3, 4) + fminf(x, 1) + __fdividef(x, 2) + isnan(y) + __float2int_rn(x) + labs(-4l);
}
int *device_ints(int n) { int *p = nullptr; (void)hipMalloc(&p, n * sizeof(int)); return p; }
int first(const int *p) { int v = -1; (void)hipMemcpy(&v, p, sizeof v, hipMemcpyDeviceToHost); return v; }

int main() {
  const int n = 300;
  std::vector<float> host(n);
  std::iota(host.begin(), host.end(), 0.f);
  float *in, *out;
  CHECK(hipMalloc(&in, n * sizeof(float)));
  CHECK(hipMalloc(&out, n * sizeof(float)));
  CHECK(hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice));
  scale<<<(n + 127) / 128, 128>>>(out, in, n, 2.f);
  CHECK(hipMemcpy(host.data(), out, n * sizeof(float), hipMemcpyDeviceToHost));
  EXPECT(host[0] == 3 && host[299] == 601);
  hipLaunchKernelGGL((scale<float, 1>), dim3(3), dim3(128), 0, 0, out, in, n, 1.f);
  hipLaunchKernelGGL(HIP_KERNEL_NAME(scale<float, 1>), dim3(3), dim3(128), 0, 0, out, in, n, 1.f);
  CHECK(hipMemcpy(host.data(), out, n * sizeof(float), hipMemcpyDeviceToHost));
  EXPECT(host[10] == 11);

  int *ints = device_ints(128);
  apply<<<1, 64>>>([=] __device__(int i) { ints[i] = twice(i); }, 50);
  apply<<<1, 64>>>([=] __host__ __device__(int i) { ints[i] += 1; }, 1);
  EXPECT(first(ints) == 1 && first(ints + 49) == 98);
  sum_all<<<1, 1>>>(ints, 1, 2.5, short(3));
  EXPECT(first(ints) == 6);
  double *doubles;
  CHECK(hipMalloc(&doubles, 64));
  mixed<<<1, 1>>>('a', Pair{1, 2.5}, Odd{{0, 0, 4}}, nullptr, doubles, 5);
  double got[2];
  CHECK(hipMemcpy(got, doubles, sizeof got, hipMemcpyDeviceToHost));
  EXPECT(got[0] == 7.5);

  const float chosen[3] = {10, 20, 30};
  CHECK(hipMemcpyToSymbol(HIP_SYMBOL(weights), chosen, sizeof chosen));
  globals<<<1, 64>>>(out);
  CHECK(hipMemcpy(host.data(), out, 12, hipMemcpyDeviceToHost));
  EXPECT(host[0] == 10 && host[1] == 40 && host[2] == 90);
  int value = 0;
  CHECK(hipMemcpyFromSymbol(&value, HIP_SYMBOL(counter), sizeof value));
  EXPECT(value == 14);
  CHECK(hipDeviceSynchronize());
  EXPECT(shared_by_all == 8);
  shared_by_all = 20;
  globals<<<1, 1>>>(out);
  CHECK(hipDeviceSynchronize());
  EXPECT(shared_by_all == 21);
  void *address = nullptr;
  size_t size = 0;
  CHECK(hipGetSymbolAddress(&address, HIP_SYMBOL(deep::inside)));
  CHECK(hipGetSymbolSize(&size, HIP_SYMBOL(table)));
  EXPECT(size == 16);
  CHECK(hipMemcpy(got, address, 8, hipMemcpyDeviceToHost));
  EXPECT(got[0] == 2);
  float second = 0;
  CHECK(hipMemcpyFromSymbol(&second, HIP_SYMBOL(table), 4, 4));
  EXPECT(second == 2);
  EXPECT(hipMemcpyFromSymbol(&second, HIP_SYMBOL(table), 4, 16) == hipErrorInvalidValue);
  EXPECT(hipMemcpyToSymbol(HIP_SYMBOL(table), &second, 4, 0, hipMemcpyDeviceToHost) == hipErrorInvalidMemcpyDirection);
  EXPECT(hipGetSymbolSize(&size, &wrong) == hipErrorInvalidSymbol);
  (void)hipGetLastError();

  std::vector<int> numbers(128);
  std::iota(numbers.begin(), numbers.end(), 0);
  CHECK(hipMemcpy(ints, numbers.data(), 512, hipMemcpyHostToDevice));
  reverse<<<1, 128, 512>>>(ints);
  EXPECT(first(ints) == 127 && first(ints + 127) == 0);
  warp<<<1, 32>>>(ints);
  int sum = 0;
  for (int i = 0; i < 32; ++i) sum += i << i % 3;
  EXPECT(first(ints) == sum && first(ints + 32) == 32 && first(ints + 33) == 32);
  space::quiet<<<1, 1>>>(ints);
  EXPECT(first(ints) == 41);
  space::Holder::member<<<1, 1>>>(ints, 12);
  EXPECT(first(ints) == 12);
  plain_name<<<2, 8>>>(ints);
  EXPECT(first(ints) == 28);
  overload<<<1, 1>>>(ints);
  overload<<<1, 1>>>(out);
  EXPECT(first(ints) == 1);
  virtuals<<<1, 1>>>(ints);
  EXPECT(first(ints) == 49);
  math<<<1, 1>>>(doubles, 1.5f, 0.5);
  CHECK(hipMemcpy(got, doubles, sizeof got, hipMemcpyDeviceToHost));
  const double want = sinf(1.5f) + std::sin(.5) + sin(1.5f) + .25 + 2.25 + 2.25 + std::exp(.5) + 3 + 2.5 + .5;
  EXPECT(std::fabs(got[0] - want) < 1e-5);
  EXPECT(std::fabs(got[1] - (std::sqrt(1.5) + 1.5 + 2 + 1.5 + 0 + 3 + 1 + .75 + 0 + 2 + 4)) < 1e-5);

  hipFuncAttributes attributes;
  CHECK(hipFuncGetAttributes(&attributes, reinterpret_cast<const void *>(globals)));
  EXPECT(attributes.maxThreadsPerBlock == 64);
  globals<<<1, 65>>>(out);
  EXPECT(hipGetLastError() != hipSuccess);
  int grid = 0, block = 0;
  CHECK(hipOccupancyMaxPotentialBlockSize(&grid, &block, scale<float, 3>));
  EXPECT(grid > 0 && block > 0);
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&grid, reverse, 128, 0));
  EXPECT(grid > 0);
  hipFunction_t function;
  CHECK(hipGetFuncBySymbol(&function, reinterpret_cast<const void *>(plain_name)));
  void *arguments[] = {&ints};
  CHECK(hipModuleLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, nullptr, arguments, nullptr));
  CHECK(hipLaunchKernel(reinterpret_cast<const void *>(plain_name), dim3(1), dim3(4), arguments, 0, nullptr));
  CHECK(hipLaunchCooperativeKernel(plain_name, dim3(1), dim3(4), arguments, 0, nullptr));
  EXPECT(first(ints) == 61);
  EXPECT(hipLaunchKernel(&wrong, dim3(1), dim3(1), arguments, 0, nullptr) == hipErrorInvalidDeviceFunction);

  hipGraph_t graph;
  hipGraphExec_t exec;
  hipGraphNode_t node;
  CHECK(hipGraphCreate(&graph, 0));
  hipKernelNodeParams params{};
  params.func = reinterpret_cast<void *>(plain_name);
  params.gridDim = dim3(1);
  params.blockDim = dim3(39);
  params.kernelParams = arguments;
  CHECK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  CHECK(hipGraphLaunch(exec, nullptr));
  EXPECT(first(ints) == 100);

  hipGraph_t copies;
  hipGraphNode_t to, from;
  int put = 77, *taken = nullptr;
  CHECK(hipExtHostAlloc(reinterpret_cast<void **>(&taken), sizeof(int), 0));
  CHECK(hipGraphCreate(&copies, 0));
  CHECK(hipGraphAddMemcpyNodeToSymbol(&to, copies, nullptr, 0, &counter, &put, sizeof put, 0, hipMemcpyHostToDevice));
  CHECK(hipGraphAddMemcpyNodeFromSymbol(&from, copies, &to, 1, taken, &counter, sizeof put, 0, hipMemcpyDeviceToHost));
  EXPECT(hipGraphAddMemcpyNodeToSymbol(&node, copies, nullptr, 0, &counter, &put, 5, 0, hipMemcpyHostToDevice) ==
         hipErrorInvalidValue);
  EXPECT(hipGraphAddMemcpyNodeToSymbol(&node, copies, nullptr, 0, nullptr, &put, 4, 0, hipMemcpyHostToDevice) ==
         hipErrorInvalidSymbol);
  CHECK(hipGraphInstantiate(&exec, copies, nullptr, nullptr, 0));
  CHECK(hipGraphLaunch(exec, nullptr));
  CHECK(hipDeviceSynchronize());
  EXPECT(*taken == 77);
  int other = 78;
  CHECK(hipGraphExecMemcpyNodeSetParamsToSymbol(exec, to, &counter, &other, 4, 0, hipMemcpyHostToDevice));
  CHECK(hipGraphLaunch(exec, nullptr));
  CHECK(hipDeviceSynchronize());
  EXPECT(*taken == 78);
  CHECK(hipGraphMemcpyNodeSetParamsFromSymbol(from, taken, &table, 4, 4, hipMemcpyDeviceToHost));

  CHECK(hipMemset_spt(ints, 1, 4));
  CHECK(hipLaunchKernel_spt(reinterpret_cast<const void *>(plain_name), dim3(1), dim3(2), arguments, 0, nullptr));
  CHECK(hipMemcpyAsync_spt(taken, ints, 4, hipMemcpyDeviceToHost, nullptr));
  CHECK(hipStreamSynchronize_spt(nullptr));
  EXPECT(*taken == 0x01010103);
  std::printf("%s\n", wrong ? "wrong" : "right");
  return wrong;
}
