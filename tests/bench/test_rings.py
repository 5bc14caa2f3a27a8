"""`hiprt bench rings`: the products of a step, their rings in the table, and what the command prints or cannot do."""

import json
import random
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from hiprt import Stream, bfloat16, use_stream
from hiprt.__main__ import main
from hiprt.bench import rings as command
from hiprt.bench.engine.models.presets import PRESETS, preset
from hiprt.bench.ring_neighbours import neighbours
from hiprt.bench.ring_products import Place, ring_products
from hiprt.bench.ring_search import INTERRUPTED, OVER, Search, Turn
from hiprt.bench.rings import progress, table_line
from hiprt.bench.timed_step import TimedStep
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.experts.moe_down import RINGS as DOWNS
from hiprt.kernels.ops.experts.moe_gate_up import RINGS as GATES
from hiprt.kernels.ops.experts.projected import PROJECTED
from hiprt.kernels.ops.experts.routed import CHOOSING, ROUTED
from hiprt.kernels.ops.quantized.product_argmax import PLACED, SEVERAL_PLACED
from hiprt.kernels.ops.quantized.qmv_kernels import INTEGER, VECTOR_RING
from hiprt.kernels.ops.quantized.qmv_ways import chosen
from hiprt.kernels.tuning.arch import nvidia
from hiprt.kernels.tuning.rings import Ring
from hiprt.kernels.tuning.target import force_generic, make_target, target_of, use_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import VectorRing, vector_ring_of
from hiprt.loaded_modules import modules
from hiprt.provider import NVIDIA

TARGET = make_target("sm_90", 132, 32, NVIDIA)
QKV, DOWN = Product(6144, 2560, 8, 64, 4, False), Product(2560, 9728, 8, 64, 4, False)
PRODUCTS = {"qkv": QKV, "down": DOWN}
RINGS = {name: vector_ring_of(product, TARGET) for name, product in PRODUCTS.items()}
FASTER = RINGS["qkv"]._replace(teams=6, depth=1, early=1, helpers=0, groups=132)
PLACE = Place("vector_rings", (6144, 2560, 8))
SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "vocab_size": 264}
MIXTURE = {"hidden_size": 512, "moe_intermediate_size": 256}


def test_lines_of_the_table_are_those_of_the_source(root):
    """Each ring of the table is written as it stands there."""
    source = (root / "kernels/tuning/arch/nvidia.py").read_text()
    table = TARGET.table
    for key, ring in table.vector_rings.items():
        assert table_line(key, ring, table.rings) + "\n" in source
    for rings in (table.rings, table.plain_rings, table.expert_rings):
        for key, ring in rings.items():
            assert table_line(key, ring, table.rings).strip(" ,") in source


def test_lines_of_the_table_mean_the_same_ring():
    """Also those of rings whose ring of one vector the table has not, or has another of."""
    rings, draw = TARGET.table.rings, random.Random(0)
    others = {key: value._replace(depth=9) for key, value in rings.items()}
    for name, ring in RINGS.items():
        product = PRODUCTS[name]
        key = product.rows, product.width, product.batch
        for each in draw.sample(neighbours(ring, product, TARGET), 40):
            for table in (rings, others, {}):
                names = {"RINGS": table, "Ring": Ring, "VectorRing": VectorRing}
                assert eval(f"{{{table_line(key, each, table)}}}", names) == {key: each}
    trailing = "        (6144, 2560, 8): VectorRing(RINGS[6144, 2560], 4, 2, 1, 0, 8, 124, 1, 2),"
    assert table_line((6144, 2560, 8), VectorRing(rings[6144, 2560], 4, 2, 1, 0, 8, 124, 1, 2, 0), rings) == trailing


