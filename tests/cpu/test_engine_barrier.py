"""Blocks: indices, barriers, shared memory, and kernels that cannot go on."""

import numpy as np
import pytest
from helpers.hip_calls import E
from helpers.rtc import Program
from rocm.bindings import hip

INDICES = """
extern "C" __global__ void indices(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  SYNC
  out[at] += blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z;
  out[at] += 1000 * threadIdx.x + 10000 * threadIdx.y + 100000 * threadIdx.z;
}
"""


@pytest.mark.parametrize("sync", ["", "__syncthreads();"], ids=["plain", "fibers"])
@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((3, 2, 4), (5, 3, 2)),
        ((70, 1, 1), (33, 1, 1)),
        ((1, 1, 1), (1024, 1, 1)),
        ((2, 3, 1), (8, 8, 16)),
    ],
)
def test_every_thread_runs_once_with_its_indices(sync, grid, block):
    out = np.zeros(np.prod(grid) * np.prod(block), np.int32)
    Program(INDICES, options=[f"-DSYNC={sync}"]).run("indices", grid, block, out)
    bz, by, bx, tz, ty, tx = np.meshgrid(*map(np.arange, (*grid[::-1], *block[::-1])), indexing="ij")
    expected = bx + 10 * by + 100 * bz + 1000 * tx + 10000 * ty + 100000 * tz
    np.testing.assert_array_equal(out, expected.ravel())


@pytest.mark.parametrize("size", [1, 31, 32, 33, 256, 1000, 1024])
def test_static_shared_memory(size):
    source = """
extern "C" __global__ void reverse(const int* in, int* out, int n) {
  __shared__ int tile[1024];
  tile[threadIdx.x] = in[blockIdx.x * n + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * n + threadIdx.x] = tile[n - 1 - threadIdx.x];
}"""
    values = np.arange(20 * size, dtype=np.int32)
    out = np.zeros_like(values)
    Program(source).run("reverse", 20, size, values, out, np.int32(size))
    np.testing.assert_array_equal(out.reshape(20, size), values.reshape(20, size)[:, ::-1])


def test_shared_memory_without_a_barrier(python):
    """The first kernel of a process may be such a one."""
    out = python("""
from helpers.rtc import Program
source = '''extern "C" __global__ void k(int* p) {
  __shared__ int own[4];
  for (int i = 0; i < 4; ++i) own[i ^ p[0]] = i + 5;
  p[1] = own[p[1]];
}'''
values = np.array([1, 3], np.int32)
Program(source).run("k", 1, 1, values)
print(values[1])
""")
    assert out == "7\n"


def test_dynamic_shared_memory_in_all_its_spellings():
    source = """
extern __shared__ int outside[];
namespace n { namespace m { extern __shared__ float inner[]; } }
extern "C" __global__ void a(int* p) {
  extern __shared__ __align__(16) unsigned char raw[];
  int* s = reinterpret_cast<int*>(raw);
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void b(int* p) {
  outside[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = outside[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void c(int* p) {
  n::m::inner[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = n::m::inner[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void d(int* p) {
  HIP_DYNAMIC_SHARED(int, macro)
  macro[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = macro[blockDim.x - 1 - threadIdx.x];
}
namespace n { extern "C" __global__ void f(int* p) {
  extern __shared__ int unmangled[];
  unmangled[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = unmangled[blockDim.x - 1 - threadIdx.x];
} }
template <class T> __global__ void e(T* p) {
  extern __shared__ T generic[];
  generic[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = generic[blockDim.x - 1 - threadIdx.x];
}
"""
    program = Program(source, expressions=["e<int>"])
    for name in ("a", "b", "c", "d", "e<int>", "f"):
        values = np.arange(100, dtype=np.int32)
        program.run(name, 1, 100, values, shared=400)
        np.testing.assert_array_equal(values, np.arange(100)[::-1], name)


def test_static_and_dynamic_shared_memory_do_not_overlap():
    source = """
extern "C" __global__ void k(int* p) {
  __shared__ int one[64];
  __shared__ double two[64];
  extern __shared__ int dynamic[];
  one[threadIdx.x] = 1; two[threadIdx.x] = 2; dynamic[threadIdx.x] = 4;
  __syncthreads();
  p[threadIdx.x] = one[63 - threadIdx.x] + int(two[63 - threadIdx.x]) + dynamic[63 - threadIdx.x];
}"""
    out = np.zeros(64, np.int32)
    program = Program(source)
    program.run("k", 1, 64, out, shared=256)
    np.testing.assert_array_equal(out, 7)
    attribute = hip.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    assert hip.hipFuncGetAttribute(attribute, program.function("k"))[1] == 64 * 4 + 64 * 8


