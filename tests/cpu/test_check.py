"""HIPRT_CPU_CHECK: planted defects are found, and correct kernels are left alone."""

import json
from collections import defaultdict

import pytest
from cpu.checked_kernels import CORRECT, DEFECTS, HEAD

# A quarter of them runs by default, all with --all.
QUARTER = 4

RUN = """
import json, os, sys
import numpy as np
from rocm.bindings.util import paths
paths.get_library_path = lambda *_, **__: os.fsencode(sys.argv[1])
from rocm.bindings import hip
from helpers.hip_calls import KIND, ok
from helpers.rtc import Program

source, launches = json.load(open(sys.argv[2]))
program = Program(source, name="checked.hip")
for name, grid, block in launches:
    x, y, c = ok(hip.hipMalloc(2048)), ok(hip.hipMalloc(2048)), ok(hip.hipMalloc(256))
    ok(hip.hipMemcpy(x, np.arange(512, dtype=np.int32), 2048, KIND.hipMemcpyHostToDevice))
    ok(hip.hipMemset(c, 0, 256))
    values = [np.array([int(p)], np.uint64) for p in (x, y, c)] + [np.array([grid * block], np.int32)]
    cells = np.array([v.ctypes.data for v in values], np.uint64)
    ok(hip.hipModuleLaunchKernel(program.function(name), grid, 1, 1, block, 1, 1, 256, None, cells, None))
    print(name, hip.hipDeviceSynchronize()[0].name)
    for p in (x, y, c):
        hip.hipFree(p)
"""


@pytest.fixture
def findings(check, tmp_path):
    """Compile kernels as one program and run each; return its findings by kernel, and where each kernel begins."""

    def run(kernels, **settings):
        source, starts = HEAD, {}
        for name, (*_, body) in kernels.items():
            starts[name] = source.count("\n") + 1
            source += "KERNEL(" + name + ") {\n" + body.replace("; ", ";\n") + "\n}\n"
        path = tmp_path / "program.json"
        path.write_text(json.dumps([source, [(name, kernel[-3], kernel[-2]) for name, kernel in kernels.items()]]))
        found = defaultdict(list)
        for finding in check(RUN, path, **settings):
            found[finding["involved"][0]["kernel"]].append(finding)
        return found, starts

    return run


def every_fourth(kernels, all_of_them):
    return dict(list(kernels.items())[:: 1 if all_of_them else QUARTER])


def test_planted_defects_are_found(findings, pytestconfig):
    kernels = every_fourth(DEFECTS, pytestconfig.getoption("all"))
    found, starts = findings(kernels)
    assert {name: sorted({f["kind"] for f in found[name]}) for name in kernels} == {
        name: kind.split() for name, (kind, *_) in kernels.items()
    }
    ends = dict(zip(starts, [*list(starts.values())[1:], 10**6], strict=True))
    for name in kernels:
        for involved in (i for finding in found[name] for i in finding["involved"]):
            file, line = involved["line"].split(":")
            inside = starts[name] <= int(line) < ends[name] or int(line) <= HEAD.count("\n")
            assert (file, inside) == ("checked.hip", True), (name, involved)


def test_a_variable_of_shared_memory_is_named(findings):
    found, _ = findings({name: DEFECTS[name] for name in ("from_one_array_into_the_next", "no_barrier_before_reuse")})
    beyond, race = found["from_one_array_into_the_next"][0], found["no_barrier_before_reuse"][0]
    assert beyond["buffer"] == "byte 256 of shared variable 'from_one_array_into_the_next::s' of 256 bytes"
    assert "of shared variable 'no_barrier_before_reuse::s' of 256 bytes" in race["buffer"]


def test_there_are_sixty_of_each():
    assert min(len(DEFECTS), len(CORRECT)) >= 60


def test_correct_kernels_are_left_alone(findings, pytestconfig):
    kernels = every_fourth(CORRECT, pytestconfig.getoption("all"))
    assert not findings(kernels)[0]


