"""`hiprt bench rings`: the search finds the best rings of a known landscape; the command says what it cannot do."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from hiprt import Stream, bfloat16, use_stream
from hiprt.__main__ import main
from hiprt.bench import rings as command
from hiprt.bench.compile_pool import CompilePool
from hiprt.bench.engine.models.presets import PRESETS, preset
from hiprt.bench.ring_neighbours import neighbours
from hiprt.bench.ring_products import Place, ring_products
from hiprt.bench.ring_search import INTERRUPTED, NEAREST, OVER, Search, Turn
from hiprt.bench.rings import progress, table_line
from hiprt.bench.timed_step import TimedStep
from hiprt.code_folder import Source
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.experts.moe_down import RINGS as DOWNS
from hiprt.kernels.ops.experts.moe_gate_up import RINGS as GATES
from hiprt.kernels.ops.experts.projected import PROJECTED
from hiprt.kernels.ops.experts.routed import ROUTED
from hiprt.kernels.ops.quantized.product_argmax import PLACED, SEVERAL_PLACED
from hiprt.kernels.ops.quantized.qmv_kernels import INTEGER, VECTOR_RING
from hiprt.kernels.ops.quantized.qmv_ways import chosen
from hiprt.kernels.tuning.arch import nvidia
from hiprt.kernels.tuning.rings import Ring, ring_configuration, ring_of, shared_bytes as ring_bytes
from hiprt.kernels.tuning.target import force_generic, make_target, target_of, use_target
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import VectorRing, vector_ring_configuration, vector_ring_of, vector_rings
from hiprt.loaded_modules import modules
from hiprt.provider import NVIDIA

TARGET = make_target("sm_90", 132, 32, NVIDIA)
QKV, DOWN = Product(6144, 2560, 8, 64, 4, False), Product(2560, 9728, 8, 64, 4, False)
PRODUCTS = {"qkv": QKV, "down": DOWN}
RINGS = {name: vector_ring_of(product, TARGET) for name, product in PRODUCTS.items()}
BEST = {
    "qkv": RINGS["qkv"]._replace(teams=6, depth=1, early=1, helpers=0, groups=132),  # two moves away
    "down": RINGS["down"]._replace(depth=2, early=1),
}
PLACE = Place("vector_rings", (6144, 2560, 8))
SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "vocab_size": 264}
MIXTURE = {"hidden_size": 512, "moe_intermediate_size": 256}


def away(name, ring):
    """How far a ring is from the best."""
    return sum(abs(own - other) for own, other in zip(ring[1:], BEST[name][1:]))


def landscape(rings, repeat):
    """A step that takes the longer the farther its rings are from the best."""
    return 1000.0 + 5 * sum(away(name, ring) for name, ring in rings.items())


def search(time=landscape, seconds=1e9, **options):
    """A search that has ended."""
    made = Search(PRODUCTS, RINGS, time, target=TARGET, seconds=seconds, **options)
    made.run()
    return made


def ticking():
    """A clock that goes on by a second each time that it is read."""
    return count().__next__


def test_the_best_of_a_landscape_is_found():
    """Turn by turn, until nothing near is left; the table's rings are elsewhere."""
    turns = []
    found = search(said=turns.append)
    assert RINGS != BEST
    assert (found.rings, found.ended) == (BEST, NEAREST)
    assert turns == found.turns
    assert [turn.name for turn in turns[:4]] == ["qkv", "down", "qkv", "down"]
    assert all(turn.us <= turn.before_us for turn in turns)
    for name in PRODUCTS:
        own = [turn for turn in turns if turn.name == name]
        assert own[0].before == RINGS[name]
        assert [turn.before for turn in own[1:]] == [turn.ring for turn in own[:-1]]
        tried = [ring for turn in own for ring, _ in turn.times]
        assert len(tried) == len(set(tried))
        assert RINGS[name] not in tried


def test_a_turn_tries_so_many_and_times_the_fastest_again():
    asked = []

    def timed(rings, repeat):
        asked.append((rings["qkv"], repeat))
        return landscape(rings, repeat)

    found = search(timed, most=7)
    first = found.turns[0]
    assert len(first.times) == first.tried == 7
    assert [ring for ring, _ in first.again] == [r for r, _ in sorted(first.times, key=lambda pair: pair[1])[:4]]
    fastest = [repeat for ring, repeat in asked if ring == first.again[0][0]]
    assert fastest[0] < fastest[1]


def test_codes_of_a_product_that_is_late_are_not_asked_for_early():
    found = search(late=["down"])
    early = {name: [r.early for t in found.turns if t.name == name for r, _ in t.times] for name in PRODUCTS}
    assert any(early["qkv"])
    assert early["down"]
    assert not any(early["down"])


