// The sum over all ranks, in one kernel on each: every rank writes its numbers into memory of every other rank, waits until
// those of the others have come into its own, and adds them up in the order of the ranks, which gives all the same bits.
//
// A word of 8 bytes has 4 bytes of numbers and the number of the round that they belong to, so that no fence is needed: a
// word has come when it names the round that is waited for (this is the low-latency protocol of NCCL, "LL"). A block
// counts its own rounds, and uses two places in turn: a word of round n + 2 is written after all words of round n + 1 have
// come, whose writers had taken those of round n.

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>

constexpr int THREADS = 256;
typedef unsigned long long word;

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(__half value) { return __half2float(value); }
__device__ inline float widened(__hip_bfloat16 value) { return __bfloat162float(value); }
template <typename T>
__device__ inline T narrowed(float value);
template <>
__device__ inline float narrowed<float>(float value) { return value; }
template <>
__device__ inline __half narrowed<__half>(float value) { return __float2half(value); }
template <>
__device__ inline __hip_bfloat16 narrowed<__hip_bfloat16>(float value) { return __float2bfloat16(value); }

// rounds: how many rounds each block has done. places: where each rank's words lie, [2][RANKS][blocks][THREADS].
// gone: not 0 once a rank has ended, so that nobody waits for it.
template <typename T, int RANKS>
__global__ void all_reduce(const T* x, T* out, unsigned* rounds, const word* places, const unsigned* gone,
                           int n, int rank, int blocks) {
  constexpr int EACH = 4 / sizeof(T);  // numbers of a word
  const int count = (n + EACH - 1) / EACH;
  const size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x, apart = size_t(blocks) * THREADS;
  unsigned round = rounds[blockIdx.x];
  for (int first = blockIdx.x * THREADS; first < count; first += blocks * THREADS) {
    const int start = (first + threadIdx.x) * EACH;
    const size_t turn = size_t(++round % 2) * RANKS * apart;
    T numbers[EACH] = {};
    for (int i = 0; i < EACH; i++)
      if (start + i < n) numbers[i] = x[start + i];
    unsigned mine;
    __builtin_memcpy(&mine, numbers, 4);
    for (int to = 0; to < RANKS; to++)
      if (to != rank) *((volatile word*)places[to] + turn + rank * apart + at) = word(round) << 32 | mine;
    // What this block has to send is on its way before any of its threads waits.
    __syncthreads();
    float sums[EACH] = {};
    for (int from = 0; from < RANKS; from++) {
      unsigned its = mine;
      if (from != rank) {
        const volatile word* place = (const volatile word*)places[rank] + turn + from * apart + at;
        word come = *place;
        for (int tries = 1; unsigned(come >> 32) != round; tries++) {
          if (tries % 64 == 0 && *(const volatile unsigned*)gone) break;
          come = *place;
        }
        its = unsigned(come);
      }
      __builtin_memcpy(numbers, &its, 4);
      for (int i = 0; i < EACH; i++) sums[i] += widened(numbers[i]);
    }
    for (int i = 0; i < EACH; i++)
      if (start + i < n) out[start + i] = narrowed<T>(sums[i]);
  }
  __syncthreads();
  if (threadIdx.x == 0) rounds[blockIdx.x] = round;
}