def test_progress():
    before, ring = RINGS["qkv"], FASTER
    turn = Turn("qkv", before, 1176.2, ring, 1170.9, [(ring, 1.0)] * 1, [], [(before, "why")], [])
    place = "VectorRing(RINGS[6144, 2560]"
    told = progress(turn, PLACE, TARGET.table.rings)
    assert told.startswith(f"qkv: 1,176 us -> 1,171 us, {place}, 6, 1, ")
    assert told.endswith(", 1 tried, 1 could not be compiled")
    stays = replace(turn, ring=before, us=1176.2, failed=[(ring, "why")])
    told = progress(stays, PLACE, TARGET.table.rings)
    assert told.startswith(f"qkv: 1,176 us, {place}, 4, ")
    assert told.endswith(", 1 tried, 1 could not be compiled, 1 failed")


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ([], 1, "rings are of NVIDIA GPUs of compute capability 9.0"),
        (["--model", "qwen3-2b"], 2, "invalid choice: 'qwen3-2b'"),
        (["--texts", "0"], 2, "'0': expected 1 to 8 texts"),
        (["--texts", "9"], 2, "'9': expected 1 to 8 texts"),
        (["--seconds", "0"], 2, "'0': expected a number of seconds above 0"),
        (["--seconds", "nan"], 2, "'nan': expected a number of seconds above 0"),
        (["--seconds", "soon"], 2, "'soon': expected a number of seconds above 0"),
        (["--tokens", "0"], 2, "expected an integer of at least 1"),
        (["--jobs", "0"], 2, "expected an integer of at least 1"),
    ],
)
def test_what_the_command_cannot_do(capsys, options, status, told):
    """The cause, and what to do; wrong usage has status 2."""
    if status == 1 and "bulk_copies" in target_of(Stream()).features:
        pytest.skip("this device has rings")
    try:
        found = main(["bench", "rings", *options])
    except SystemExit as error:
        found = error.code
    error = capsys.readouterr().err
    assert found == status
    assert told in error
    assert "hiprt tune" in error or status == 2


def test_a_table_without_vector_rings_is_told(capsys):
    """A target of a family that has rings, whose table has none for so many texts."""
    few = replace(TARGET, table=replace(TARGET.table, ring_vectors=4))
    command.check_target(few, "a GPU", 4)
    with pytest.raises(ValueError, match="up to 4 texts, not for 5"):
        command.check_target(few, "a GPU", 5)


@pytest.fixture
def small(monkeypatch):
    """A small preset on the CPU device, which plans for a GPU of 4 processors whose kernels it has the memory for."""
    monkeypatch.setitem(PRESETS, "small", {**PRESETS["qwen3-mini"], **SMALL})
    monkeypatch.setitem(PRESETS, "mixture", {**PRESETS["qwen3-moe-mini"], **SMALL, **MIXTURE})
    with force_generic():
        stream = Stream()
        if not stream.device.provider.is_host:
            pytest.skip("a GPU takes larger presets")
        here = target_of(stream)
        for kernel in (VECTOR_RING, SEVERAL_PLACED, INTEGER, PLACED, PROJECTED, ROUTED, CHOOSING, GATES, DOWNS):
            monkeypatch.setattr(kernel, "shared", lambda values, _, of=kernel.shared: of(values, here))
        features = frozenset({"arrivals", "matrix", "bulk_copies"})
        with use_target(stream.device, replace(here, compute_units=4, features=features, table=nvidia.H200)):
            yield stream


def test_the_products_of_a_step(small):
    """Each that a vector ring shares out has its name, its parts and its place, which some have in common."""
    with use_stream(small):
        model = preset("small")
        step = TimedStep(model, small, 3, 2)
        found = {each.name: each for each in ring_products(step.run.issue, model, small)}
    sizes = {"qkv": (512, 256), "o": (256, 256), "gate_up": (1024, 256), "down": (256, 512), "head": (264, 256)}
    places = {name: Place("vector_rings", (*size, 3)) for name, size in sizes.items()}
    assert {name: each.place for name, each in found.items()} == places
    parts = {
        name: [flag for flag in ("NORMED", "ADDED", "GATED") if each.forms[0].values[flag]]
        for name, each in found.items()
    }
    assert parts == {
        "qkv": ["NORMED"],
        "o": ["ADDED"],
        "gate_up": ["NORMED", "GATED"],
        "down": ["ADDED"],
        "head": ["NORMED"],
    }
    assert all(each.launches == len(each.forms) == 1 for each in found.values())
    target, provider = target_of(small), small.device.provider
    for each in found.values():
        assert each.ring == chosen(target, bfloat16, each.product)
    head = found["head"]  # the kernel that finds places has a simdgroup for each vector
    (many,), (few,) = (head.sources(head.ring._replace(teams=teams, helpers=0), target, provider) for teams in (4, 1))
    assert (many.name, few.name) == ("qmv_vector_rings_argmax.hip", "qmv_vector_rings.hip")


