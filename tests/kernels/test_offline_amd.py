"""Every kernel compiles for AMD GPUs without one: resources, argument blocks and declarations in the machine code."""

import json
import re
import struct
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest

import hiprt
from hiprt import core, library
from hiprt.bench.isa.cases import cases
from hiprt.bench.isa.kernels import launch_of, measured
from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import KERNELS, Kernel
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program
from hiprt.kernels.offline.amd_targets import MACHINES
from hiprt.kernels.offline.builder import backend_of, build, units
from hiprt.kernels.offline.catalogue import instances
from hiprt.kernels.offline.code_object import CodeObject
from hiprt.kernels.offline.report import Report
from hiprt.kernels.offline.resources import resources_of, text_of
from hiprt.kernels.tuning.target import force_generic
from hiprt.module import READ, WRITE

TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201")
COMMAND = f"hiprt compile --target {','.join(TARGETS)} --report > kernels/offline/amd_report.txt"
# The first test that takes the programs waits until all are compiled: six minutes of two processors to themselves.
pytestmark = pytest.mark.timeout(2400)
ALIKE = {"gfx1200": "gfx1201"}  # whose machine code differs in the name of its target
WIDE = {"add", "quantized_matmul", "rms_norm", "silu_mul"}


def one_of_each(items, key):
    """Return one item of each key: of the first key its first item, of the second its second, and so on."""
    groups = {}
    for each in items:
        groups.setdefault(key(each), []).append(each)
    return [group[i % len(group)] for i, group in enumerate(groups.values())]


@pytest.fixture(scope="module")
def work(form, part):
    """Every program for every target in the long form.

    In the usual form a target with the machine code of another has one of each kernel, and a share has some of the
    targets of each program, one at least where there are as many shares as targets; in the short form all targets
    together have one of each, of one dtype.
    """
    programs = units([])
    some = one_of_each(programs, lambda unit: unit.instance.kernel.name)
    if form == "short":
        return [(unit, TARGETS[i % len(TARGETS)]) for i, unit in enumerate(some)]
    own = [target for target in TARGETS if form == "long" or target not in ALIKE]
    turns = [part([*own[i:], *own[:i]]) for i in range(len(own))]
    pairs = [(unit, on) for i, unit in enumerate(programs) for on in turns[i % len(own)]]
    return pairs + [(unit, on) for on in TARGETS if on not in own for unit in part(some)]


@pytest.fixture(scope="module")
def products(work):
    """What becomes of the programs."""
    for target in TARGETS:
        backend_of(target).open(target)
    return list(build(work))


@pytest.fixture(scope="module")
def report(products):
    """The report of them."""
    return Report(Compiler().version, [row for product in products for row in product.resources])


@pytest.fixture(scope="module")
def committed(root, work):
    """The report that is part of the project: the rows of what is compiled here."""
    text = (root / "kernels" / "offline" / "amd_report.txt").read_text()
    whole = Report.parse(text)
    assert str(whole) == text
    for alike, other in ALIKE.items():
        rows = [[replace(row, target="") for row in whole.rows if row.target == on] for on in (alike, other)]
        assert rows[0] == rows[1]
    compiled = {(unit.name, target) for unit, target in work}
    return Report(whole.compiler, [row for row in whole.rows if (row.kernel, row.target) in compiled])


def test_the_catalogue_has_every_kernel():
    assert {i.kernel.name for i in instances(dialect="metal")} == {path.stem for path in OPS.rglob("*.metal")}
    assert KERNELS.keys() == {i.kernel.name for i in instances()}
    symbols = [instance.symbol for instance in instances()]
    assert len(set(symbols)) == len(symbols)


@pytest.mark.wide(turn=5)
def test_every_instance_of_the_device_is_compiled():
    """Every branch of plain loops; the test below compiles every one for lanes, as GPUs have them."""
    command = [sys.executable, "-m", "hiprt", "compile", "--json"]
    out = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert out["programs"] == len(instances(is_loops=library.current().provider.takes_loops))


