"""Cooperative launches: all blocks are there at once and wait for each other at the grid's barrier."""

import ctypes

import numpy as np
import pytest
from helpers.hip_calls import KIND, E, instantiate, new_graph, nodes, ok, raw, set_dim
from helpers.rtc import Program
from rocm.bindings import hip

GROUPS = "#include <hip/hip_cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
# Each round, every block adds its neighbour's sum to its own; shared memory keeps the block's sum between barriers.
ROUNDS = (
    GROUPS
    + """
extern "C" __global__ void rounds(int* sums, int n) {
  __shared__ int own;
  cg::grid_group grid = cg::this_grid();
  if (threadIdx.x == 0) own = blockIdx.x + 1;
  __syncthreads();
  for (int round = 0; round < n; ++round) {
    if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = own;
    grid.sync();
    if (threadIdx.x == 0) own += sums[(blockIdx.x + 1) % gridDim.x];
    cg::sync(grid);
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = own + 1000000 * (grid.size() != gridDim.x * blockDim.x);
}"""
)


def expected(blocks, rounds):
    sums = np.arange(1, blocks + 1)
    for _ in range(rounds):
        sums = sums + np.roll(sums, -1)
    return sums


def run(program, name, grid, block, *cells):
    """Launch a kernel cooperatively and wait for it."""
    cells = [np.array(cell) for cell in cells]
    pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
    ok(hip.hipModuleLaunchCooperativeKernel(program.function(name), grid, 1, 1, block, 1, 1, 0, None, pointers))
    ok(hip.hipDeviceSynchronize())


@pytest.fixture
def ints():
    """Device memory of 64 ints, zero at first, and how to read it."""
    memory = ok(hip.hipMalloc(256))
    ok(hip.hipMemset(memory, 0, 256))

    def read(n):
        out = np.zeros(n, np.int32)
        ok(hip.hipMemcpy(out, memory, out.nbytes, KIND.hipMemcpyDeviceToHost))
        return out

    yield np.uint64(int(memory)), read
    hip.hipFree(memory)


@pytest.mark.parametrize(("grid", "block"), [(1, 1), (1, 256), (7, 33), (12, 64), (2, 1024)])
def test_blocks_see_what_others_wrote_before_the_barrier(ints, grid, block):
    address, read = ints
    run(Program(ROUNDS), "rounds", grid, block, address, np.int32(5))
    np.testing.assert_array_equal(read(grid), expected(grid, 5))


def test_barriers_of_blocks_and_warps_between(ints):
    """Threads that end early are not waited for, nor are blocks."""
    address, read = ints
    source = (
        GROUPS
        + """
extern "C" __global__ void k(int* out) {
  if (blockIdx.x == 3 || threadIdx.x >= 40) return;
  int mine = __syncthreads_count(threadIdx.x % 2) + __shfl_xor(int(threadIdx.x), 1);
  atomicAdd(&out[0], mine);
  cg::this_grid().sync();
  const int seen = out[0];
  __syncthreads();
  cg::this_grid().sync();
  atomicAdd(&out[1 + blockIdx.x], seen);
}"""
    )
    run(Program(source), "k", 5, 64, address)
    total = 4 * (40 * 20 + sum(range(40)))
    np.testing.assert_array_equal(read(6), [total, *(40 * total * (block != 3) for block in range(5))])


def test_functions_take_any_group(ints):
    """The block, a tile, and the lanes that came together; the grid waits as one too."""
    address, read = ints
    source = (
        GROUPS
        + """
__device__ int sum(cg::thread_group g, int* x, int value) {
  const unsigned rank = g.thread_rank();
  for (unsigned n = g.size() / 2; n; n /= 2) {
    x[rank] = value;
    g.sync();
    if (rank < n) value += x[rank + n];
    g.sync();
  }
  return value;
}
__device__ void wait(const cg::thread_group& g) { g.sync(); }
extern "C" __global__ void k(int* out) {
  __shared__ int x[64];
  const cg::thread_block block = cg::this_thread_block();
  const int i = threadIdx.x, all = sum(block, x, i), of_tile = sum(cg::tiled_partition<8>(block), x + i / 8 * 8, i);
  if (i == 0) out[blockIdx.x] = all;
  if (i % 8 == 0 && blockIdx.x == 0) out[2 + i / 8] = of_tile;
  if (i % 32 < 16) {
    const int some = sum(cg::coalesced_threads(), x + i / 32 * 32, i);
    if (i % 32 == 0 && blockIdx.x == 0) out[10 + i / 32] = some;
  }
  wait(cg::this_grid());
  if (blockIdx.x == 0 && i == 0) out[12] = out[1] + cg::thread_group(cg::this_grid()).size();
}"""
    )
    run(Program(source), "k", 2, 64, address)
    tiles = [sum(range(8 * n, 8 * n + 8)) for n in range(8)]
    assert read(13).tolist() == [2016, 2016, *tiles, sum(range(16)), sum(range(32, 48)), 2016 + 128]