HOST = """
import os, sys
import numpy as np
from rocm.bindings.util import paths
paths.get_library_path = lambda *_, **__: os.fsencode(sys.argv[1])
from rocm.bindings import hip
from helpers.hip_calls import KIND, Gate, Ints, KernelCall, add_copy, add_fill
from helpers.hip_calls import functions, instantiate, new_graph, ok, run

DEVICE = KIND.hipMemcpyDeviceToDevice

def stream():
    return ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))

def event(on):
    made = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(made, on))
    return made

def add(y, x, on, n=64):
    call, handle = KernelCall("scale_add", y, x, 2, 1, n), functions()["scale_add"]
    ok(hip.hipModuleLaunchKernel(handle, 1, 1, 1, 64, 1, 1, 0, on, call.pointers, None))

def launch(*nodes):
    graph, made = new_graph(), []
    for after, call in nodes:
        made.append(call(graph, [made[i] for i in after]))
    run(instantiate(graph))

def kernel(y, x):
    return lambda graph, deps: KernelCall("scale_add", y, x, 2, 1, 64).add(graph, deps)

def copy(y, x):
    return lambda graph, deps: add_copy(graph, deps, y, x)

def fill(x):
    return lambda graph, deps: add_fill(graph, deps, x, 3)

a, b, c = Ints(64), Ints(64), Ints(64)
one, two = stream(), stream()
"""

# What each says of the last line is the kinds of its findings, and the works that they are about.
RACES_OF_WORKS = {
    "add(b, a, one); add(c, b, two)": "scale_add",
    "add(b, a, one); add(b, c, two)": "scale_add",
    "add(b, a, one); ok(hip.hipMemsetD32Async(b.memory, 1, 64, two))": "a fill",
    "ok(hip.hipMemcpyAsync(int(b), int(a), 256, DEVICE, one)); add(c, b, two)": "scale_add",
    "e = event(one); add(b, a, one); ok(hip.hipStreamWaitEvent(two, e, 0)); add(c, b, two)": "scale_add",
    "launch(((), kernel(b, a)), ((), kernel(c, b)))": "scale_add",
    "launch(((), fill(a)), ((), copy(b, a)))": "a copy",
    "launch(((), fill(a)), ((0,), copy(b, a)), ((0,), kernel(b, c)))": "scale_add",
}
ORDERED_WORKS = (
    "add(b, a, one); add(c, b, one)",
    "add(b, a, one); ok(hip.hipStreamWaitEvent(two, event(one), 0)); add(c, b, two)",
    "add(b, a, one); ok(hip.hipStreamSynchronize(one)); add(c, b, two)",
    "add(b, a, one); ok(hip.hipDeviceSynchronize()); ok(hip.hipDeviceSynchronize()); add(c, b, two)",
    "add(b, a, one); ok(hip.hipEventSynchronize(event(one))); add(c, b, two)",
    "add(b, a, None); s = ok(hip.hipStreamCreate()); add(c, b, s); add(a, c, None)",
    "add(b, a, one); add(c, a, two)",
    "launch(((), kernel(b, a)), ((0,), kernel(c, b)), ((0,), copy(a, b)))",
    "launch(((), fill(a)), ((0,), fill(b)), ((1,), copy(c, a)))",
    "launch(((), fill(a))); launch(((), copy(c, a)))",
)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("works", RACES_OF_WORKS)
def test_works_that_nothing_orders(check, works, seed):
    found = check(HOST + works + "\nok(hip.hipDeviceSynchronize())", kinds="race", HIPRT_CPU_SEED=str(seed))
    assert {f["kind"] for f in found} == {"race"}
    names = {i["kernel"] for f in found for i in f["involved"]}
    assert RACES_OF_WORKS[works] in names


def test_works_in_order_are_left_alone(check):
    code = "".join(f"\n{works}\nok(hip.hipDeviceSynchronize())" for works in ORDERED_WORKS)
    assert check(HOST + code) == []


