"""Choices: what is timed, what is kept, and that bits and plans hold where nothing is."""

import itertools
import json
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

import hiprt
from hiprt import core, graphs, kernels
from hiprt.__main__ import main
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import load
from hiprt.bench.isa.kernels import recorded
from hiprt.bench.story import CHECKPOINT
from hiprt.bench.tune import why_nothing
from hiprt.errors import HipError
from hiprt.hip import call, lib
from hiprt.kernels.ops.attention.grouped_heads import GroupedHeads
from hiprt.kernels.ops.experts import experts as experts_module
from hiprt.kernels.ops.quantized import qmv_ways
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import quantize
from hiprt.kernels.tuning import choices, target as targets
from hiprt.kernels.tuning.blocks import Blocks
from hiprt.kernels.tuning.choices import timed_choices
from hiprt.kernels.tuning.dots import Dots
from hiprt.kernels.tuning.sharing import Sharing, sharing_of
from hiprt.kernels.tuning.target import force_generic, make_target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.provider import NVIDIA, ROCM

# The package has a function of this name.
prefill_module = import_module("hiprt.kernels.ops.attention.prefill_attention")
GATE = Product(1024, 1024, 1, 64, 4, False)
pytestmark = pytest.mark.only("cpu", reason="a device whose shapes were measured makes no choices")


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Return a block in which kernels run as on GPUs, in a process that has chosen nothing yet; all share a cache."""

    @contextmanager
    def begin(**values):
        monkeypatch.setattr(targets, "generic", {})
        with hiprt.flags.override(**{"tune": "1", **values}), force_generic():
            monkeypatch.setattr(choices.Choices, "file", tmp_path / "choices.json")
            yield

    return begin


@pytest.fixture
def timed(monkeypatch):
    """Let each launch that is timed take what the list says; return the list."""
    times = []
    monkeypatch.setattr(choices, "launch_us", lambda stream, launch, sets: times.pop(0))
    return times


@pytest.fixture(scope="module")
def operands():
    """A vector, and a matrix of 40 rows whose codes are a wave's three turns long."""
    draw = np.random.default_rng(0)
    codes = draw.integers(0, 1 << 32, (40, 3072 // 8), np.uint32)
    scales, biases = (draw.uniform(-0.01, 0.01, (40, 3072 // 64)).astype(np.float32) for _ in range(2))
    x = draw.standard_normal((1, 3072), np.float32)
    return x, codes, scales, biases


def multiplied(operands, **options):
    return kernels.qmv(*map(hiprt.array, operands), **options)


def made():
    """What the process has chosen, by the first word of its names."""
    return {name.split()[0]: choice for name, choice in target_of(hiprt.current_stream()).choices.made.items()}


def test_the_fastest_way_is_taken_and_kept(process, timed, operands):
    """Of three rounds the least time counts; the next process takes the same way without timing."""
    exact = reference.qmv(operands[0], operands[1:], 64, 4)
    with process(), timed_choices(60):
        timed += [10.0, 8.0, 12.0, 9.0] * 2 + [10.0, 9.0, 5.0, 9.0]
        first = multiplied(operands).numpy()
        chosen = made()["qmv"]
        assert chosen.ways[0] == str(Sharing(4, 1))
        assert (chosen.us, chosen.taken, chosen.reason) == ((10.0, 8.0, 5.0, 9.0), 2, "timed")
        assert np.abs(first - exact).max() < 1e-3
    with process():
        assert (multiplied(operands).numpy() == first).all()
        assert made()["qmv"] == chosen._replace(reason="kept")
        assert multiplied(operands, norm=hiprt.array(operands[0][0])).shape == (1, 40)  # it has a name of its own
        assert len(target_of(hiprt.current_stream()).choices.made) == 2


def test_another_way_must_be_faster_than_noise(process, timed, operands):
    with process(), timed_choices(60):
        timed += [10.0, 9.9, 9.8, 11.0] * 3
        multiplied(operands)
        assert made()["qmv"].taken == 0


def test_launches_are_timed_on_the_device(process, operands):
    """Really timed, for products and both ops of attention; a graph has the bits of eager launches."""
    draw = np.random.default_rng(1)
    q, rows = (hiprt.array(draw.standard_normal(shape).astype(np.float32)) for shape in ((1, 4, 32), (1, 8 * 32)))
    keys, values = (hiprt.array(draw.standard_normal((1, 2, 320, 32)).astype(np.float32)) for _ in range(2))
    position = hiprt.array(np.array([300], np.int32))
    given = list(map(hiprt.array, operands))

    def token():
        mixed = kernels.norm_rope_attention(
            rows, None, None, position, keys, values, heads=4, base=1e4, eps=1e-6, scale=0.2
        )
        return kernels.qmv(*given), kernels.attention(q, keys, values, position, scale=0.2), mixed

    with process(tune="0"):
        rules = [array.numpy() for array in token()]
    with process():
        with timed_choices(60):
            token()
        assert {name: choice.reason for name, choice in made().items()} == dict.fromkeys(
            ("qmv", "attention", "norm_rope_attention"), "timed"
        )
        assert all(min(choice.us) > 0 and len(choice.us) == len(choice.ways) > 1 for choice in made().values())
        eager = [array.numpy() for array in token()]
        for rule, array in zip(rules, eager, strict=True):
            assert np.abs(array - rule).max() <= 1e-4 * np.abs(rule).max()
        step = graphs.Step(token, stream=hiprt.current_stream())
        for array, wanted in zip(step(), eager, strict=True):
            assert (array.numpy() == wanted).all()


def test_nothing_is_timed_that_was_not_asked_for(process, timed, operands):
    """Then the rules' way is taken, for as long as the process runs, and nothing is kept."""
    cases = (
        ({}, None, "first used where nothing is timed"),
        ({}, 0.0, "the time was up"),
        ({"tune": "auto"}, 60.0, None),
        ({"tune": "0"}, 60.0, None),
    )
    for values, seconds, reason in cases:
        with process(**values):
            if seconds is None:
                multiplied(operands)
            else:
                with timed_choices(seconds):
                    multiplied(operands)
            assert [each.reason for each in made().values()] == ([] if reason is None else [reason])
            with timed_choices(60):
                multiplied(operands)
            assert [each.taken for each in made().values()] == ([] if reason is None else [0])
            assert not target_of(hiprt.current_stream()).choices.file.exists()


def test_what_a_step_records_is_not_timed(process, timed, operands):
    """Neither by a block within the step, which is an error, nor by one around it."""
    given = list(map(hiprt.array, operands))

    def inside():
        with timed_choices():
            return kernels.qmv(*given)

    with process():
        with pytest.raises(RuntimeError, match="while a step records"):
            graphs.Step(inside, stream=hiprt.current_stream())()
        with timed_choices(60):
            graphs.Step(lambda: kernels.qmv(*given), stream=hiprt.current_stream())()
        assert made()["qmv"].reason == "first used where nothing is timed"


def test_a_captured_stream_is_refused(process):
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        call(lib.hipStreamBeginCapture(stream.handle, lib.hipStreamCaptureModeRelaxed))
        try:
            with pytest.raises(RuntimeError, match="a stream is captured"), timed_choices():
                pass
        finally:
            graph = core.ffi.new("uint64_t *")
            call(lib.hipStreamEndCapture(stream.handle, graph))
            call(lib.hipGraphDestroy(graph[0]))


@pytest.mark.parametrize("error", [HipError(2, "hipErrorOutOfMemory", "hipMallocAsync"), MemoryError("too little")])
def test_a_way_that_fails_leaves_the_rules(process, monkeypatch, operands, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(choices, "launch_us", fail)
    with process(), timed_choices(60):
        multiplied(operands)
        assert (made()["qmv"].taken, made()["qmv"].reason) == (0, f"not timed: {error}")


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: "{",
        lambda kept: "[" * 100_000,
        lambda kept: json.dumps([kept]),
        lambda kept: json.dumps(dict.fromkeys(kept, 7)),
        lambda kept: json.dumps({name: dict(list(us.items())[:-1]) for name, us in kept.items()}),
        lambda kept: json.dumps({name: dict.fromkeys(us, "fast") for name, us in kept.items()}),
        lambda kept: json.dumps({name: dict.fromkeys(us, float("nan")) for name, us in kept.items()}),
    ],
)
def test_a_file_that_does_not_fit_is_timed_anew(process, timed, operands, damage):
    """As where another version of hiprt has other ways."""
    with process(), timed_choices(60):
        timed += [10.0, 8.0, 5.0, 9.0] * 3
        multiplied(operands)
        file = target_of(hiprt.current_stream()).choices.file
    kept = file.read_text()
    file.write_text(damage(json.loads(kept)))
    with process(), timed_choices(60):
        timed += [10.0, 8.0, 5.0, 9.0] * 3
        multiplied(operands)
        assert made()["qmv"].reason == "timed"
    assert json.loads(file.read_text()) == json.loads(kept)


def test_devices_with_a_measured_table_choose_nothing():
    """Plans of NVIDIA's GPUs, of the CPU device's loops and of several vectors have one way."""
    half = np.dtype(np.float16)
    assert make_target("sm_90", 132, 32, NVIDIA).table.is_measured
    assert target_of(hiprt.current_stream()).choices is None
    for on in (make_target("sm_90", 132, 32, NVIDIA), make_target("sm_80", 108, 32, NVIDIA)):
        assert qmv_ways.ways_of(on, half, GATE) == [qmv_ways.chosen(on, half, GATE)]
    amd = make_target("gfx942", 304, 64, ROCM)
    assert not amd.table.is_measured
    (way,) = qmv_ways.ways_of(amd, half, GATE._replace(batch=2))
    assert way.vectors == 2


@pytest.mark.parametrize(("arch", "units", "wave"), [("gfx942", 304, 64), ("gfx1201", 32, 32), ("gfx906", 60, 64)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_ways_of_amd(arch, units, wave, dtype):
    """The rules' way comes first, no way twice, and each makes a launch."""
    on = make_target(arch, units, wave, ROCM)
    for rows, width, is_gated in itertools.product((8, 1024), (64, 4096), (False, True)):
        product = Product(rows, width, 1, 64, 4, is_gated)
        ways = qmv_ways.ways_of(on, np.dtype(dtype), product)
        rule = qmv_ways.chosen(on, np.dtype(dtype), product)
        assert ways[0] == (sharing_of(product, on) if rule is None else rule)
        assert len(set(map(str, ways))) == len(ways) <= qmv_ways.MOST_WAYS
        assert isinstance(rule, Dots) == (dtype is np.float16)
        assert isinstance(ways[-1], Sharing)


def test_the_ways_of_several_vectors():
    """By matrix instructions where there are any, the rules' way first, and by dot instructions, which take eight."""
    half = np.dtype(np.float16)
    for arch, units, wave in (("gfx942", 304, 64), ("gfx1201", 32, 32)):
        on = make_target(arch, units, wave, ROCM)
        for batch in (5, 8, 16):
            product = GATE._replace(batch=batch)
            ways = qmv_ways.ways_of(on, half, product)
            assert ways[0] == qmv_ways.chosen(on, half, product)
            assert 1 < len(set(map(str, ways))) == len(ways) <= qmv_ways.MOST_WAYS
            assert any(isinstance(way, Blocks) and way.split == 1 for way in ways)
            assert [isinstance(way, Dots) for way in ways] == [False] * (len(ways) - (batch <= 8)) + [True] * (
                batch <= 8
            )


def test_several_vectors_are_timed(process, timed, monkeypatch):
    """Each number of them by itself, in its own name."""
    draw = np.random.default_rng(2)
    codes = draw.integers(0, 1 << 32, (32, 16), np.uint32)
    scales = hiprt.array(draw.uniform(-0.01, 0.01, (32, 2)).astype(np.float16))
    with process(), timed_choices(60):
        here = target_of(hiprt.current_stream())
        some = replace(here, features=here.features | {"blocks"})
        monkeypatch.setitem(targets.targets, hiprt.current_device().index, some)
        monkeypatch.setattr(qmv_ways, "MOST_WAYS", 3)
        for batch in (9, 16):
            timed += [10.0, 5.0] * 3
            x = hiprt.array(draw.standard_normal((batch, 128)).astype(np.float16))
            kernels.qmv(x, hiprt.array(codes), scales, scales)
        found = some.choices.made
    assert [(name.split(", ")[1], each.taken) for name, each in found.items()] == [("9 vectors", 1), ("16 vectors", 1)]


def test_experts_are_timed(process, timed, monkeypatch):
    """A token's, both products; what another process chose is kept."""
    draw = np.random.default_rng(3)
    normal = lambda *shape: hiprt.array(draw.standard_normal(shape).astype(np.float16))  # noqa: E731
    opening, closing = (
        (hiprt.array(draw.integers(0, 1 << 32, (4, rows, width // 8), np.uint32)), scales, scales)
        for rows, width, scales in ((64, 128, normal(4, 64, 2)), (128, 64, normal(4, 128, 1)))
    )
    x, y, shares, indices = normal(1, 128), normal(1, 2, 64), normal(1, 2), hiprt.array(np.array([[3, 1]], np.int32))

    def computed():
        here = target_of(hiprt.current_stream())
        some = replace(here, features=here.features | {"dots"})
        monkeypatch.setitem(targets.targets, hiprt.current_device().index, some)
        up = kernels.moe_gate_up(x, indices, *opening)
        return some.choices.made, kernels.moe_down(y, indices, shares, *closing).numpy(), up.numpy()

    with process(), timed_choices(60):
        timed += [10.0, 5.0] * 6
        found, *results = computed()
    assert [(name.split()[0], each.taken, each.reason) for name, each in found.items()] == [
        ("moe_gate_up", 1, "timed"),
        ("moe_down", 1, "timed"),
    ]
    with process():
        found, *again = computed()
    assert {each.reason for each in found.values()} == {"kept"}
    assert all((one == other).all() for one, other in zip(results, again))


def test_experts_of_several_tokens_are_timed(process, timed):
    """Each number of tokens by itself; those of another way differ by rounding at most."""
    draw = np.random.default_rng(5)
    normal = lambda *shape: hiprt.array(draw.standard_normal(shape).astype(np.float16))  # noqa: E731
    opening, closing = (
        (hiprt.array(draw.integers(0, 1 << 32, (4, rows, width // 8), np.uint32)), scales, scales)
        for rows, width, scales in ((64, 128, normal(4, 64, 2)), (128, 64, normal(4, 128, 1)))
    )
    x, y, shares, norm = normal(3, 128), normal(3, 2, 64), normal(3, 2), normal(128)
    indices = hiprt.array(np.array([[3, 1], [0, 2], [2, 3]], np.int32))

    def computed():
        up = kernels.moe_gate_up(x, indices, *opening, norm=norm)
        return up.numpy(), kernels.moe_down(y, indices, shares, *closing).numpy()

    with process(tune="0"):
        rules = computed()
    with process(), timed_choices(60):
        timed += [10.0, 9.0, 5.0, 9.0] * 3 + [10.0, 9.0, 5.0] * 3
        results = computed()
        found = target_of(hiprt.current_stream()).choices.made
        assert [(name.split()[0], name.rsplit(", ")[-1], each.taken) for name, each in found.items()] == [
            ("moe_gate_up", "3 tokens", 2),
            ("moe_down", "3 tokens", 2),
        ]
        step = graphs.Step(lambda: kernels.moe_down(y, indices, shares, *closing))
        assert (step().numpy() == results[1]).all()
    for rule, result in zip(rules, results, strict=True):
        assert np.abs(rule - result).max() <= 2e-3 * np.abs(rule).max()


def test_sorted_products_are_timed(process, timed):
    """The rows of a tile of a stack, for vectors that choose matrices, with as many rows of each."""
    draw = np.random.default_rng(6)
    stored = quantize((draw.standard_normal((4, 40, 128)) / 12).astype(np.float16), 64, 4)
    parts = list(map(hiprt.array, stored))
    x = draw.standard_normal((150, 1, 128)).astype(np.float16)
    indices = np.sort(draw.integers(0, 4, 150)).astype(np.int32)

    def multiplied(rows):
        chosen = hiprt.array(indices[:rows])
        with recorded() as found:
            got = kernels.gather_qmm(hiprt.array(x[:rows]), *parts, None, chosen, sorted_indices=True)
        exact = reference.gather_qmm(x[:rows], reference.dequantize(*stored, 64, 4), None, indices[:rows])
        assert np.abs(got.numpy() - exact).max() < 0.02
        return found[-1].template[-1]  # ROWS

    with process(), timed_choices(60):
        timed += [10.0, 9.0, 5.0] * 3
        assert multiplied(150) == multiplied(130) == 64
        ((name, choice),) = target_of(hiprt.current_stream()).choices.made.items()
    assert name == "gather_qmm 4 of 40x128 of 4 bits in groups of 64, float16, 128 to 255 rows"
    assert (choice.ways, choice.reason) == (("32", "128", "64"), "timed")


def test_attention_of_prompts_is_timed(process, timed):
    """The rows of a threadgroup, once for all numbers of rows between two powers of two; they change no bit."""
    draw = np.random.default_rng(7)
    q, keys, values = (
        hiprt.array(draw.standard_normal(shape).astype(np.float16)) for shape in ((70, 2, 32), (1, 90, 32), (1, 90, 32))
    )
    position = hiprt.array(np.arange(20, 90, dtype=np.int32))

    def attended():
        with recorded() as found:
            got = kernels.prefill_attention(q, keys, values, position, scale=0.2).numpy()
        return found[-1].template[-1], got  # ROWS

    with process(tune="0"):
        rows, rules = attended()
    assert rows == 64
    with process(), timed_choices(60):
        timed += [10.0, 9.0, 5.0] * 3
        rows, got = attended()
        ((name, choice),) = target_of(hiprt.current_stream()).choices.made.items()
    assert name.endswith("2 heads of 32, 1 of keys, 90 positions, float16, 64 to 127 rows of a prompt")
    assert (rows, choice.ways, choice.reason) == (16, ("64", "32", "16"), "timed")
    assert (got == rules).all()


@pytest.mark.parametrize(("arch", "ways"), [("gfx942", [64, 128]), ("gfx1151", [64, 128]), ("gfx1030", [64, 32, 16])])
def test_the_rows_that_attention_of_prompts_may_take(arch, ways):
    """Where queries are in registers more rows share the tiles of keys; elsewhere threadgroup memory bounds them."""
    on, half = make_target(arch, 40, 32, ROCM), np.dtype(np.float16)
    call = GroupedHeads(200, False, 8, 2, 512, 128, 0, False)
    assert prefill_module.ways_of(call, half, on) == ways
    assert prefill_module.ways_of(call._replace(rows=100), half, on) == ways[: 1 if ways[1] == 128 else None]
    assert prefill_module.ways_of(call, np.dtype(np.float32), on) == [32, 16]


def test_a_way_is_found_by_its_name(process, timed):
    """Two calls with one name may have different rules, so that another way comes first."""
    with process(), timed_choices(60):
        timed += [10.0, 5.0] * 3
        on = target_of(hiprt.current_stream()).choices
        none = lambda way: lambda stream, given: None  # noqa: E731
        assert on.of("product", (64, 128), {}, none) == 128
        assert on.of("product", (128, 64), {}, none) == 128
    with process():
        assert target_of(hiprt.current_stream()).choices.of("product", (128, 64), {}, none) == 128
        assert target_of(hiprt.current_stream()).choices.made["product"].us == (5.0, 10.0)
        assert target_of(hiprt.current_stream()).choices.of("untimed", (128, 64), {}, none) == 128
        assert target_of(hiprt.current_stream()).choices.of("untimed", (64, 128), {}, none) == 64


def test_no_further_round_begins_when_the_time_is_up(process, timed, monkeypatch):
    """What one round has found counts."""
    with process(), timed_choices(60):
        timed += [10.0, 5.0] * 3
        clock = iter([0.0, 0.0, 61.0])
        monkeypatch.setattr(choices, "thread", SimpleNamespace(until=60.0))
        monkeypatch.setattr(choices.time, "monotonic", lambda: next(clock))
        on = target_of(hiprt.current_stream()).choices
        assert on.of("product", (64, 128), {}, lambda way: lambda stream, given: None) == 128
    assert len(timed) == 4


def test_launches_take_turns_among_experts():
    """As many launches as there are experts for have other ones each; all of them exist."""
    turns = experts_module.some_experts(1, 8, 128)
    assert [each.shape for each in turns] == [(1, 8)] * 16
    assert sorted(np.concatenate(turns).ravel()) == list(range(128))
    (whole,) = experts_module.some_experts(2, 3, 4)
    assert whole.tolist() == [[0, 1, 2], [3, 0, 1]]


def test_prompts_are_timed(process, timed):
    """The rows of a tile, once for all numbers of rows between two powers of two; few rows have one way."""
    draw = np.random.default_rng(4)
    stored = quantize((draw.standard_normal((40, 128)) / 12).astype(np.float16), 64, 4)
    parts = list(map(hiprt.array, stored))

    def multiplied(rows):
        x = draw.standard_normal((rows, 128)).astype(np.float16)
        with recorded() as found:
            got = kernels.quantized_matmul(hiprt.array(x), *parts)
        exact = reference.quantized_matmul(x, *stored, 64, 4)
        assert np.abs(got.numpy() - exact).max() < 0.02
        return [launch.template[-1] for launch in found]  # ROWS

    with process(), timed_choices(60):
        timed += [10.0, 5.0] * 3
        assert multiplied(70)[-1] == multiplied(127)[-1] == 64
        assert multiplied(31) == [32]
        (choice,) = target_of(hiprt.current_stream()).choices.made.items()
    assert choice[0] == "quantized_matmul 40x128 of 4 bits in groups of 64, float16, 64 to 127 rows"
    assert (choice[1].ways, choice[1].taken, choice[1].reason) == (("32", "64"), 1, "timed")
    with process():
        assert multiplied(64) == [64]


@pytest.mark.parametrize("is_json", [False, True])
def test_tune_prints_what_it_chose(process, timed, capsys, is_json):
    """A decode step of the small model, at each capacity; what is kept is timed again only when asked to."""
    with process():
        timed += [10.0, 5.0, 20.0, 20.0] * 300
        arguments = ["tune", "--capacity", "300", "600", "--chunk", "64", *(["--json"] if is_json else [])]
        assert main(arguments) == 0
        printed = capsys.readouterr().out
    assert printed.count("norm_rope_attention") == 2
    assert "64 to 127 rows" in printed
    if is_json:
        rows = json.loads(printed)["choices"]
        assert {row["reason"] for row in rows} == {"timed"}
    else:
        assert printed.splitlines()[1].split() == ["kernel", "way", "us", "us", "by", "rule", "ways", "why"]


def test_the_first_chunk_of_each_size_is_timed(process, timed):
    """Within the seconds of the decoder; a step that takes such a chunk later has the same bits."""
    tokens = list(range(1, 66))
    with process():
        timed += [10.0, 5.0, 20.0, 20.0] * 300
        model, stream = load(Checkpoint(CHECKPOINT)), hiprt.current_stream()
        decoder = Decoder(model, stream, 256, chunk=64, seconds=60)
        logits = []
        for _ in range(2):
            decoder.start(tokens)
            assert list(decoder.prefill()) == [64, 65]
            logits.append(decoder.logits.numpy())
        assert decoder.recorded.tried == {64, 1}
        assert 0 < decoder.recorded.seconds < 60
        found = made()["quantized_matmul"]
        assert (found.reason, len(found.ways)) == ("timed", 2)
    assert (logits[0] == logits[1]).all()


def test_tune_says_why_nothing_is_chosen(process, capsys):
    assert why_nothing(make_target("gfx942", 304, 64, ROCM)) == "launches on this device cannot be timed"
    assert "were measured" in why_nothing(make_target("sm_90", 132, 32, NVIDIA))
    assert main(["tune"]) == 0
    assert "nothing to choose, the CPU device runs plain loops" in capsys.readouterr().out
    with process(tune="0"):
        assert main(["tune", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["why_nothing"] == "HIPRT_TUNE=0 has the rules' ways on this device"
    assert main(["tune", "--capacity", "0"]) == 1
    assert "--capacity: at least 1" in capsys.readouterr().err