@pytest.mark.parametrize(("name", "experts"), [("small", False), ("mixture", True)])
def test_the_products_of_a_step_of_one_text(small, name, experts):
    """Rings of one vector have places of their own: by rows and width, those of experts apart."""
    with use_stream(small):
        model = preset(name)
        step = TimedStep(model, small, 1, 2)
        found = {each.name: each for each in ring_products(step.run.issue, model, small)}
    sizes = {"qkv": (512, 256), "o": (256, 256), "gate_up": (1024, 256), "down": (256, 512), "head": (264, 256)}
    if experts:
        sizes = {"qkv": (512, 512), "o": (512, 256), "head": (264, 512)}
        assert [each for each, one in found.items() if not one.may_be_early] == ["experts_gate_up"]
    places = {each: Place("rings", size) for each, size in sizes.items()}
    if experts:
        places["experts_gate_up"] = Place("routed_rings", (2 * 2 * 256, 512))
        places["experts_down"] = Place("expert_rings", (512, 2 * 256))
    assert {each: one.place for each, one in found.items()} == places
    kernels = {
        "qkv": INTEGER,
        "o": PROJECTED if experts else INTEGER,
        "head": INTEGER,
        "experts_gate_up": ROUTED,
        "experts_down": DOWNS,
    }
    assert all(found[each].forms[0].kernel is kernel for each, kernel in kernels.items() if each in found)


def test_the_products_of_experts_of_several_texts(small):
    """Each token has experts of its own; their rings have places by how many tokens there are."""
    with use_stream(small):
        step = TimedStep(preset("mixture"), small, 3, 2)
        found = {each.name: each for each in ring_products(step.run.issue, step.run.model, small)}
    gates, downs = found["experts_gate_up"], found["experts_down"]
    assert gates.place == Place("many_expert_rings", (2 * 2 * 256, 512, 3))
    assert downs.place == Place("many_expert_rings", (512, 2 * 256, 3))
    assert (gates.tokens, downs.tokens, found["qkv"].tokens) == (3, 3, 1)
    assert (gates.forms[0].kernel, downs.forms[0].kernel) == (CHOOSING, DOWNS)
    assert (gates.may_be_early, gates.ring.early, downs.may_be_early) == (False, 0, True)


def test_plain_rings_have_a_place_of_their_own(small, monkeypatch):
    """Where the table has one for vectors that are not normed first."""
    here = target_of(small)
    table = replace(here.table, plain_rings={(256, 512): Ring(2, 2, 1, 1, 1, 4)})
    with use_target(small.device, replace(here, table=table)), use_stream(small):
        model = preset("small")
        step = TimedStep(model, small, 1, 2)
        found = {each.name: each for each in ring_products(step.run.issue, model, small)}
    assert found["down"].place == Place("plain_rings", (256, 512))
    assert found["down"].ring == Ring(2, 2, 1, 1, 1, 4)
    assert found["o"].place == Place("rings", (256, 256))


def test_a_recurrent_state_begins_empty_each_time(small):
    """What it has taken cannot be taken back: steps that went on from it would draw other tokens."""
    with use_stream(small):
        step = TimedStep(preset("qwen3.5-mini"), small, 1, 8)
    for repeat in (1, 3, 1):
        step.us({}, repeat)