def test_freed_memory_is_told_of_with_both_stacks(check):
    code = "ok(hip.hipFree(b.memory)); add(b, a, None); hip.hipDeviceSynchronize()"
    found = check(HOST + code, kinds="memory")
    assert [f["text"] for f in found] == ["freed memory is touched"]
    assert [stack.split()[0] for stack in found[0]["stacks"]] == ["taken", "given"]


# Memory of a pool that the stream takes and gives back while its works wait.
POOLED = """
def take():
    pooled = Ints(64)
    pooled.memory = ok(hip.hipMallocAsync(256, one))
    return pooled

def give_back(pooled):
    ok(hip.hipFreeAsync(pooled.memory, one))

gate = Gate()
p = take()
add(p, a, one)
ok(hip.hipStreamSynchronize(one))
gate.hold(one)
"""
LATER = "\ngate.open()\nok(hip.hipDeviceSynchronize())"


def test_memory_of_a_pool_is_the_programs_until_its_stream_frees_it(check):
    """The works of a stream that waits run after the host has freed their memory and taken it again."""
    code = """
add(b, p, one)
give_back(p)
q = take()
add(q, a, one)
add(b, q, one)
give_back(q)
"""
    assert check(HOST + POOLED + code + LATER) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("give_back(p); add(b, p, one)", "memory"),
        ("add(p, a, one); give_back(p); q = take(); add(b, q, one)", "init"),
    ],
)
def test_memory_of_a_pool_is_not_used_when_it_is_freed_or_new(check, code, kind):
    (finding,) = check(HOST + POOLED + code + LATER)
    assert (finding["kind"], finding["involved"][0]["kernel"]) == (kind, "scale_add")
    words = ["taken", "given"] if kind == "memory" else ["taken"]
    assert [stack.split()[0] for stack in finding["stacks"]] == words


def test_modules_may_lie_where_memory_was_freed(check):
    """Their files are mapped into the place that the memory leaves, and calls of functions read there."""
    source = """
extern "C" __global__ void look(int *x) { x[threadIdx.x] = int(acosf(0.5f * (x[threadIdx.x] & 1))); }
"""
    code = f"""
from helpers.rtc import Program
first, modules = Program({source!r}, name="look.hip"), []
for size in [1 << 26] + [4096] * 300:  # the device gives the large piece back once it has held back many others
    ok(hip.hipFree(ok(hip.hipMalloc(size))))
value = np.array([int(a.memory)], np.uint64)
for _ in range(100):  # the first ones take gaps that were there before
    modules.append(ok(hip.hipModuleLoadData(first.built.code)))
    look = ok(hip.hipModuleGetFunction(modules[-1], b"look"))
    ok(hip.hipModuleLaunchKernel(look, 1, 1, 1, 64, 1, 1, 0, None, np.array([value.ctypes.data], np.uint64), None))
ok(hip.hipDeviceSynchronize())
"""
    assert check(HOST + code) == []


def test_what_was_never_written_stays_so_when_it_is_copied(check):
    code = """
fresh, copied = Ints(64), Ints(64)
fresh.memory, copied.memory = ok(hip.hipMalloc(256)), ok(hip.hipMalloc(256))
ok(hip.hipMemcpy(copied.memory, fresh.memory, 256, DEVICE))
add(a, copied, None)
ok(hip.hipMemset(copied.memory, 0, 256))
add(b, copied, None)
ok(hip.hipDeviceSynchronize())
"""
    found = check(HOST + code)
    assert [(f["kind"], f["involved"][0]["kernel"]) for f in found] == [("init", "scale_add")]


def test_findings_are_suppressed_by_kind_and_text(check, tmp_path):
    code, path = HOST + "add(b, a, one); add(c, b, two); ok(hip.hipDeviceSynchronize())", tmp_path / "suppressions"
    for text, count in (("race:scale_add\n", 0), ("*:hip_calls.hip\n", 0), ("init:scale_add\n", 1), ("# none\n", 1)):
        path.write_text(text)
        assert len(check(code, kinds="race", HIPRT_CPU_CHECK_SUPPRESS=str(path))) == count


def test_only_the_kinds_that_are_named_are_looked_for(check):
    code = HOST + "add(b, a, one); add(c, b, two); ok(hip.hipDeviceSynchronize())"
    assert check(code, kinds="memory,init,barrier") == []