@pytest.mark.wide
def test_ops_launch_what_the_catalogue_has(stream, part):
    """The small calls that are executed as machine code: together every instance, and right on the device in use."""
    launched, names, every = set(), set(), list(cases())
    for case in part(every):
        launch, result = launch_of(case)
        if launch.kernel.name in KERNELS:  # else it is of NVIDIA's own
            launched.add(launch.kernel.symbol(launch.template))
            names.add(launch.kernel.name)
        got = result.numpy()
        row = measured("", case, "", got, got)
        assert row.is_right, (launch.kernel.name, case.name, row.error)
    assert names <= KERNELS.keys()
    assert launched <= {instance.symbol for instance in instances()}
    if part(every) == every:
        assert names == KERNELS.keys()
        assert launched == {instance.symbol for instance in instances()}


def test_every_kernel_is_compiled_for_every_target(report, work, form):
    expected = {(unit.instance.symbol, target) for unit, target in work}
    assert {unit.instance.kernel.name for unit, _ in work} == KERNELS.keys()
    assert form == "short" or {symbol for symbol, _ in expected} == {instance.symbol for instance in instances()}
    assert {target for _, target in expected} == set(TARGETS)
    assert {(row.kernel, row.target) for row in report.rows} == expected


def test_nothing_spills(report):
    assert not [(row.kernel, row.target) for row in report.rows if row.spills]


def test_packed_kernels_load_128_bits(report):
    packed = {i.symbol for i in instances() if i.kernel.name in WIDE and i.template[-1] != 1}
    assert packed
    assert not [(row.kernel, row.target) for row in report.rows if row.kernel in packed and not row.wide_loads]


def test_report_is_no_worse_than_the_committed_one(report, committed):
    """A new spill, or a wide load, dot or matrix instruction that is gone, fails with kernel and target."""
    worse = report.regressions(committed)
    assert not worse, "\n".join(worse)


@pytest.mark.soak
def test_the_committed_report_is_current(report, committed):
    """So that what became better is held from then on; other compilers use other registers."""
    if committed.compiler == report.compiler:
        changed = f"the kernels changed: look at the difference and commit what `{COMMAND}` writes"
        assert str(committed) == str(report), changed


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_argument_blocks_fit_the_machine_code(kernel, work, products, stream):
    """What a launch packs lies where the code object of every target reads it."""
    every = [*instances(is_loops=True), *instances()]  # a kernel in HIP has no branch of plain loops
    template = next(instance.template for instance in every if instance.kernel is kernel)
    with force_generic() if kernel.source else nullcontext():
        function = kernel.bind(template)
    values, formats = [], []
    for i, argument in enumerate(function.arguments):
        formats.append("<" + argument.format)
        values.append(hiprt.empty(4) if argument.access else 1.5 + i if argument.format == "f" else 1000 + i)
    block = recorded_block(function, values, stream)
    numbers = [value.address if argument.access else value for value, argument in zip(values, function.arguments)]
    checked = set()
    for product in products:
        if product.unit.instance.kernel is not kernel:
            continue
        (metadata,) = CodeObject(product.files[".co"]).kernels
        declared = [one for one in metadata.arguments if not one.kind.startswith("hidden_")]
        assert [one.size for one in declared] == [argument.size for argument in function.arguments]
        assert [one.kind == "global_buffer" for one in declared] == [bool(a.access) for a in function.arguments]
        found = [struct.unpack_from(form, block, one.offset)[0] for form, one in zip(formats, declared)]
        assert found == numbers, (product.unit.name, product.target)
        checked.add(product.target)
    assert checked == {target for unit, target in work if unit.instance.kernel is kernel} != set()


def recorded_block(function, values, stream):
    """The argument block that the C core records for a launch."""
    recorder = core.create("hiprt_recorder", core.lib.hiprt_recorder_release, core.lib.hiprt_recorder_create, 1)
    core.call(core.lib.hiprt_recorder_start(recorder, stream.core, False))
    try:
        function(stream, (1, 1, 1), (1, 1, 1), *values)
        node = core.ffi.new("hiprt_node *")
        core.call(core.lib.hiprt_recorder_node(recorder, 0, node))
        return bytes(core.ffi.buffer(node.payload, node.payload_size))[32:]  # behind grid, block and shared memory
    finally:
        core.lib.hiprt_stream_stop(stream.core)