def test_products_with_one_place_are_one(small, monkeypatch):
    """A ring of the table serves both: programs of both kinds are compiled, and either name selects them."""
    monkeypatch.setitem(PRESETS, "small", {**PRESETS["small"], "intermediate_size": 256})
    with use_stream(small):
        model = preset("small")
        step = TimedStep(model, small, 2, 2)
        found = ring_products(step.run.issue, model, small)
    assert [each.name for each in found] == ["qkv+gate_up", "o+down", "head"]
    both = found[0]
    assert (both.launches, [form.values["GATED"] for form in both.forms]) == (2, [False, True])
    assert len({source.text for source in both.sources(both.ring, target_of(small), small.device.provider)}) == 2
    assert command.selected(found, ["down", "head"], "small") == found[1:]
    with pytest.raises(ValueError, match="'k' by a ring: take some of qkv, gate_up, o, down, head"):
        command.selected(found, ["k"], "small")
    with pytest.raises(ValueError, match="no product of small goes by a ring"):
        command.selected([], None, "small")


def test_a_step_takes_the_rings_that_it_is_given(small):
    """They are those of its launches, and the tokens stay the same; a step that draws others is refused."""
    with use_stream(small):
        model = preset("small")
        step = TimedStep(model, small, 2, 2)
        (one,) = (each for each in ring_products(step.run.issue, model, small) if each.name == "qkv")
    other = one.ring._replace(teams=1, depth=1, early=0, helpers=2)
    seen, before = [], None

    def watched(launch, values):
        if launch.kernel is VECTOR_RING:
            seen.append(launch.kernel.by_name(launch.template))

    before = Launch.watch(watched)
    try:
        assert step.us({one.place: other}, 1) > 0
    finally:
        Launch.watch(before)
    assert [each["HELPERS"] for each in seen if each["NORMED"] and not each["GATED"]] == [2]
    assert target_of(small).table is nvidia.H200
    step.drawn = step.drawn + 1
    with pytest.raises(ValueError, match="with the rings of the table"):
        step.us({}, 1)


@pytest.fixture
def loaded(monkeypatch):
    """The programs that are loaded."""
    found, load = [], modules.load

    def loads(text, file, *, options, device):
        found.append((text, file, tuple(options), ()))
        return load(text, file, options=options, device=device)

    monkeypatch.setattr(modules, "load", loads)
    return found


@pytest.mark.parametrize("name", ["o", "head"])
def test_what_is_compiled_ahead_is_what_the_step_loads(small, loaded, name):
    with use_stream(small):
        model = preset("small")
        step = TimedStep(model, small, 2, 1)
        (one,) = (each for each in ring_products(step.run.issue, model, small) if each.name == name)
    for ring in (one.ring._replace(teams=1, depth=1, early=0, helpers=helpers) for helpers in (0, 3)):
        loaded.clear()
        step.us({one.place: ring}, 1)
        assert set(one.sources(ring, target_of(small), small.device.provider)) <= set(loaded)


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        *((1, name) for name in ("qkv", "o", "head", "experts_gate_up", "experts_down")),
        (3, "experts_gate_up"),
        (2, "experts_down"),
    ],
)
def test_what_is_compiled_ahead_for_a_mixture_is_what_the_step_loads(small, loaded, name, texts):
    """And the step, which draws the same tokens, launches it."""
    with use_stream(small):
        model = preset("mixture")
        step = TimedStep(model, small, texts, 2)
        (one,) = (each for each in ring_products(step.run.issue, model, small) if each.name == name)
    step.us({}, 1)
    near = neighbours(one.ring, one.product, target_of(small), one.may_be_early, one.tokens)
    assert one.may_be_early or not any(each.early for each in near)
    for ring in (near[0], near[-1]):
        loaded.clear()
        step.us({one.place: ring}, 1)
        assert set(one.sources(ring, target_of(small), small.device.provider)) <= set(loaded)