def test_the_rings_of_the_table_stay_if_nothing_is_faster_by_the_margin():
    """Every other ring is a little faster, by less than 0.1 %; or is faster the first time only."""

    def little(rings, repeat):
        return 1000.0 if rings == RINGS else 999.5

    asked = []

    def once(rings, repeat):
        asked.append(dict(rings))
        return 1000.0 if rings == RINGS or asked.count(rings) > 1 else 900.0

    for timed in (little, once):
        found = search(timed)
        assert (found.rings, found.ended) == (RINGS, NEAREST)
        assert all(turn.ring == turn.before and turn.us == turn.before_us == 1000.0 for turn in found.turns)


def test_a_slower_device_is_no_faster_ring():
    """The ring of before is timed on both sides of those that are tried: what all of them gain is no gain."""
    calls = count()
    found = search(lambda rings, repeat: 1000.0 - next(calls))
    assert found.rings == RINGS


def test_the_time_ends_the_search():
    """What was tried of the turn until then is timed again and taken."""
    found = search(seconds=30.0, clock=ticking(), most=90)
    assert found.ended == OVER
    (turn,) = found.turns
    assert 0 < len(turn.times) < 30
    assert turn.ring == found.rings["qkv"] != RINGS["qkv"]
    assert search(seconds=0.0, clock=ticking()).turns == []


def test_a_program_that_is_not_compiled_in_time_is_waited_for_no_longer():
    waited = []

    def wait(seconds):
        waited.append(seconds)
        raise TimeoutError

    times = iter((0.0, 1.0, 2.0, 3.0, 4.0, 100.0))
    found = search(begin=lambda name, ring: wait, seconds=90.0, clock=lambda: next(times, 100.0))
    assert waited == [60.0]  # of which one is not the end, and the other is behind it
    (turn,) = found.turns
    assert (turn.times, found.ended) == ([], OVER)


def test_a_program_that_takes_too_long_counts_as_one_that_cannot_be_compiled():
    def wait(seconds):
        raise TimeoutError

    found = search(begin=lambda name, ring: wait)
    assert (found.rings, found.ended) == (RINGS, NEAREST)
    assert all(turn.uncompiled and not turn.times for turn in found.turns)
    assert "60 s" in found.turns[0].uncompiled[0][1]


def test_rings_that_do_not_compile_or_fail_are_passed_over():
    """They are told with their reasons, and the best of the others is found."""

    def begin(name, ring):
        return lambda seconds: "no registers" if ring.copies else ""

    def timed(rings, repeat):
        if any(ring.depth == 3 for ring in rings.values()):
            raise RuntimeError("the launch\nfailed")
        return landscape(rings, repeat)

    found = search(timed, begin=begin)
    assert (found.rings, found.ended) == (BEST, NEAREST)
    refused = [pair for turn in found.turns for pair in turn.uncompiled]
    failed = [pair for turn in found.turns for pair in turn.failed]
    assert refused
    assert all(ring.copies and why == "no registers" for ring, why in refused)
    assert failed
    assert all(ring.depth == 3 and why == "the launch failed" for ring, why in failed)
    assert all(turn.tried == len(turn.times) + len(turn.failed) for turn in found.turns)


def test_a_ring_that_fails_when_it_is_timed_again_is_not_taken():
    def timed(rings, repeat):
        if repeat > 1 and rings != RINGS:
            raise RuntimeError
        return landscape(rings, repeat)

    found = search(timed)
    assert found.rings == RINGS
    assert found.turns[0].failed[0][1] == "RuntimeError"


def test_a_step_that_fails_with_what_was_taken_ends_the_search():
    calls = count()

    def timed(rings, repeat):
        if next(calls) > 200:
            raise RuntimeError("the device is gone")
        return landscape(rings, repeat)

    found = search(timed)
    assert found.ended == "the device is gone"
    assert found.rings["qkv"] != RINGS["qkv"]


def test_an_interrupt_keeps_what_was_found():
    calls = count()

    def timed(rings, repeat):
        if next(calls) == 150:
            raise KeyboardInterrupt
        return landscape(rings, repeat)

    found = search(timed)
    assert found.ended == INTERRUPTED
    first, second = found.turns
    assert found.rings == {"qkv": first.ring, "down": RINGS["down"]}
    assert first.ring != RINGS["qkv"]
    assert second.times
    assert second.ring == second.before


def test_what_is_near_fits_and_is_launched_otherwise():
    """Of rings of any matrix, and of rings near those."""
    draw, seen = random.Random(0), 0
    for _ in range(60):
        rows, width = 8 * draw.randint(1, 3000), 512 * draw.randint(1, 40)
        product = Product(rows, width, draw.randint(2, 8), 64, 4, draw.random() < 0.3)
        alone = ring_of(product._replace(batch=1), TARGET)
        every = list(vector_rings(product, alone, 132)) if alone else []
        for here in (TARGET, replace(TARGET, compute_units=draw.randint(1, 300))):
            ring = draw.choice(every) if every else None
            for _ in range(3 if ring else 0):
                found = neighbours(ring, product, here)
                launched = [vector_ring_configuration(product, each) for each in (ring, *found)]
                launches = {(one.grid, *one.template.items()) for one in launched}
                assert len(launches) == len(launched)
                assert {each.alone for each in found} <= {ring.alone}
                assert all(each.helpers >= 0 for each in found)
                seen += len(found)
                ring = draw.choice(found)
    assert seen > 10000