ACCESS = {READ: "read_only", WRITE: "write_only"}


def asks_for_sizes(kernel):
    """Whether a kernel's text reads how many threads a threadgroup has, because launches differ in that."""
    asking = {name for name, attribute in ATTRIBUTES.items() if "{threads}" in attribute.whole}
    return kernel.is_varied and not asking.isdisjoint(re.findall(r"\w+", kernel.body))


def test_threadgroups_of_one_size_need_no_implicit_arguments(products):
    """A launch lays out what the kernel declares, without the 256 bytes that HIP has behind it."""
    for product in products:
        (made,) = CodeObject(product.files[".co"]).kernels
        ends = [each.offset + each.size for each in made.arguments if not each.kind.startswith("hidden_")]
        is_short = (
            made.numbers["kernarg_segment_size"] == max(ends) == made.arguments[-1].offset + made.arguments[-1].size
        )
        assert is_short or asks_for_sizes(product.unit.instance.kernel), made.name


@pytest.mark.parametrize("target", ["gfx942", "gfx1151", "gfx1201"])
def test_near_lanes_do_not_go_by_way_of_lds(target):
    """Of the five steps of a sum, and of unrolled exchanges, only CDNA's between rows of 16 need it."""
    kernel = Kernel(
        "near",
        updates={"x": "float"},
        threads=32,
        source="""
uint lane = thread_index_in_simdgroup;
float v = simd_max(simd_sum(x[lane]));
for (uint by = 1; by < 32; by *= 2) v -= simd_shuffle_xor(v, by);
x[lane] = v;
""",
    )
    text = text_of(Compiler().assembly(kernel.text("hip", ()), "near", target), "near")
    assert text.count("ds_swizzle_b32") == (3 if target == "gfx942" else 0)
    assert text.count("v_permlanex16_b32") == (0 if target == "gfx942" else 3)
    assert "ds_bpermute" not in text


def test_declarations_hold_in_the_machine_code(products):
    """A buffer declared as read is only read, one declared as written only written: edges and liveness rest on it.

    The compiler knows it of kernels whose buffers do not alias.
    """
    checked = set()
    for product in products:
        kernel = product.unit.instance.kernel
        if kernel.aliasing:
            continue
        (metadata,) = CodeObject(product.files[".co"]).kernels
        for (name, _, access), argument in zip(kernel.declaration, metadata.arguments):
            if access in ACCESS:
                assert argument.access == ACCESS[access], (product.unit.name, product.target, name)
                checked.add((kernel.name, access))
    apart = [kernel for kernel in KERNELS.values() if not kernel.aliasing]
    reading = {k.name for k in apart if READ in [access for _, _, access in k.declaration]}
    assert checked >= {(name, READ) for name in reading}
    assert {name for name, access in checked if access == WRITE} > {"attention", "quantized_matmul"}


SYNTHETIC = """
extern "C" __global__ void __launch_bounds__({threads}) k(const float* x, float* y) {{
  __shared__ float shared[{lds} / 4];
  float held[{held}];
  for (int i = 0; i < {held}; i++) held[i] = x[threadIdx.x + i * 1024];
  for (int i = 0; i < {lds} / 4; i += {threads}) shared[i + threadIdx.x] = held[0];
  __syncthreads();
  for (int i = 0; i < {held}; i++) y[threadIdx.x + i * 1024] = held[i] + held[{held} - 1 - i] * shared[i];
}}
"""


@pytest.mark.singles
@pytest.mark.parametrize("target", sorted(MACHINES))
@pytest.mark.parametrize(
    ("threads", "lds", "held"), [(64, 4096, 8), (256, 4096, 96), (1024, 40960, 8), (256, 20480, 40)]
)
def test_occupancy_is_what_llvm_computes(target, threads, lds, held):
    compiler = Compiler()
    text = hip_program(SYNTHETIC.format(threads=threads, lds=lds, held=held), "k.hip")
    assembly = compiler.assembly(text, "k", target)
    (row,) = resources_of(assembly, compiler.code_object(assembly, "k", target))
    assert f"; Occupancy: {row.waves}\n" in assembly, row