@pytest.mark.parametrize(
    ("body", "cooperative", "why"),
    [
        ("cg::this_grid().sync();", False, "the grid's barrier is reached, but the launch is not a cooperative one"),
        (
            "if (threadIdx.x) __syncthreads(); else cg::this_grid().sync();",
            True,
            "31 of its 32 threads wait at a block barrier, 1 at the grid's",
        ),
    ],
    ids=["plain launch", "two barriers at once"],
)
def test_a_barrier_that_nobody_can_pass(python, body, cooperative, why):
    source = GROUPS + 'extern "C" __global__ void k() { ' + body + " }"
    launch = "hipModuleLaunchCooperativeKernel" if cooperative else "hipModuleLaunchKernel"
    out = python(f"""
os.dup2(1, 2)
from helpers.rtc import Program
arguments = [Program({source!r}).function("k"), 2, 1, 1, 32, 1, 1, 0, None, None, None]
ok(hip.{launch}(*arguments[:{10 if cooperative else 11}]))
print(error(hip.hipDeviceSynchronize()).name)
""")
    assert why in out
    assert out.splitlines()[-1] == "hipErrorLaunchFailure"


def test_captured_launches_stay_cooperative(ints):
    address, read = ints
    program, stream = Program(ROUNDS), ok(hip.hipStreamCreate())
    cells = [np.array(address), np.array(np.int32(3))]
    pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    ok(hip.hipModuleLaunchCooperativeKernel(program.function("rounds"), 6, 1, 1, 64, 1, 1, 0, stream, pointers))
    graph = ok(hip.hipStreamEndCapture(stream))
    assert attribute(nodes(graph)[0]) == (E.hipSuccess, 1)
    ready = ok(hip.hipGraphInstantiateWithFlags(graph, 0))
    ok(hip.hipGraphLaunch(ready, stream))
    ok(hip.hipStreamSynchronize(stream))
    np.testing.assert_array_equal(read(6), expected(6, 3))
    ok(hip.hipGraphExecDestroy(ready))
    ok(hip.hipGraphDestroy(graph))
    ok(hip.hipStreamDestroy(stream))


def attribute(node, value=None):
    """Set whether a node's launch is cooperative, or ask; return the call's status and the value."""
    which, cell = hip.hipLaunchAttributeID.hipLaunchAttributeCooperative, (ctypes.c_int * 16)(value or 0)
    call = f"hipGraphKernelNode{'Get' if value is None else 'Set'}Attribute"
    return raw(call, node, ctypes.c_int(which), cell), cell[0]


def test_nodes_are_made_cooperative(ints):
    """They stay so with other parameters; more blocks than fit at a time are refused."""
    address, read = ints
    program, graph = Program(ROUNDS), new_graph()
    cells = [np.array(address), np.array(np.int32(2))]
    pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
    params = hip.hipKernelNodeParams()
    params.func, params.kernelParams = program.function("rounds"), pointers
    set_dim(params.gridDim, 1 << 20)
    set_dim(params.blockDim, 64)
    node = ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    assert attribute(node, 1)[0] == E.hipErrorCooperativeLaunchTooLarge
    set_dim(params.gridDim, 6)
    ok(hip.hipGraphKernelNodeSetParams(node, params))
    assert attribute(node) == (E.hipSuccess, 0)
    assert attribute(node, 1)[0] == E.hipSuccess
    assert attribute(node) == (E.hipSuccess, 1)
    ready = instantiate(graph)
    cells[1][()] = 3
    ok(hip.hipGraphExecKernelNodeSetParams(ready, node, params))
    ok(hip.hipGraphLaunch(ready, None))
    ok(hip.hipDeviceSynchronize())
    np.testing.assert_array_equal(read(6), expected(6, 3))


@pytest.mark.parametrize("barrier", ["grid.sync();", "__syncthreads();"], ids=["of the grid", "of the block"])
def test_checks_know_the_barrier(python, tmp_path, barrier):
    """Accesses on its two sides are in order, for the block's own memory too; without it they are a race."""
    report = tmp_path / "report"
    out = python(
        f"""
from helpers.rtc import Program
program, memory = Program({ROUNDS.replace("grid.sync();", barrier)!r}), ok(hip.hipMalloc(256))
cells = [np.array(int(memory), np.uint64), np.array(3, np.int32)]
pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
ok(hip.hipModuleLaunchCooperativeKernel(program.function("rounds"), 5, 1, 1, 64, 1, 1, 0, None, pointers))
ok(hip.hipDeviceSynchronize())
out = np.zeros(5, np.int32)
ok(hip.hipMemcpy(out, memory, out.nbytes, KIND.hipMemcpyDeviceToHost))
print(*out)
""",
        HIPRT_CPU_CHECK="all",
        HIPRT_CPU_CHECK_REPORT=str(report),
    )
    findings = report.read_text() if report.exists() else ""
    if barrier == "grid.sync();":
        assert (out.split(), findings) == ([str(n) for n in expected(5, 3)], "")
    else:
        assert "race" in findings
