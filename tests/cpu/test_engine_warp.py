"""Warps: shuffles, votes, divergence, early exits, cooperative groups."""

import numpy as np
import pytest
from helpers.rtc import Program, build

LANES = np.arange(32)


def lanes(body, count=32, out=np.int32, prologue="", grid=1, **how):
    """Run a body that sets `r` from `lane`; return the results of all threads."""
    c = {"int32": "int", "float32": "float", "uint64": "unsigned long long", "float64": "double"}[np.dtype(out).name]
    source = f"""{prologue}
extern "C" __global__ void k({c}* out) {{
  int lane = threadIdx.x % warpSize; {c} r = 0;
  {body}
  out[blockIdx.x * blockDim.x + threadIdx.x] = r;
}}"""
    made = np.zeros(count * grid, out)
    Program(source, **how).run("k", grid, count, made)
    return made


def source_lane(kind, amount, width):
    """Return where each lane's value comes from, as HIP documents it."""
    first, within = LANES & ~(width - 1), LANES & (width - 1)
    if kind == "":
        return first + amount % width
    if kind == "_up":
        return np.where(within >= amount, LANES - amount, LANES)
    if kind == "_down":
        return np.where(within + amount < width, LANES + amount, LANES)
    other = LANES ^ amount
    return np.where(other < first + width, other, LANES)


@pytest.mark.parametrize("sync", [False, True], ids=["", "sync"])
@pytest.mark.parametrize("kind", ["", "_up", "_down", "_xor"])
def test_shuffles(kind, sync):
    cases = [(amount, width) for width in (2, 8, 16, 32) for amount in (0, 1, 3, 7, 15, 16, 31)]
    call = f"__shfl{kind}_sync(0xffffffffull, " if sync else f"__shfl{kind}("
    body = "\n".join(f"r = {call}7 * lane + 1, {a}, {w}); out[{i * 32} + lane] = r;" for i, (a, w) in enumerate(cases))
    source = f'extern "C" __global__ void k(int* out) {{ int lane = threadIdx.x, r; {body} }}'
    out = np.zeros((len(cases), 32), np.int32)
    Program(source).run("k", 1, 32, out)
    for row, (amount, width) in zip(out, cases, strict=True):
        np.testing.assert_array_equal(row, 7 * source_lane(kind, amount, width) + 1, f"{kind} {amount} {width}")


def test_the_default_width_is_the_warp():
    np.testing.assert_array_equal(
        lanes("r = __shfl(lane, 9) + 100 * __shfl_down(lane, 1);"), 9 + 100 * np.minimum(LANES + 1, 31)
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float", 0.5),
        ("double", 1e-300),
        ("long long", -(2**40)),
        ("unsigned long long", 2**63),
        ("unsigned char", 200),
        ("short", -7),
    ],
)
def test_shuffles_of_all_types(kind, value):
    literal = f"({kind})({value}{'ull' if value == 2**63 else ''})"
    body = f"{kind} v = lane == 5 ? {literal} : ({kind})0; r = __shfl(v, 5) == {literal};"
    np.testing.assert_array_equal(lanes(body), 1)


def test_shuffles_of_halves_and_vectors():
    prologue = "#include <hip/hip_fp16.h>\n#include <hip/hip_bf16.h>"
    body = """
  r = float(__shfl_xor(__half(float(lane)), 1)) == (lane ^ 1);
  r += float(__shfl_down(__hip_bfloat16(float(lane)), 1)) == (lane == 31 ? 31 : lane + 1);
  r += __shfl_xor(make_float2(lane, 2 * lane), 2).y == 2 * (lane ^ 2);"""
    np.testing.assert_array_equal(lanes(body, prologue=prologue), 3)


def test_butterfly_sum_in_several_warps_and_blocks():
    body = "float v = threadIdx.x + 1000 * blockIdx.x; for (int d = 16; d; d /= 2) v += __shfl_xor(v, d); r = v;"
    out = lanes(body, 96, np.float32, grid=3).reshape(3, 3, 32)
    for block in range(3):
        for warp in range(3):
            np.testing.assert_array_equal(out[block, warp], 32 * (1000 * block + 32 * warp) + 31 * 16)