def test_a_wrong_kind_is_told_of(python):
    text = python("os.dup2(1, 2)\nok(hip.hipGetDeviceCount())", HIPRT_CPU_CHECK="races")
    assert "'races' is none of memory, race, init, barrier and all" in text


LARGE = """
#define I int(blockIdx.x * blockDim.x + threadIdx.x)
#define KERNEL(name) extern "C" __global__ void name(int *x, int *y, int n)
KERNEL(add) { if (I < n) y[I] = x[I] + 1; }
KERNEL(one_beyond) { if (I <= n) y[I] = x[I < n ? I : 0]; }
KERNEL(one_never_written) { if (I < n) y[I] = x[I]; }
KERNEL(write_all) { if (I < n) y[I] = 1; }
KERNEL(write_too) { if (I < n) y[I] = 2; }
KERNEL(read_all) { if (I < n && x[I] == 12345) y[I] = 3; }
KERNEL(write_pairs) { if (I < n / 2) ((int2 *)y)[I] = int2{4, 5}; }
KERNEL(write_fours) { if (I < n / 4) ((int4 *)y)[I] = int4{4, 5, 6, 7}; }
KERNEL(write_every_other) { if (I < n && I % 2) y[I] = 6; }
KERNEL(read_neighbour) { if (I < n) { y[I] = 7; if (threadIdx.x) x[I] = y[I - 1]; } }
KERNEL(write_next) { if (I < n) { y[I] = 7; if (I + 40 < n && threadIdx.x == 9) y[I + 40] = 8; } }
KERNEL(bytes_within) { if (I < n) { y[I] = 7; if (threadIdx.x == 9) ((char *)y)[4 * I + 4 * 40] = 8; } }
KERNEL(atomic_within) { if (I < n) { y[I] = 7; if (threadIdx.x == 9) atomicAdd(&y[I + 40], 8); } }
"""

# Each works on 16,384 numbers, 64 blocks of 256 threads in rows that follow each other.
ROWS = f"""
from helpers.rtc import Program
N, source = 1 << 14, {LARGE!r}
program = Program(source, name="rows.hip")
x, y, z = (ok(hip.hipMalloc(4 * N)) for _ in range(3))

def go(name, x, y, on=None, n=N):
    values = [np.array([int(x)], np.uint64), np.array([int(y)], np.uint64), np.array([n], np.int32)]
    cells = np.array([v.ctypes.data for v in values], np.uint64)
    ok(hip.hipModuleLaunchKernel(program.function(name), N // 256 + 1, 1, 1, 256, 1, 1, 0, on, cells, None))

def renew(*memory):
    ok(hip.hipDeviceSynchronize())
    for each in memory:
        ok(hip.hipMemset(each, 0, 4 * N))
    ok(hip.hipDeviceSynchronize())

def part(memory, number):
    return int(memory) + 4 * number
renew(x, y, z)
"""


def rows(check, code):
    """Run launches over long rows; return each finding's kind and the kernel, block and thread of its accesses."""
    found = check(HOST + ROWS + code + "\nok(hip.hipDeviceSynchronize())")
    return [(f["kind"], {(i["kernel"], i["block"][0], i["thread"][0]) for i in f["involved"]}) for f in found]


def test_rows_of_threads_that_are_right_are_left_alone(check):
    """What was noted for a row of threads at once is looked at word by word, and by copies and fills, later."""
    code = """
for name in ("add", "write_all", "write_pairs", "write_fours", "add", "write_every_other", "read_all", "add"):
    go(name, x, y)
    ok(hip.hipMemcpy(z, y, 4 * N, DEVICE))
    go("add", z, x)
go("write_every_other", x, y, n=N - 3)
go("add", part(y, 5), part(x, 5), n=N - 5)
go("add", x, z, n=N - 7)
go("one_beyond", x, y, n=N - 56)
ok(hip.hipMemcpy(part(y, 3), part(z, 9), 4 * N - 64, DEVICE))
ok(hip.hipMemcpy(np.empty(N, np.int32), y, 4 * N, KIND.hipMemcpyDeviceToHost))
"""
    assert rows(check, code) == []