@pytest.mark.parametrize(("texts", "table"), [(2, "vector_rings"), (1, "rings")])
def test_a_search_of_a_small_preset(small, capsys, tmp_path, monkeypatch, texts, table):
    """What it finds depends on the machine; its file and what it prints have one form."""
    monkeypatch.setattr(command, "Search", partial(Search, most=1, clock=count().__next__))
    path = tmp_path / "rings.json"
    options = ["--model", "small", "--texts", str(texts), "--products", "o,head", "--seconds", "7", "--tokens", "1"]
    assert main(["bench", "rings", *options, "--jobs", "2", "--json", "--out", str(path)]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report == json.loads(path.read_text())
    assert report["what"] == "hiprt bench rings"
    assert {"date", "hiprt", "commit", "provider", "device", "arch"} <= set(report)
    assert (report["preset"], report["texts"], report["tokens"], report["ended"]) == ("small", texts, 1, OVER)
    assert [each["name"] for each in report["products"]] == ["o", "head"]
    assert report["turns"][0]["name"] == "o"
    first = report["turns"][0]
    assert first["times"] or first["uncompiled"]
    assert not first["failed"]
    assert {each["table"] for each in report["products"]} == {table}
    assert set(report["table"]) <= {table}
    assert all(us > 0 for turn in report["turns"] for _, us in turn["times"])
    found = [each for each in report["products"] if each["ring"] != each["before"]]
    for line, product in zip(report["table"].get(table, []), found, strict=True):
        names = {"RINGS": nvidia.RINGS, "Ring": Ring, "VectorRing": VectorRing}
        ((key, ring),) = eval(f"{{{line}}}", names).items()
        assert key == (product["rows"], product["width"], *([product["vectors"]] if texts > 1 else []))
        assert json.loads(json.dumps(ring)) == product["ring"]
    assert "us a step with the rings of the table; products: o, head" in err
    assert "\no: " in err
    assert f"written to {path}" in err


def test_the_text_of_a_search(small, capsys):
    """The end of it are lines for the table, or the word that there are none."""
    options = ["--model", "small", "--texts", "2", "--products", "o", "--seconds", "0.001", "--tokens", "1"]
    assert main(["bench", "rings", *options, "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("small, 2 texts, ")
    assert "nothing faster than the rings of the table was found" in out
    lines = {"rings": ["  a", "  b"], "expert_rings": ["  c"]}
    told = command.summary(command.Report({}, "small", 1, 1, table=lines, ended=OVER, table_us=2.0))
    assert told.startswith("small, one text, ")
    assert told.endswith(" these lines:\n    rings\n  a\n  b\n    expert_rings\n  c")


def test_an_unknown_product_of_a_preset(small, capsys):
    assert main(["bench", "rings", "--model", "small", "--products", "qkv,q", "--tokens", "1", "--jobs", "1"]) == 1
    assert "has no product 'q' by a ring: take some of qkv, o, gate_up, down, head" in capsys.readouterr().err


def test_a_preset_without_rings(small, capsys):
    """The rows of its matrices are too short."""
    monkey = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 2}
    PRESETS["small"] |= monkey
    assert main(["bench", "rings", "--model", "small", "--tokens", "1", "--jobs", "1"]) == 1
    assert "no product of small goes by a ring; take a larger preset" in capsys.readouterr().err


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("gone")])
def test_what_ends_a_search_early(small, capsys, monkeypatch, failure):
    """What was found is printed, with status 130 behind Ctrl-C and the reason behind a failure."""
    timed, calls = TimedStep.us, count()

    def us(self, rings, repeat):
        if next(calls) >= 1:  # the first is of the rings of the table
            raise failure
        return timed(self, rings, repeat)

    monkeypatch.setattr(TimedStep, "us", us)
    options = ["--model", "small", "--texts", "2", "--products", "o", "--tokens", "1", "--jobs", "1", "--json"]
    status = main(["bench", "rings", *options])
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["turns"], report["table"]) == ([], {})
    if isinstance(failure, KeyboardInterrupt):
        assert (status, report["ended"]) == (130, INTERRUPTED)
    else:
        assert (status, report["ended"]) == (1, "gone")
        assert "the step can no longer be timed: gone" in err