def test_shared_size_counts_the_kernels_own_arrays():
    source = """
extern "C" __global__ void small(int* p) { __shared__ int s[8]; s[threadIdx.x] = 1; __syncthreads(); p[0] = s[7]; }
extern "C" __global__ void large(int* p) { __shared__ int s[800]; s[threadIdx.x] = 1; __syncthreads(); p[0] = s[7]; }
extern "C" __global__ void none(int* p) { p[0] = 1; }
"""
    program = Program(source)
    attribute = hip.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    sizes = {name: hip.hipFuncGetAttribute(attribute, program.function(name))[1] for name in ("small", "large", "none")}
    assert sizes == {"small": 32, "large": 3200, "none": 0}


def test_blocks_on_several_cores_have_shared_memory_of_their_own():
    source = """
extern "C" __global__ void k(int* out, int rounds) {
  __shared__ int mine;
  if (threadIdx.x == 0) mine = blockIdx.x;
  __syncthreads();
  int wrong = 0;
  for (int i = 0; i < rounds; ++i) { wrong += mine != blockIdx.x; __syncthreads(); }
  atomicAdd(out, wrong);
}"""
    out = np.zeros(1, np.int32)
    Program(source).run("k", 2000, 64, out, np.int32(20))
    assert out[0] == 0


def test_many_barriers_in_a_loop():
    source = """
extern "C" __global__ void ring(int* p, int rounds) {
  __shared__ int s[256];
  s[threadIdx.x] = p[threadIdx.x];
  for (int i = 0; i < rounds; ++i) {
    __syncthreads();
    int next = s[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
    s[threadIdx.x] = next;
  }
  p[threadIdx.x] = s[threadIdx.x];
}"""
    values = np.arange(256, dtype=np.int32)
    Program(source).run("ring", 1, 256, values, np.int32(100))
    np.testing.assert_array_equal(values, np.roll(np.arange(256), -100))


def test_threads_may_leave_before_a_barrier():
    source = """
extern "C" __global__ void k(int* out, int stay) {
  __shared__ int s[256];
  if (threadIdx.x >= stay) return;
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[stay - 1 - threadIdx.x] + 1;
}"""
    for stay in (1, 31, 33, 100, 255):
        out = np.zeros(256, np.int32)
        Program(source).run("k", 1, 256, out, np.int32(stay))
        np.testing.assert_array_equal(out[:stay], np.arange(stay, 0, -1))
        assert not out[stay:].any()


def test_threads_may_leave_between_barriers():
    source = """
extern "C" __global__ void k(int* out) {
  for (int i = 0; i < int(threadIdx.x); ++i) __syncthreads();
  out[threadIdx.x] = threadIdx.x;
}"""
    out = np.zeros(100, np.int32)
    Program(source).run("k", 1, 100, out)
    np.testing.assert_array_equal(out, np.arange(100))