def test_a_lane_that_takes_no_part_reads_as_zero():
    out = lanes("int v = lane + 1; if (lane < 20) r = __shfl_xor(v, 16); else r = -1;")
    np.testing.assert_array_equal(out[:4], np.arange(4) + 17)
    np.testing.assert_array_equal(out[4:16], 0)
    np.testing.assert_array_equal(out[20:], -1)


def test_a_partial_warp():
    out = lanes("r = __shfl_xor(lane + 1, 16) + 1000 * int(__popcll(__ballot(1)));", 40)
    np.testing.assert_array_equal(out[:32], (LANES ^ 16) + 1 + 32000)
    np.testing.assert_array_equal(out[32:], 8000)


def test_votes():
    out = lanes(
        "r = __ballot(lane % 3 == 0); if (__any(lane == 9)) r |= 1ull << 40; if (__all(lane < 32)) r |= 1ull << 41;"
        "if (__any(lane > 40)) r |= 1ull << 42; if (__all(lane != 3)) r |= 1ull << 43;",
        out=np.uint64,
    )
    assert set(out.tolist()) == {sum(1 << i for i in range(0, 32, 3)) | 3 << 40}


def test_votes_of_active_lanes_only():
    out = lanes("if (lane < 12) r = __ballot(1); else r = __ballot(lane % 2);", out=np.uint64)
    assert set(out[:12].tolist()) == {0xFFF}
    assert set(out[12:].tolist()) == {0xAAAAA000}


def test_active_mask():
    out = lanes("if (lane & 1) r = __activemask(); else if (lane > 20) r = __activemask();", out=np.uint64)
    assert set(out[1::2].tolist()) == {0xAAAAAAAA}
    assert set(out[22::2].tolist()) == {sum(1 << i for i in range(22, 32, 2))}
    assert not out[:21:2].any()


def test_masked_votes_and_shuffles():
    out = lanes(
        "if (lane < 8) r = __ballot_sync(0xffull, lane != 2) + 1000 * __shfl_sync(0xffull, lane, 5) + "
        "100000 * __any_sync(0xffull, lane == 3) + 1000000 * __all_sync(0xffull, lane < 8);"
    )
    np.testing.assert_array_equal(out[:8], 0xFB + 5000 + 100000 + 1000000)
    assert not out[8:].any()


MASKED = (
    "__shfl_sync(MASK, lane, 0)",
    "__shfl_up_sync(MASK, lane, 1)",
    "__shfl_down_sync(MASK, lane, 1, 16)",
    "__shfl_xor_sync(MASK, lane, 1)",
    "__ballot_sync(MASK, lane)",
    "__any_sync(MASK, lane)",
    "__all_sync(MASK, lane)",
    "__match_any_sync(MASK, lane)",
    "__match_all_sync(MASK, lane, &same)",
    "(__syncwarp(MASK), 0)",
)
# A type each, because a template is compiled once for a type.
NARROW = "bool,char,signed char,unsigned char,short,unsigned short,int,unsigned,float,char16_t".split(",")


def test_masks_have_64_bits_as_in_hip():
    """HIP's headers refuse narrower ones, which a warp of 64 lanes would read as those of its lower half."""
    body = "int same = 0; " + " ".join(f"r += {call};" for call in MASKED)
    for mask in ("~0ull", "0xffffffffl", "lanes"):
        lanes("unsigned long long lanes = __activemask(); " + body.replace("MASK", mask))
    calls = [
        f"{{ {kind} m = 3; r += {call.replace('MASK', 'm')}; }}" for kind, call in zip(NARROW, MASKED, strict=True)
    ]
    lines = "\n".join(calls)
    source = f'extern "C" __global__ void k(int* out) {{ int lane = threadIdx.x, same, r = 0;\n{lines}\n*out = r; }}'
    log = build(source).log
    assert log.count(": error: static assertion failed") == len(MASKED), log
    assert "the mask of a *_sync operation has 64 bits in HIP" in log
    assert all(f"k.hip:{line}:" in log for line in range(2, len(MASKED) + 2)), log


