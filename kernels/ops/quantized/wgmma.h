// Matrix instructions of compute capability 9.0, which four simdgroups issue together and which run while these go on. They
// multiply 64 rows of registers with ROWS lines of threadgroup memory, 16 deep.
// docs.nvidia.com/cuda/parallel-thread-execution, wgmma.mma_async.
namespace metal {

// The place of lines of 128 bytes whose 16-byte pieces are exchanged by the number of the line in its eight; `at` is a multiple
// of 1024, and 32 bytes of a line further lie the next 16 numbers. `apart` counts for lines that are turned: the bytes from
// their 64 numbers to the next 64.
HIPRT_INLINE ulong lines_at(uint at, uint apart = 16) {
  return ulong(at >> 4) | ulong(apart >> 4) << 16 | 64ul << 32 | 1ul << 62;
}

// What the threads have written to threadgroup memory is seen by matrix instructions behind the next barrier.
HIPRT_INLINE void show_to_matrices() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// This stands between other uses of registers and the instructions that read or sum in them.
HIPRT_INLINE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
HIPRT_INLINE void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// The wait for all but the newest N lots of products.
template <int N>
HIPRT_INLINE void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// The compiler keeps registers in place up to here, because instructions that still run may use them.
template <int N>
HIPRT_INLINE void hold_registers(uint (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(values[i])::"memory");
}
template <int N>
HIPRT_INLINE void hold_registers(float (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(values[i])::"memory");
}

#define HIPRT_NAMES(ten) \
  "%" ten "0,%" ten "1,%" ten "2,%" ten "3,%" ten "4,%" ten "5,%" ten "6,%" ten "7,%" ten "8,%" ten "9,"
#define HIPRT_SUMS_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define HIPRT_SUMS_16(i) HIPRT_SUMS_4(i), HIPRT_SUMS_4((i) + 4), HIPRT_SUMS_4((i) + 8), HIPRT_SUMS_4((i) + 12)
#define HIPRT_SUMS_32(i) HIPRT_SUMS_16(i), HIPRT_SUMS_16((i) + 16)
#define HIPRT_SUMS_64(i) HIPRT_SUMS_32(i), HIPRT_SUMS_32((i) + 32)
#define HIPRT_SUMS_128(i) HIPRT_SUMS_64(i), HIPRT_SUMS_64((i) + 64)
#define HIPRT_NAMES_16 HIPRT_NAMES("") "%10,%11,%12,%13,%14,%15"
#define HIPRT_NAMES_32 HIPRT_NAMES("") HIPRT_NAMES("1") HIPRT_NAMES("2") "%30,%31"
#define HIPRT_NAMES_64 \
  HIPRT_NAMES("") HIPRT_NAMES("1") HIPRT_NAMES("2") HIPRT_NAMES("3") HIPRT_NAMES("4") HIPRT_NAMES("5") "%60,%61,%62,%63"
#define HIPRT_NAMES_128                                                                                                  \
  HIPRT_NAMES("") HIPRT_NAMES("1") HIPRT_NAMES("2") HIPRT_NAMES("3") HIPRT_NAMES("4") HIPRT_NAMES("5") HIPRT_NAMES("6") \
  HIPRT_NAMES("7") HIPRT_NAMES("8") HIPRT_NAMES("9") HIPRT_NAMES("10") HIPRT_NAMES("11") "%120,%121,%122,%123,%124,%125,%126,%127"
// Products of a's 64 by 16 numbers with `lines` are added to d, or become d. Lines that are turned are 16, with ROWS numbers.
#define HIPRT_WGMMA(...)                                  \
  HIPRT_WGMMA_AS(add_products, "1", "0", __VA_ARGS__)     \
  HIPRT_WGMMA_AS(set_products, "0", "0", __VA_ARGS__)     \
  HIPRT_WGMMA_AS(add_turned_products, "1", "1", __VA_ARGS__)
#define HIPRT_WGMMA_AS(name, adds, turned, rows, count, type, word, a0, a1, a2, a3, from)                              \
  HIPRT_INLINE void name(float (&d)[count], const uint* a, ulong lines, type) {                                        \
    asm volatile(                                                                                                      \
        "wgmma.mma_async.sync.aligned.m64n" rows "k16.f32." word "." word " {" HIPRT_NAMES_##count "}, "               \
        "{%" a0 ",%" a1 ",%" a2 ",%" a3 "}, %" from ", " adds ", 1, 1, " turned ";"                                    \
        : HIPRT_SUMS_##count(0)                                                                                        \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(lines));                                                   \
  }
HIPRT_WGMMA("32", 16, bfloat16_t, "bf16", "16", "17", "18", "19", "20")
HIPRT_WGMMA("32", 16, half, "f16", "16", "17", "18", "19", "20")
HIPRT_WGMMA("64", 32, bfloat16_t, "bf16", "32", "33", "34", "35", "36")
HIPRT_WGMMA("64", 32, half, "f16", "32", "33", "34", "35", "36")
HIPRT_WGMMA("128", 64, bfloat16_t, "bf16", "64", "65", "66", "67", "68")
HIPRT_WGMMA("128", 64, half, "f16", "64", "65", "66", "67", "68")
HIPRT_WGMMA("256", 128, bfloat16_t, "bf16", "128", "129", "130", "131", "132")
HIPRT_WGMMA("256", 128, half, "f16", "128", "129", "130", "131", "132")
#undef HIPRT_WGMMA
#undef HIPRT_WGMMA_AS
#undef HIPRT_NAMES_128
#undef HIPRT_NAMES_64
#undef HIPRT_NAMES_32
#undef HIPRT_NAMES_16
#undef HIPRT_NAMES
#undef HIPRT_SUMS_128
#undef HIPRT_SUMS_64
#undef HIPRT_SUMS_32
#undef HIPRT_SUMS_16
#undef HIPRT_SUMS_4

// Four squares of 8 by 8 numbers, laid out as matrix instructions leave them, to threadgroup memory with rows and columns
// exchanged: lane i says where line i % 8 of square i / 8 goes.
HIPRT_INLINE void store_turned(uint at, uint a, uint b, uint c, uint d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}
// A barrier of the four simdgroups that issue matrix instructions together.
HIPRT_INLINE void team_barrier(uint team) { asm volatile("bar.sync %0, 128;" ::"r"(team + 1) : "memory"); }
// Two teams that take turns: a team waits for its own, and gives the other one its.
HIPRT_INLINE void wait_for_turn(uint team) { asm volatile("bar.sync %0, 256;" ::"r"(team + 1) : "memory"); }
HIPRT_INLINE void give_turn(uint team) { asm volatile("bar.arrive %0, 256;" ::"r"(team + 1) : "memory"); }
// A thread arrives at a stage's barrier.
HIPRT_INLINE void arrive_at_stage(uint barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// All threads of a team go on with N registers each, fewer than before or more. The kernel's roles are the branches of one `if`.
template <int N>
HIPRT_INLINE void leave_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N>
HIPRT_INLINE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

}  // namespace metal