# Steps, each in memory that was filled anew, and what is found then.
DEFECTS_IN_ROWS = [
    ("go('one_beyond', x, y)", "memory", {("one_beyond", 64, 0)}),
    (
        """
w = ok(hip.hipMalloc(4 * N))
ok(hip.hipMemset(w, 0, 2800))
ok(hip.hipMemset(part(w, 701), 0, 4 * N - 2804))
go('one_never_written', w, y)
""",
        "init",
        {("one_never_written", 2, 188)},
    ),
    (
        "go('write_all', x, y, one); go('write_too', x, part(y, 1000), two, n=1)",
        "race",
        {("write_too", 0, 0), ("write_all", 3, 232)},
    ),
    (
        "go('read_all', y, x, one); go('write_too', x, part(y, 2001), two, n=1)",
        "race",
        {("write_too", 0, 0), ("read_all", 7, 209)},
    ),
    (
        "go('write_all', x, y, one); go('read_all', part(y, 4000), x, two, n=1)",
        "race",
        {("read_all", 0, 0), ("write_all", 15, 160)},
    ),
    (
        "go('write_pairs', x, y, one); go('write_too', x, part(y, 1001), two, n=1)",
        "race",
        {("write_too", 0, 0), ("write_pairs", 1, 244)},
    ),
    (
        "go('write_fours', x, y, one); go('write_too', x, part(y, 5003), two, n=1)",
        "race",
        {("write_too", 0, 0), ("write_fours", 4, 226)},
    ),
    (
        "go('write_every_other', x, y, one); go('write_too', x, part(y, 1000), two, n=2)",
        "race",
        {("write_too", 0, 1), ("write_every_other", 3, 233)},
    ),
    ("go('read_neighbour', x, y)", "race", {("read_neighbour", 0, 1), ("read_neighbour", 0, 0)}),
    ("go('write_next', x, y)", "race", {("write_next", 0, 49), ("write_next", 0, 9)}),
    ("go('bytes_within', x, y, n=N - 64)", "race", {("bytes_within", 0, 49), ("bytes_within", 0, 9)}),
    ("go('atomic_within', x, y, n=N - 64)", "race", {("atomic_within", 0, 49), ("atomic_within", 0, 9)}),
]


def test_defects_in_rows_of_threads_are_found(check):
    code = "\nrenew(x, y, z)\n".join(code for code, *_ in DEFECTS_IN_ROWS)
    assert rows(check, code) == [(kind, involved) for _, kind, involved in DEFECTS_IN_ROWS]


def test_pages_that_take_each_others_place_are_told_apart(check):
    """Three pages 512 pages apart: one of them is at hand at a time."""
    source = """
#define KERNEL(name) extern "C" __global__ void name(int *y)
KERNEL(hop) { for (int k = 0; k < 3; ++k) y[threadIdx.x + (k << 19)] += 1; }
KERNEL(trip) {
  for (int k = 0; k < 3; ++k) y[threadIdx.x + (k << 19)] += 1;
  if (threadIdx.x == 40) y[(1 << 19) + 3] = 0;
}
"""
    found = check(f"""{HOST}
from helpers.rtc import Program
program = Program({source!r}, name="pages.hip")
y = ok(hip.hipMalloc(5 << 20))
ok(hip.hipMemset(y, 0, 5 << 20))
values = np.array([int(y)], np.uint64)
for name in ("hop", "hop", "trip"):
    cells = np.array([values.ctypes.data], np.uint64)
    ok(hip.hipModuleLaunchKernel(program.function(name), 1, 1, 1, 64, 1, 1, 0, None, cells, None))
ok(hip.hipDeviceSynchronize())
""")
    involved = [{(i["kernel"], i["thread"][0]) for i in f["involved"]} for f in found]
    assert ([f["kind"] for f in found], involved) == (["race"], [{("trip", 40), ("trip", 3)}])