def test_a_masked_operation_waits_for_lanes_that_come_later():
    body = """
  int v = lane;
  if (lane >= 16) { v = __shfl_xor(v, 1); v = __shfl_xor(v, 2); }
  r = __shfl_sync(0xffffffffull, v, 31 - lane);"""
    values = np.where(LANES >= 16, LANES ^ 3, LANES)
    np.testing.assert_array_equal(lanes(body), values[::-1])


def test_both_arms_of_a_branch_shuffle_among_themselves():
    out = lanes("if (lane % 2) r = __shfl_xor(lane, 2); else r = 100 + __shfl_xor(lane, 4);")
    np.testing.assert_array_equal(out, np.where(LANES % 2, LANES ^ 2, 100 + (LANES ^ 4)))


def test_an_operation_in_a_loop_of_uneven_length():
    """Lanes that have left the loop wait at the operation after it."""
    body = """
  int rounds = lane / 8;
  for (int i = 0; i < rounds; ++i) r += __popcll(__ballot(1));
  r += 1000 * __popcll(__ballot(1));"""
    expected = {0: 0, 1: 24, 2: 24 + 16, 3: 24 + 16 + 8}
    np.testing.assert_array_equal(lanes(body), [expected[i // 8] + 32000 for i in range(32)])


def test_a_loop_that_ends_by_a_vote():
    body = "int v = lane; while (__any(v < 40)) { v += 1 + lane % 3; ++r; }"
    np.testing.assert_array_equal(lanes(body), max(-(-(40 - i) // (1 + i % 3)) for i in range(32)))


def test_lanes_that_left_are_not_waited_for():
    out = lanes(
        "if (lane >= 10) { out[threadIdx.x] = -5; return; } r = __popcll(__ballot(1)) * 100 + __shfl_down(lane, 1);"
    )
    np.testing.assert_array_equal(out[:9], 1000 + np.arange(1, 10))
    assert out[9] == 1000  # its source has left
    np.testing.assert_array_equal(out[10:], -5)


def test_one_warp_reduces_while_the_others_wait_at_the_barrier():
    body = """
  __shared__ int part[8]; __shared__ int total;
  int v = threadIdx.x;
  for (int d = 16; d; d /= 2) v += __shfl_down(v, d);
  if (lane == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = lane < 8 ? part[lane] : 0;
    for (int d = 4; d; d /= 2) v += __shfl_xor(v, d);
    if (lane == 0) total = v;
  }
  __syncthreads();
  r = total;"""
    np.testing.assert_array_equal(lanes(body, 256, grid=5), 255 * 128)


def test_a_warp_operation_before_divergent_exits_and_barriers():
    body = """
  r = __shfl_xor(lane, 1);
  if (lane == 3) return;
  __syncthreads();
  r += 100 * __popcll(__ballot(1));
  __syncthreads();"""
    out = lanes(body, 64)
    keep = np.arange(64) % 32 != 3
    np.testing.assert_array_equal(out[keep], ((np.arange(64) % 32) ^ 1)[keep] + 3100)


def test_operations_in_device_functions_called_from_two_places():
    prologue = "__device__ int sum(int v) { for (int d = 16; d; d /= 2) v += __shfl_xor(v, d); return v; }"
    np.testing.assert_array_equal(lanes("r = sum(lane); r += 1000 * sum(1);", prologue=prologue), 496 + 32000)


def test_warps_of_a_two_dimensional_block():
    source = """
extern "C" __global__ void k(int* out) {
  int linear = threadIdx.x + blockDim.x * threadIdx.y;
  out[linear] = __shfl(linear, 0) + 1000 * int(__lane_id());
}"""
    out = np.zeros(12 * 8, np.int32)
    Program(source).run("k", 1, (12, 8), out)
    linear = np.arange(96)
    np.testing.assert_array_equal(out, linear // 32 * 32 + 1000 * (linear % 32))


def test_matching_lanes():
    out = lanes("r = __match_any(lane / 10) + __match_any_sync(0xffffffffull, lane / 10);", out=np.uint64)
    assert out.tolist() == [2 * sum(1 << j for j in range(32) if j // 10 == i // 10) for i in range(32)]


def test_syncwarp_orders_shared_memory():
    body = "__shared__ int s[32]; s[lane] = lane; __syncwarp(); r = s[31 - lane]; __syncwarp(0xffffffffull);"
    np.testing.assert_array_equal(lanes(body), LANES[::-1])


def test_cooperative_groups():
    prologue = "#include <hip/hip_cooperative_groups.h>\nnamespace cg = cooperative_groups;"
    body = """
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int v = tile.thread_rank();
  for (unsigned d = 4; d; d /= 2) v += tile.shfl_xor(v, d);
  block.sync();
  r = v + 100 * tile.ballot(tile.thread_rank() == 2) + 1000 * tile.meta_group_rank() + 10000 * tile.any(lane == 9)
      + 100000 * tile.all(lane < 8) + tile.shfl(0, 3);
  cg::sync(tile);"""
    tile = np.arange(64) // 8
    expected = 28 + 400 + 1000 * tile + 10000 * (tile % 4 == 1) + 100000 * (tile % 4 == 0)
    np.testing.assert_array_equal(lanes(body, 64, prologue=prologue), expected)


def test_lanes_that_all_match():
    """The lanes are told if every one that takes part has one value; else there are none, and the flag is false."""
    body = """int all = 7, some = 7, few = 7;
  unsigned long long same = __match_all(3.5f, &all), other = __match_all(lane / 16, &some), half = 0;
  if (lane < 16) half = __match_all_sync(0xffffull, lane / 16, &few);
  r = same + other * 3 + half * 5 + (all + 2 * some + 4 * (few == 1));"""
    expected = 0xFFFFFFFF + np.where(LANES < 16, 0xFFFF * 5 + 4, 0) + 1
    np.testing.assert_array_equal(lanes(body, out=np.uint64), expected.astype(np.uint64))


def test_coalesced_groups():
    """The lanes of a branch are numbered in their order, and the group's operations count by these numbers."""
    prologue = "#include <hip/hip_cooperative_groups.h>\nnamespace cg = cooperative_groups;"
    body = """
  if (lane % 3 == 1) {
    cg::coalesced_group group = cg::coalesced_threads();
    int v = lane;
    for (unsigned d = 1; d < group.size(); ++d) v += group.shfl(lane, int(group.thread_rank() + d));
    const int next = group.shfl_down(lane, 1), before = group.shfl_up(lane, 2);
    r = v + 1000 * next + 100000 * before + 10000000 * int(group.ballot(lane == 7))
        + (group.any(lane == 8) || group.all(lane < 31) ? 500000000 : 0)
        + int(group.thread_rank() == group.num_threads());
    group.sync();
  }"""
    members = LANES[LANES % 3 == 1]
    shift = lambda by: members[np.clip(np.arange(len(members)) + by, 0, len(members) - 1)]  # noqa: E731
    before = np.where(np.arange(len(members)) < 2, members, shift(-2))
    expected = np.zeros(32, np.int64)
    expected[members] = members.sum() + 1000 * shift(1) + 100000 * before + 10000000 * 4
    np.testing.assert_array_equal(lanes(body, prologue=prologue), expected)


def test_a_kernel_mixes_plain_and_synchronising_functions():
    """Only the kernel that synchronises runs on fibers; the plain one is right either way."""
    source = """
extern "C" __global__ void first(int* p) { p[threadIdx.x] = __shfl_xor(int(threadIdx.x), 1); }
extern "C" __global__ void second(int* p) {
  if (threadIdx.x % 32 != 0) return;
  for (int i = 0; i < 32; ++i) p[threadIdx.x + i] += i;
}
"""
    program = Program(source)
    values = np.zeros(64, np.int32)
    program.run("first", 1, 64, values)
    program.run("second", 1, 64, values)
    np.testing.assert_array_equal(values, (np.arange(64) ^ 1) + np.arange(64) % 32)
