"""Kernels with a planted defect each, and correct ones that a careless checker would report.

All have the parameters ``(int* x, int* y, int* c, int n)``: 512 numbers, 512 that were never written, 64 zeros, and the
number of threads of the grid. ``T`` is the thread's number in its block, ``G`` that in the grid.
"""

HEAD = """
#define T int(threadIdx.x)
#define G int(blockIdx.x * blockDim.x + threadIdx.x)
#define KERNEL(name) extern "C" __global__ void name(int* x, int* y, int* c, int n)
struct Pair { int a, b; };
typedef int Eight __attribute__((vector_size(32), aligned(4)));
typedef int Sixteen __attribute__((ext_vector_type(16)));
__device__ int table[8];
__device__ __noinline__ void wait_elsewhere() { __syncthreads(); }
__device__ void add_up(volatile int* s, int t) {
  if (t >= 32) return;
  s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
__device__ int warp_sum(int v) { for (int d = 16; d; d /= 2) v += __shfl_xor(v, d); return v; }
"""

# Each is (kind, grid, block, body). The kind is what must be reported, and nothing else.
DEFECTS = {
    # Beyond what is allocated.
    "write_one_beyond": ("memory", 8, 64, "x[G + 1] = 1;"),
    "write_one_before": ("memory", 1, 64, "x[T - 1] = 1;"),
    "read_one_beyond": ("memory", 8, 64, "if (G == 511) c[0] = x[G + 1];"),
    "read_far_beyond": ("memory", 1, 1, "c[0] = x[512 + 300];"),
    "write_far_beyond": ("memory", 1, 1, "x[512 + 300] = 1;"),
    "write_wide_beyond": ("memory", 1, 1, "*reinterpret_cast<int4*>(x + 510) = int4(1, 2, 3, 4);"),
    "write_eight_beyond": ("memory", 1, 1, "*reinterpret_cast<Eight*>(x + 505) = Eight{};"),
    "read_sixteen_beyond": ("memory", 1, 1, "Sixteen v = *reinterpret_cast<Sixteen*>(x + 512); c[0] = v[15];"),
    "write_half_beyond": ("memory", 1, 1, "reinterpret_cast<short*>(x)[1024] = 1;"),
    "write_byte_beyond": ("memory", 1, 1, "reinterpret_cast<char*>(x)[2048] = 1;"),
    "count_of_elements_for_bytes": ("memory", 1, 1, "for (int i = 0; i < 2048; i += 256) x[i] = 1;"),
    "loop_to_equal": ("memory", 1, 1, "for (int i = 0; i <= 64; ++i) c[i] = i;"),
    "atomic_beyond": ("memory", 1, 1, "atomicAdd(c + 64, 1);"),
    "read_far_before": ("memory", 1, 1, "c[0] = x[-600];"),
    "copy_of_struct_beyond": ("memory", 1, 1, "reinterpret_cast<Pair*>(x)[256] = reinterpret_cast<Pair*>(x)[0];"),
    "other_block_is_beyond": ("memory", 9, 64, "x[G] = 1;"),
    "shared_beyond": ("memory", 1, 64, "__shared__ int s[64]; s[T + 1] = T; __syncthreads(); x[T] = T ? s[T] : 0;"),
    "dynamic_shared_beyond": ("memory", 1, 64, "extern __shared__ int d[]; d[T + 1] = T;"),
    "shared_far_beyond": ("memory", 1, 1, "__shared__ int s[4]; s[n & 3] = 1; x[0] = s[n + 5000];"),
    "from_one_array_into_the_next": (
        "memory",
        1,
        64,
        "__shared__ int s[64]; __shared__ int t[64]; s[T] = t[T] = T; __syncthreads(); x[T] = s[T + 1] + t[T];",
    ),
    "small_shared_beyond": (
        "memory",
        1,
        4,
        "__shared__ char s[3]; __shared__ char t[3]; if (T < 3) s[T] = t[T] = 1; __syncthreads(); "
        "x[T] = s[T] + t[T % 3];",
    ),
    "minimum_beyond": (
        "memory",
        1,
        1,
        "__hip_atomic_fetch_min(c + 64, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);",
    ),
    "eight_of_two_threads": (
        "race",
        1,
        64,
        "if (T % 8 == 0) *reinterpret_cast<Eight*>(x + T) = Eight{}; x[T ^ 33] = 1;",
    ),
    # Read before it is written.
    "eight_never_written": ("init", 1, 32, "Eight v = reinterpret_cast<Eight*>(y)[T]; x[T] = v[0] + v[7];"),
    "read_never_written": ("init", 1, 1, "c[0] = y[7];"),
    "add_to_never_written": ("init", 1, 1, "y[0] += 1;"),
    "atomic_add_to_never_written": ("init", 1, 1, "atomicAdd(y, 1);"),
    "part_is_written": ("init", 1, 1, "for (int i = 0; i < 8; ++i) y[i] = i; c[0] = y[8];"),
    "part_of_a_word_is_written": ("init", 1, 1, "reinterpret_cast<char*>(y)[0] = 1; c[0] = y[0];"),
    "wide_read_half_written": (
        "init",
        1,
        1,
        "y[0] = y[1] = 1; int4 v = *reinterpret_cast<int4*>(y); c[0] = v.x + v.w;",
    ),
    "copy_never_written": ("init", 1, 1, "reinterpret_cast<Pair*>(x)[0] = reinterpret_cast<Pair*>(y)[3];"),
    "shared_never_written": (
        "init",
        1,
        64,
        "__shared__ int s[64]; if (T < 32) s[T] = 1; __syncthreads(); x[T] = s[T];",
    ),
    "shared_of_the_block_before": (
        "init",
        2,
        32,
        "__shared__ int s[32]; if (!blockIdx.x) s[T] = 1; __syncthreads(); x[G] = s[T];",
    ),
    "dynamic_shared_never_written": ("init", 1, 32, "extern __shared__ int d[]; x[T] = d[T];"),
    "sum_starts_from_nothing": ("init", 1, 1, "for (int i = 0; i < 4; ++i) y[40] += x[i];"),
    "maximum_of_nothing": ("init", 1, 64, "atomicMax(y + 8, T);"),
    # Nothing orders two accesses.
    "no_barrier": ("init race", 1, 64, "__shared__ int s[64]; s[T] = T; x[T] = s[T ^ 32];"),
    "no_barrier_in_a_warp": ("init race", 1, 32, "__shared__ int s[32]; s[T] = T; x[T] = s[T ^ 1];"),
    "no_barrier_before_reuse": (
        "race",
        1,
        64,
        "__shared__ int s[64]; int v = 0; for (int i = 0; i < 2; ++i) { s[T] = T + i; __syncthreads(); "
        "v += s[63 - T]; } x[T] = v;",
    ),
    "maxima_and_sums_in_one_array": (
        "race",
        1,
        128,
        "__shared__ int s[4]; if (T % 32 == 0) s[T / 32] = x[T]; __syncthreads(); "
        "int m = max(max(s[0], s[1]), max(s[2], s[3]));"
        " if (T % 32 == 0) s[T / 32] = m + T; __syncthreads(); x[T] = s[0];",
    ),
    "tree_without_barriers": (
        "race",
        1,
        64,
        "__shared__ int s[64]; s[T] = x[T]; __syncthreads(); for (int d = 32; d; "
        "d /= 2) { if (T < d) s[T] += s[T + d]; } if (!T) c[0] = s[0];",
    ),
    "last_barrier_missing": (
        "race",
        1,
        64,
        "__shared__ int s[64]; s[T] = x[T]; for (int d = 32; d; d /= 2) { __syncthreads(); "
        "if (T < d) s[T] += s[T + d]; } x[T] = s[0];",
    ),
    "all_write_one": ("race", 1, 64, "c[0] = T;"),
    "blocks_write_one": ("race", 4, 1, "c[0] = blockIdx.x;"),
    "blocks_share_an_edge": ("race", 2, 64, "x[G] = G; if (T == 63) x[G + 1] = 0;"),
    "block_reads_its_neighbour": ("race", 2, 64, "x[G] = x[(G + 64) % 128];"),
    "count_without_atomic": ("race", 1, 64, "if (x[T] >= 0) c[1]++;"),
    "atomic_and_plain_write": ("race", 1, 64, "atomicAdd(c, 1); if (T == 40) c[0] = 0;"),
    "atomic_and_plain_read": ("race", 1, 64, "atomicAdd(c, 1); x[T] = c[0];"),
    "reset_beside_atomics": (
        "race",
        1,
        64,
        "__shared__ int s; if (!T) s = 0; atomicAdd(&s, 1); __syncthreads(); if (!T) c[0] = s;",
    ),
    "flag_without_fence": (
        "race",
        2,
        1,
        "if (!blockIdx.x) { x[3] = 5; atomicExch(c, 1); } else if (atomicAdd(c, 0)) c[1] = x[3];",
    ),
    "flag_with_the_fence_behind": (
        "race",
        2,
        1,
        "if (!blockIdx.x) { x[3] = 5; atomicExch(c, 1); __threadfence(); } else if (atomicAdd(c, 0)) c[1] = x[3];",
    ),
    "flag_with_a_fence_of_the_block": (
        "race",
        2,
        1,
        "if (!blockIdx.x) { x[3] = 5; __threadfence_block(); atomicExch(c, 1); "
        "} else if (atomicAdd(c, 0)) c[1] = x[3];",
    ),
    "plain_flag": ("race", 2, 1, "if (!blockIdx.x) { c[0] = 1; } else if (c[0]) x[0] = 1;"),
    "last_block_without_fence": (
        "race",
        4,
        32,
        "x[G] = T; __syncthreads(); __shared__ int last; if (!T) last = atomicAdd(c, 1) == 3; __syncthreads();"
        " if (last) c[8 + T] = x[T] + x[32 + T];",
    ),
    "last_block_without_barrier": (
        "race",
        4,
        64,
        "x[G] = T; __threadfence(); __shared__ int last; if (!T) last = atomicAdd(c, 1) == 3; __syncthreads();"
        " if (last && T < 48) c[8 + T] = x[T] + x[64 + (T + 40) % 64];",
    ),
    "lock_without_fence": (
        "race",
        4,
        1,
        "while (atomicCAS(c, 0, 1)) {} c[1] = c[1] + 1; atomicExch(c, 0);",
    ),
    "bytes_of_one_word_overlap": ("race", 1, 4, "reinterpret_cast<short*>(x)[T / 2] = T;"),
    "wide_write_over_a_neighbour": ("race", 1, 2, "*reinterpret_cast<int2*>(x + 2 * 0 + T) = int2(T, T);"),
    "scan_in_place": (
        "race",
        1,
        64,
        "__shared__ int s[64]; s[T] = x[T]; __syncthreads(); if (T) s[T] += s[T - 1]; __syncthreads(); x[T] = s[T];",
    ),
    "barrier_of_half_a_warp_only": (
        "race",
        1,
        32,
        "__shared__ int s[32]; s[T] = T; if (T < 16) __syncwarp(0xffffull); x[T] = s[31 - T];",
    ),
    "maximum_and_plain_read": (
        "race",
        1,
        64,
        "__hip_atomic_fetch_max(c, T, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); x[T] = c[0];",
    ),
    "one_buffer_for_two_turns": (
        "race",
        1,
        64,
        "__shared__ int s[2][64]; int v = 0; for (int i = 0; i < 4; ++i) { s[i % 3 % 2][T] = T; __syncthreads(); "
        "v += s[i % 3 % 2][63 - T]; } x[T] = v;",
    ),
    "look_back_without_fence": (
        "race",
        4,
        32,
        "int v = warp_sum(T); if (!T) { int b = blockIdx.x; y[b] = v + (b ? 0 : 1); atomicExch(c + b, 1); "
        "if (b) { while (!atomicAdd(c + b - 1, 0)) {} y[b] += y[b - 1]; } }",
    ),
    "first_warp_reads_too_early": (
        "init race",
        1,
        128,
        "__shared__ int s[4]; int v = warp_sum(x[T]); if (T % 32 == 0) s[T / 32] = v; __syncwarp(); "
        "if (T < 4) v = s[T]; x[T] = v;",
    ),
    "second_phase_of_a_neighbour": (
        "race",
        1,
        64,
        "__shared__ int s[65]; s[T] = T; if (!T) s[64] = 0; __syncthreads(); s[T] = s[T + 1]; "
        "__syncthreads(); x[T] = s[T];",
    ),
    # Barriers and shuffles.
    "half_comes_to_a_barrier": ("barrier", 1, 64, "if (T < 32) __syncthreads(); x[T] = T;"),
    "one_leaves_early": ("barrier", 1, 64, "if (T == 63) return; __syncthreads(); x[T] = T;"),
    "two_barriers": ("barrier", 1, 64, "if (T < 32) __syncthreads(); else wait_elsewhere(); x[T] = T;"),
    "shuffle_from_an_inactive_lane": ("barrier", 1, 32, "if (T < 16) x[T] = __shfl(x[T], 20);"),
    "reduction_of_an_odd_warp": ("barrier", 1, 20, "x[T] = warp_sum(x[T]);"),
    "shuffle_behind_a_return": ("barrier", 1, 32, "if (T >= 30) return; x[T] = __shfl_down(x[T], 1);"),
    "flag_in_another_byte": (
        "race",
        2,
        1,
        "volatile char* f = reinterpret_cast<char*>(c); if (!blockIdx.x) { x[3] = 5; __threadfence(); f[1] = 1; "
        "} else if (!f[2]) { __threadfence(); c[1] = x[3]; }",
    ),
}