def test_barriers_that_vote():
    source = """
extern "C" __global__ void k(int* out, int gone) {
  int t = threadIdx.x;
  if (t >= int(blockDim.x) - gone) return;
  out[4 * t] = __syncthreads_count(t % 3 == 0);
  out[4 * t + 1] = __syncthreads_and(t < 1000) + 10 * __syncthreads_and(t != 5);
  out[4 * t + 2] = __syncthreads_or(t == 7) + 10 * __syncthreads_or(t > 1000);
  out[4 * t + 3] = __syncthreads_count(5);
}"""
    program = Program(source)
    for gone in (0, 30):
        out = np.zeros((100, 4), np.int32)
        program.run("k", 1, 100, out, np.int32(gone))
        left = 100 - gone
        np.testing.assert_array_equal(out[:left], [[-(-left // 3), 1, 1, left]] * left)


def test_a_barrier_in_a_device_function_that_is_not_inlined():
    source = """
__device__ __noinline__ int exchange(int* s, int v) {
  s[threadIdx.x] = v;
  __syncthreads();
  return s[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void k(int* p) { __shared__ int s[128]; p[threadIdx.x] = exchange(s, p[threadIdx.x]); }
extern "C" __global__ void plain(int* p) { p[threadIdx.x] = 2 * p[threadIdx.x]; }
"""
    values = np.arange(128, dtype=np.int32)
    program = Program(source)
    program.run("k", 1, 128, values)
    program.run("plain", 1, 128, values)
    np.testing.assert_array_equal(values, 2 * np.arange(128)[::-1])


def test_each_thread_keeps_its_own_variables_over_a_barrier():
    source = """
extern "C" __global__ void k(float* out) {
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = threadIdx.x * 64 + i;
  float sum = 0;
  for (int i = 0; i < 64; ++i) { __syncthreads(); sum += values[(i + threadIdx.x) % 64]; }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}"""
    out = np.zeros(4 * 512, np.float32)
    Program(source).run("k", 4, 512, out)
    expected = np.arange(512) * 4096.0 + 64 * 63 / 2
    np.testing.assert_array_equal(out.reshape(4, 512), [expected] * 4)


def test_large_private_arrays():
    source = """
extern "C" __global__ void k(int* out) {
  volatile int big[20000];
  for (int i = 0; i < 20000; ++i) big[i] = i + threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = big[19999];
}"""
    out = np.zeros(64, np.int32)
    Program(source).run("k", 2, 64, out)
    np.testing.assert_array_equal(out, 19999 + np.arange(64))


def test_a_wait_that_nothing_can_end_is_an_error_with_its_reason(python):
    """Lane 0 waits for its whole warp at a shuffle, the others for lane 0 at the barrier."""
    out = python("""
os.dup2(1, 2)
from helpers.rtc import Program
source = '''extern "C" __global__ void stuck(int* p) {
  if (threadIdx.x == 0) p[0] = __shfl_sync(0xffffffffull, 1, 0); else __syncthreads();
}'''
print(Program(source).launch("stuck", 1, 32, np.zeros(1, np.int32)).name)
""")
    assert out.splitlines()[-1] == "hipErrorLaunchFailure"
    assert (
        "hiprt: kernel 'stuck': block (0,0,0) cannot go on: 31 of its 32 threads wait at a block barrier, 1 at" in out
    )


def test_an_empty_kernel_and_a_kernel_without_parameters():
    program = Program(
        '__device__ int ran;\nextern "C" __global__ void k() { atomicAdd(&ran, 1); }\nextern "C" __global__ void e() {}'
    )
    program.run("k", 7, 9)
    program.run("e", 7, 9)
    address, _ = hip.hipModuleGetGlobal(program.module, b"ran")[1:]
    out = np.zeros(1, np.int32)
    hip.hipMemcpy(out, address, 4, hip.hipMemcpyKind.hipMemcpyDeviceToHost)
    assert out[0] == 63


def test_printf_and_assert(python):
    out = python("""
from helpers.rtc import Program
program = Program('''
extern "C" __global__ void say(int n) {
  printf("thread %u of %d: %.2f %s\\\\n", threadIdx.x, n, 0.25 * threadIdx.x, "ok");
}
extern "C" __global__ void check(int n) { assert(int(threadIdx.x) < n); }
''')
program.run("say", 1, 3, np.int32(3))
program.run("check", 1, 3, np.int32(3))
print(program.launch("check", 1, 3, np.int32(2)).name)
""")
    lines = out.splitlines()
    assert sorted(lines[:3]) == [f"thread {i} of 3: {i / 4:.2f} ok" for i in range(3)]
    assert lines[3] == "hipErrorAssert"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("*(volatile int*)(n + 16) = 1;", "hipErrorIllegalAddress"),
        ("p[threadIdx.x] = 7 / n;", "hipErrorLaunchFailure"),
        ("__trap();", "hipErrorLaunchFailure"),
        ("__syncthreads(); *(volatile int*)(n + 16) = 1;", "hipErrorIllegalAddress"),
        (
            "volatile int big[70000]; for (int i = n; i < 70000; ++i) big[i] = i; p[0] = big[3];",
            "hipErrorIllegalAddress",
        ),
    ],
    ids=["wild store", "division by zero", "trap", "wild store on a fiber", "stack overflow"],
)
def test_a_fault_fails_the_launch_and_not_the_process(python, body, status, sanitized):
    if sanitized and body != "__trap();":
        pytest.skip("the sanitizer reports it first")
    source = f'extern "C" __global__ void k(int* p, long n) {{ {body} }}'
    out = python(f"""
from helpers.rtc import Program
print(Program({source!r}).launch("k", 2, 32, np.zeros(32, np.int32), np.int64(0)).name)
""")
    assert out.split() == [status]


def test_a_fault_on_any_core_fails_the_launch(python, sanitized):
    """One core waits in the first block for the last block, which another core must have reached."""
    if sanitized:
        pytest.skip("the sanitizer reports it first")
    source = """
    extern "C" __global__ void k(volatile int* p, long n) {
      if (blockIdx.x == 0) while (!p[0]) {}
      if (blockIdx.x == gridDim.x - 1) p[0] = 1, *(volatile int*)(n + 16) = 1;
    }"""
    out = python(
        f"""
from helpers.rtc import Program
print(Program({source!r}).launch("k", 4096, 64, np.zeros(32, np.int32), np.int64(0)).name)
""",
        HIPRT_CPU_THREADS="2",
    )
    assert out.split() == ["hipErrorIllegalAddress"]


def test_a_launch_after_a_failure(python):
    """The blocks after a failed one run well: strands that were left behind are made anew."""
    out = python("""
import ctypes
from helpers.rtc import Program
program = Program('''
extern "C" __global__ void fails(int* p) {
  __syncthreads(); if (threadIdx.x == 40) __trap(); __syncthreads(); p[0] = 1;
}
extern "C" __global__ void works(int* p) { __shared__ int s[64]; s[threadIdx.x] = 1; __syncthreads();
  p[threadIdx.x] = s[63 - threadIdx.x]; }
''')
print(program.launch("fails", 5, 64, np.zeros(64, np.int32)).name)
hip.hipDeviceReset()
values = np.zeros(64, np.int32)
again = Program('''extern "C" __global__ void works(int* p) { __shared__ int s[64]; s[threadIdx.x] = 1; __syncthreads();
  p[threadIdx.x] = s[63 - threadIdx.x]; }''')
again.run("works", 1, 64, values)
print(values.sum())
""")
    assert out.split() == ["hipErrorLaunchFailure", "64"]


def test_no_address_space_for_stacks(python, sanitized):
    """The launch fails, and works once there is room."""
    if sanitized:
        pytest.skip("the sanitizer itself ends where address space ends")
    out = python("""
import resource
from helpers.rtc import Program
source = 'extern "C" __global__ void k(int* p) { __syncthreads(); p[blockIdx.x * 256 + threadIdx.x] = 1; }'
program = Program(source)
values = np.zeros(512, np.int32)
program.run("k", 1, 1, values)  # the device's own threads are there
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))
print(program.launch("k", 2, 256, values).name)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
hip.hipDeviceReset()
Program(source).run("k", 2, 256, values)
print(values.sum())
""")
    assert out.split() == ["hipErrorLaunchOutOfResources", "512"]


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_any_number_of_cores_gives_the_same(python, threads):
    out = python(
        """
from helpers.rtc import Program
program = Program('''
extern "C" __global__ void k(unsigned* out) {
  __shared__ unsigned s[64];
  s[threadIdx.x] = blockIdx.x * 64 + threadIdx.x;
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x] * 2654435761u;
}''')
values = np.zeros(64 * 500, np.uint32)
for _ in range(20):
    values[:] = 0
    program.run("k", 500, 64, values)
    expected = (np.arange(64 * 500, dtype=np.uint32).reshape(500, 64)[:, ::-1].ravel() * np.uint32(2654435761))
    assert (values == expected).all()
print("same")
""",
        HIPRT_CPU_THREADS=threads,
    )
    assert out.split() == ["same"]


def test_a_cooperative_spin_lock_between_blocks():
    source = """
extern "C" __global__ void k(int* lock, int* sum) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile int*)sum = *(volatile int*)sum + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}"""
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    Program(source).run("k", 1000, 32, lock, total)
    assert total[0] == 1000


def test_status_of_a_good_launch():
    assert Program('extern "C" __global__ void k() {}').launch("k", 1, 1) == E.hipSuccess


@pytest.mark.parametrize("clock", ["wall_clock64", "clock64", "clock"])
@pytest.mark.parametrize("threads", [3, 100])
def test_threads_that_wait_for_the_clock_wait_together(clock, threads):
    source = """
extern "C" __global__ void wait(long long* first, long long* last) {
  long long begin = CLOCK(), now = begin;
  while (now - begin < 20000000) now = CLOCK();
  first[threadIdx.x] = begin;
  last[threadIdx.x] = now;
}"""
    first, last = np.zeros(threads, np.int64), np.zeros(threads, np.int64)
    Program(source, options=[f"-DCLOCK={clock}"]).run("wait", 1, threads, first, last)
    assert first.max() < last.min()


def test_reading_the_clock_lets_other_threads_set_what_is_awaited():
    source = """
extern "C" __global__ void pass_on(int* turn) {
  volatile int* shared = turn;
  while (*shared != blockDim.x - 1 - threadIdx.x) clock64();
  *shared = *shared + 1;
}"""
    turn = np.zeros(1, np.int32)
    Program(source).run("pass_on", 1, 100, turn)
    assert turn[0] == 100


@pytest.mark.parametrize("threads", [1, 40])
def test_blocks_that_wait_for_the_clock_take_turns(threads):
    """The last block goes first, whatever number of cores there is, and shared memory is each block's own."""
    source = """
extern "C" __global__ void pass_on(int* turn) {
  __shared__ int own;
  if (threadIdx.x == 0) own = gridDim.x - 1 - blockIdx.x;
  __syncthreads();
  volatile int* shared = turn;
  while (*shared != own) wall_clock64();
  __syncthreads();
  if (threadIdx.x == 0) *shared = *shared + 1;
}"""
    turn = np.zeros(1, np.int32)
    Program(source).run("pass_on", 100, threads, turn)
    assert turn[0] == 100