def test_what_is_near_a_ring_of_one_vector_has_its_bits_and_room():
    """The same simdgroups share a row; each threadgroup of a processor has registers and memory."""
    draw, seen = random.Random(0), 0
    for _ in range(60):
        rows, width = 8 * draw.randint(1, 3000), 512 * draw.randint(1, 40)
        product = Product(rows, width, 1, 64, 4, draw.random() < 0.3)
        for here in (TARGET, replace(TARGET, compute_units=draw.randint(1, 300))):
            ring = ring_of(product, here)
            for _ in range(3 if ring else 0):
                found = neighbours(ring, product, here)
                launched = [ring_configuration(product, each, here) for each in (ring, *found)]
                launches = {(one.grid, *one.template.items()) for one in launched}
                assert len(launches) == len(launched)
                assert {each.split for each in found} <= {ring.split}
                assert max((one.threads[0] for one in launched[1:]), default=0) <= 640
                form = {"GROUP": 64, "BITS": 4, "WIDTH": width}
                for one in launched[1:]:
                    assert ring_bytes({**form, **one.template}, here) * one.template["RESIDENT"] <= 227 << 10
                seen += len(found)
                ring = draw.choice(found or [ring])
    assert seen > 10000


def test_a_search_can_return_to_a_ring_of_the_table():
    """What is near one has it near."""
    for size, ring in TARGET.table.rings.items():
        product = Product(*size, 1, 64, 4, False)
        near = neighbours(ring, product, TARGET)
        assert len(near) >= 10
        assert any(ring in neighbours(each, product, TARGET) for each in near)


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
    before, ring = RINGS["qkv"], BEST["qkv"]
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
        for kernel in (VECTOR_RING, SEVERAL_PLACED, INTEGER, PLACED, PROJECTED, ROUTED, GATES, DOWNS):
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


@pytest.mark.parametrize("name", ["qkv", "o", "head", "experts_gate_up", "experts_down"])
def test_what_is_compiled_ahead_for_one_text_is_what_the_step_loads(small, loaded, name):
    """And the step, which draws the same tokens, launches it."""
    with use_stream(small):
        model = preset("mixture")
        step = TimedStep(model, small, 1, 2)
        (one,) = (each for each in ring_products(step.run.issue, model, small) if each.name == name)
    step.us({}, 1)
    near = neighbours(one.ring, one.product, target_of(small), one.may_be_early)
    assert one.may_be_early or not any(each.early for each in near)
    for ring in (near[0], near[-1]):
        loaded.clear()
        step.us({one.place: ring}, 1)
        assert set(one.sources(ring, target_of(small), small.device.provider)) <= set(loaded)


@pytest.mark.parametrize(("texts", "table"), [(2, "vector_rings"), (1, "rings")])
def test_a_search_of_a_small_preset(small, capsys, tmp_path, monkeypatch, texts, table):
    """What it finds depends on the machine; its file and what it prints have one form."""
    monkeypatch.setattr(command, "Search", partial(Search, most=1, clock=ticking()))
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


def test_a_pool_says_what_does_not_compile():
    """A program that compiles has no reason; behind the block no process is left."""
    good = Source('extern "C" __global__ void fill(float* x) { *x = 1; }', "good.hip", (), ())
    with CompilePool(2) as pool:
        waits = [pool.begin([good]), pool.begin([good, good._replace(text="what?", name="bad.hip")])]
        assert waits[0](60.0) == ""
        assert "bad.hip" in waits[1](60.0)
        processes = list(pool.pool._pool)
        with pytest.raises(TimeoutError):
            pool.begin([good] * 10000)(0.0)
    assert not any(process.is_alive() for process in processes)


def test_processes_of_a_pool_do_not_hear_an_interrupt():
    """The signal is blocked in them from their start, and not in the thread that starts them."""
    with CompilePool(2) as pool:
        masks = [Path(f"/proc/{each.pid}/status").read_text() for each in pool.pool._pool]
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    blocked = [int(re.search(r"^SigBlk:\s*(\w+)", mask, re.M)[1], 16) for mask in masks]
    assert all(mask >> (signal.SIGINT - 1) & 1 for mask in blocked)


def test_an_interrupt_ends_a_pool(tmp_path):
    """Ctrl-C is for the process that searches, which ends the others; they say nothing."""
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, sys, time\n"
        "from hiprt.bench.compile_pool import CompilePool\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    try:\n"
        "        with CompilePool(3):\n"
        "            print('ready', flush=True)\n"
        "            time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    child = subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout.readline() == "ready\n"
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)
    with pytest.raises(ProcessLookupError):  # noqa: PT012
        while True:
            os.killpg(child.pid, 0)
            time.sleep(0.01)