# Each is (grid, block, body).
CORRECT = {
    "own_element": (8, 64, "x[G] = G;"),
    "own_element_twice": (8, 64, "x[G] = G; x[G] += 1; y[G] = x[G];"),
    "guarded": (9, 64, "if (G < 512) x[G] = 1;"),
    "last_element": (1, 1, "x[511] = 1; c[63] = 1;"),
    "wide_at_the_end": (1, 1, "*reinterpret_cast<int4*>(x + 508) = int4(1, 2, 3, 4);"),
    "all_read_one": (4, 64, "y[G] = x[0];"),
    "barrier_between": (1, 64, "__shared__ int s[64]; s[T] = T; __syncthreads(); x[T] = s[63 - T];"),
    "barriers_around_reuse": (
        1,
        64,
        "__shared__ int s[64]; int v = 0; for (int i = 0; i < 3; ++i) { s[T] = T + i; __syncthreads(); "
        "v += s[63 - T]; __syncthreads(); } x[T] = v;",
    ),
    "two_buffers": (
        1,
        64,
        "__shared__ int s[2][64]; int v = 0; for (int i = 0; i < 4; ++i) { s[i % 2][T] = T; "
        "__syncthreads(); v += s[i % 2][63 - T]; } x[T] = v;",
    ),
    "tree": (
        1,
        64,
        "__shared__ int s[64]; s[T] = x[T]; for (int d = 32; d; d /= 2) { __syncthreads(); "
        "if (T < d) s[T] += s[T + d]; } if (!T) c[0] = s[0];",
    ),
    "tree_for_all": (
        1,
        64,
        "__shared__ int s[64]; s[T] = x[T]; for (int d = 32; d; d /= 2) { __syncthreads(); "
        "if (T < d) s[T] += s[T + d]; } __syncthreads(); x[T] = s[0];",
    ),
    "volatile_last_warp": (
        1,
        64,
        "__shared__ volatile int s[96]; s[T] = x[T]; if (T < 32) s[64 + T] = 0; __syncthreads(); "
        "add_up(s, T); if (!T) c[0] = s[0];",
    ),
    "sum_by_shuffles": (1, 32, "x[T] = warp_sum(x[T]);"),
    "sum_of_a_block_by_shuffles": (
        1,
        128,
        "__shared__ int s[4]; int v = warp_sum(x[T]); if (T % 32 == 0) s[T / 32] = v; __syncthreads(); "
        "x[T] = s[0] + s[1] + s[2] + s[3];",
    ),
    "maxima_then_sums": (
        1,
        128,
        "__shared__ int s[4]; if (T % 32 == 0) s[T / 32] = x[T]; __syncthreads(); "
        "int m = max(max(s[0], s[1]), max(s[2], s[3]));"
        " __syncthreads(); if (T % 32 == 0) s[T / 32] = m + T; __syncthreads(); x[T] = s[0];",
    ),
    "eight_at_once": (
        1,
        32,
        "reinterpret_cast<Eight*>(y)[T] = reinterpret_cast<Eight*>(x)[T]; __syncthreads(); "
        "for (int i = T; i < 256; i += 32) x[i] = y[i];",
    ),
    "sixteen_and_one": (
        1,
        32,
        "Sixteen v = 0; v[T % 16] = x[T]; reinterpret_cast<Sixteen*>(y)[T] = v; __syncthreads(); x[T] = y[T * 16];",
    ),
    "exchange_in_a_warp": (1, 64, "__shared__ int s[64]; s[T] = T; __syncwarp(); x[T] = s[T ^ 1];"),
    "exchange_in_half_a_warp": (
        1,
        32,
        "__shared__ int s[32]; s[T] = T; __syncwarp(T < 16 ? 0xffffull : 0xffff0000ull); x[T] = s[T ^ 8];",
    ),
    "shuffle_orders_a_warp": (1, 32, "__shared__ int s[32]; s[T] = T; int v = __shfl_xor(T, 1); x[T] = s[T ^ 2] + v;"),
    "order_through_a_third_lane": (
        1,
        32,
        "__shared__ int s[32]; if (T == 0) s[0] = 5; if (T < 2) __syncwarp(3ull); "
        "if (T == 1 || T == 2) __syncwarp(6ull); if (T == 2) c[0] = s[0];",
    ),
    "shuffle_up_at_the_edge": (1, 32, "int v = __shfl_up(x[T], 1); x[T] = T ? v : 0;"),
    "shuffle_down_at_the_edge": (1, 32, "int v = __shfl_down(x[T], 16); x[T] = T < 16 ? v : 0;"),
    "shuffle_in_segments": (1, 32, "for (int d = 4; d; d /= 2) x[T] += __shfl_xor(x[T], d, 8);"),
    "shuffle_in_a_branch_of_a_warp": (1, 64, "if (T < 32) x[T] = __shfl(x[T], 3);"),
    "ballot_in_a_branch": (1, 32, "if (T & 1) x[T] = int(__ballot(1));"),
    "leader_of_the_active": (
        1,
        32,
        "if (T % 3 == 0) { unsigned m = unsigned(__ballot(1)); int l = __builtin_ctz(m); x[T] = __shfl(x[T], l); }",
    ),
    "atomic_counter": (4, 64, "atomicAdd(c, 1);"),
    "atomic_slots": (4, 64, "int at = atomicAdd(c, 1); y[at] = G;"),
    "atomic_maximum": (4, 64, "atomicMax(c + 1, G); atomicMin(c + 2, -G); atomicOr(c + 3, G);"),
    "float_atomics": (4, 64, "atomicAdd(reinterpret_cast<float*>(c), 1.5f);"),
    "atomics_then_barrier": (
        1,
        64,
        "__shared__ int s; if (!T) s = 0; __syncthreads(); atomicAdd(&s, 1); __syncthreads(); if (T == 5) c[0] = s;",
    ),
    "histogram": (
        2,
        64,
        "__shared__ int h[16]; if (T < 16) h[T] = 0; __syncthreads(); atomicAdd(h + T % 16, 1); "
        "__syncthreads(); if (T < 16) atomicAdd(c + T, h[T]);",
    ),
    "flag_with_fence": (
        2,
        1,
        "if (!blockIdx.x) { x[3] = 5; __threadfence(); atomicExch(c, 1); } else if (atomicAdd(c, 0)) c[1] = x[3];",
    ),
    "flag_with_orders": (
        2,
        1,
        "if (!blockIdx.x) { x[3] = 5; __hip_atomic_store(c, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }"
        " else if (__hip_atomic_load(c, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) c[1] = x[3];",
    ),
    "volatile_flag": (
        2,
        1,
        "volatile int* f = c; if (!blockIdx.x) { x[3] = 5; __threadfence(); *f = 1; "
        "} else if (*f) { __threadfence(); c[1] = x[3]; }",
    ),
    "volatile_flag_in_a_byte": (
        2,
        1,
        "volatile char* f = reinterpret_cast<char*>(c); if (!blockIdx.x) { x[3] = 5; __threadfence(); f[1] = 1; "
        "} else if (f[1]) { __threadfence(); c[1] = x[3]; }",
    ),
    "flag_within_a_block": (
        1,
        64,
        "__shared__ int f, v; if (!T) f = 0; __syncthreads();"
        " if (T == 0) { v = 7; __threadfence_block(); atomicExch(&f, 1); "
        "} if (T == 40) { while (!atomicAdd(&f, 0)) {} c[0] = v; }",
    ),
    "last_block": (
        4,
        32,
        "x[G] = T; __threadfence(); __syncthreads(); __shared__ int last; "
        "if (!T) last = atomicAdd(c, 1) == 3; __syncthreads();"
        " if (last) c[8 + T] = x[T] + x[32 + T] + x[64 + T] + x[96 + T];",
    ),
    "last_block_fence_of_one": (
        4,
        64,
        "x[G] = T; __syncthreads(); __shared__ int last; if (!T) { __threadfence(); "
        "last = atomicAdd(c, 1) == 3; } __syncthreads();"
        " if (last && T < 48) c[8 + T] = x[T] + x[64 + (T + 40) % 64];",
    ),
    "last_block_by_increment": (
        4,
        32,
        "x[G] = T; __threadfence(); __syncthreads(); __shared__ bool last;"
        " if (!T) last = atomicInc(reinterpret_cast<unsigned*>(c), gridDim.x - 1) == gridDim.x - 1; __syncthreads();"
        " if (last) c[8 + T] = x[T] + x[32 + T];",
    ),
    "chain_of_blocks": (
        4,
        1,
        "if (atomicAdd(c, 0) == int(blockIdx.x)) { x[blockIdx.x + 1] = x[blockIdx.x] + 1; "
        "__threadfence(); atomicAdd(c, 1); }",
    ),
    "lock": (4, 1, "while (atomicCAS(c, 0, 1)) {} c[1] = c[1] + 1; __threadfence(); atomicExch(c, 0);"),
    "lock_of_many": (
        1,
        8,
        "for (bool done = false; !done;) { if (!atomicCAS(c, 0, 1)) { c[1] = c[1] + 1; __threadfence(); "
        "atomicExch(c, 0); done = true; } }",
    ),
    "bytes_of_one_word": (1, 64, "reinterpret_cast<char*>(x)[T] = char(T);"),
    "halves_of_one_word": (1, 64, "reinterpret_cast<short*>(x)[T] = short(T);"),
    "halves_then_words": (
        1,
        64,
        "__shared__ short s[64]; s[T] = short(T); __syncthreads(); if (T < 32) x[T] = reinterpret_cast<int*>(s)[T];",
    ),
    "wide_copy": (1, 64, "reinterpret_cast<int4*>(y)[T] = reinterpret_cast<int4*>(x)[T];"),
    "struct_copy": (1, 64, "reinterpret_cast<Pair*>(y)[T] = reinterpret_cast<Pair*>(x)[T];"),
    "dynamic_shared": (1, 64, "extern __shared__ int d[]; d[T] = T; __syncthreads(); x[T] = d[63 - T];"),
    "shared_of_each_block": (3, 64, "__shared__ int s[64]; s[T] = G; __syncthreads(); x[G] = s[63 - T];"),
    "private_array": (
        1,
        64,
        "int a[8]; for (int i = 0; i < 8; ++i) a[i] = T * i; int v = 0; for (int i = 0; i < 8; "
        "++i) v += a[(i * T) & 7]; x[T] = v;",
    ),
    "device_array": (1, 8, "table[T] = T; __syncthreads(); c[T] = table[7 - T];"),
    "constant_array": (1, 8, "static const int k[8] = {1, 2, 3, 4, 5, 6, 7, 8}; c[T] = k[(T * n) & 7];"),
    "heap_of_the_device": (1, 8, "int* p = static_cast<int*>(malloc(16)); p[0] = T; c[T] = p[0]; free(p);"),
    "scan_in_two_arrays": (
        1,
        64,
        "__shared__ int s[2][64]; int from = 0; s[0][T] = x[T]; __syncthreads(); for (int d = 1; d < 64; d *= 2) {"
        " s[1 - from][T] = s[from][T] + (T >= d ? s[from][T - d] : 0); from = 1 - from; "
        "__syncthreads(); } x[T] = s[from][T];",
    ),
    "scan_by_shuffles": (
        1,
        32,
        "int v = x[T]; for (int d = 1; d < 32; d *= 2) { int o = __shfl_up(v, d); if (T >= d) v += o; } x[T] = v;",
    ),
    "barrier_in_a_uniform_branch": (
        2,
        64,
        "__shared__ int s[64]; if (blockIdx.x) { s[T] = T; __syncthreads(); x[T] = s[63 - T]; }",
    ),
    "barrier_in_a_loop": (1, 64, "for (int i = 0; i < n % 7; ++i) __syncthreads(); x[T] = 1;"),
    "barrier_with_a_vote": (
        1,
        64,
        "__shared__ int s[64]; s[T] = T; int all = __syncthreads_and(T >= 0); x[T] = s[63 - T] + all;",
    ),
    "warps_apart": (
        1,
        128,
        "__shared__ int s[4]; if (T % 32 == 0) { s[T / 32] = T; s[T / 32] += 1; x[T] = s[T / 32]; }",
    ),
    "writes_before_reads_of_others_words": (1, 64, "y[T] = T; __syncthreads(); x[T] = y[(T + 1) % 64];"),
    "transpose": (
        1,
        256,
        "__shared__ int t[16][17]; t[T / 16][T % 16] = x[T]; __syncthreads(); y[T] = t[T % 16][T / 16];",
    ),
    "look_back": (
        4,
        32,
        "int v = warp_sum(T); if (!T) { int b = blockIdx.x; y[b] = v; __threadfence(); "
        "if (b) { while (!atomicAdd(c + b - 1, 0)) {} y[b] += y[b - 1]; __threadfence(); } atomicExch(c + b, 1); }",
    ),
    "minima_and_maxima": (
        4,
        64,
        "__hip_atomic_fetch_max(c, G, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); "
        "__hip_atomic_fetch_min(c + 1, -G, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);",
    ),
    "small_shared_variables": (
        1,
        32,
        "__shared__ bool a; __shared__ short b; __shared__ char d[3]; if (!T) { a = true; b = 2; d[2] = 1; } "
        "__syncthreads(); x[T] = a + b + d[2];",
    ),
    "in_place_behind_a_barrier": (
        1,
        64,
        "__shared__ int s[64]; s[T] = T; __syncthreads(); int v = s[63 - T]; __syncthreads(); s[T] = v; "
        "__syncthreads(); x[T] = s[(T + 1) % 64];",
    ),
    "shared_by_blocks_that_read": (4, 64, "int v = 0; for (int i = 0; i < 64; ++i) v += x[i]; y[G] = v;"),
    "two_numbers_from_one_word": (
        1,
        64,
        "short* s = reinterpret_cast<short*>(y); s[2 * T] = short(T); s[2 * T + 1] = short(-T); x[T] = y[T];",
    ),
    "partial_warp": (1, 48, "__shared__ int s[48]; s[T] = T; __syncthreads(); x[T] = s[47 - T];"),
    "vote_of_a_partial_warp": (1, 20, "x[T] = __any(T == 3) + __all(T < 20);"),
}
