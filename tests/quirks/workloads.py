"""Steps of the kinds that engines have, each run eagerly and as graphs, which must give the same bits."""

from contextlib import contextmanager

import numpy as np
from helpers import foreign as other_code
from helpers.child import child
from helpers.hip_calls import Gate
from helpers.kernels import accumulate, launch, mix, scale

import hiprt
from hiprt import flags, graphs, kernels as k

N = 192
CHANGES = 160  # of 64 bytes of arguments each: more than a kernarg_limit of 8192
WIDE = 200  # nodes of 64 bytes each: they fit a kernarg_limit of 16384 once, not twice
START = np.linspace(-1, 1, N, dtype=np.float32)


@contextmanager
def held(stream):
    """Launches within the block are in flight together: the stream waits until its end."""
    gate = Gate()
    gate.hold(stream.hip_stream)
    try:
        yield
    finally:
        gate.open()


def kept():
    """The same call again and again, with state that advances."""
    x, state = hiprt.array(START), hiprt.zeros(N)

    def function():
        accumulate(mix(scale(x, 1.5), x), state)
        return scale(state, 0.5)

    step = graphs.Step(function, name="kept")
    return [step().numpy() for _ in range(5)]


def issued():
    """Every launch issued again with other arguments: a scalar, an address, a fill value."""
    x, outs, factor = hiprt.array(START), [hiprt.zeros(N) for _ in range(3)], 0.0

    def function():
        y = hiprt.empty(N)
        y.fill_bytes(int(factor))
        out.copy_from(mix(scale(x, factor), accumulate(x, y)))

    step = graphs.Step(function, name="issued", keep=False)
    results = []
    for i in range(12):
        factor, out = 1.0 + i // 2, outs[i % 3]
        step()
        results.append(out.numpy())
    return results


def kernels():
    """The same without fills and copies: kernel nodes only."""
    x, out, factor = hiprt.array(START), hiprt.zeros(N), 0.0
    step = graphs.Step(lambda: launch("mix", scale(x, factor), x, out, size=N), name="kernels", keep=False)
    results = []
    for i in range(12):
        factor = 1.0 + i // 2
        step()
        results.append(out.numpy())
    return results


def moved():
    """A kept step called with arrays at other addresses."""
    arrays = [hiprt.array(START * (i + 1)) for i in range(6)]
    step = graphs.Step(lambda a, b: mix(scale(a, 2.0), b), name="moved", moves=True)
    return [step(arrays[i], arrays[j]).numpy() for i, j in [(0, 1), (2, 3), (0, 3), (4, 5), (4, 5), (1, 0)]]


def split():
    """A host read in the middle."""
    x = hiprt.array(START)

    def function():
        y = scale(x, 2.0)
        return mix(scale(y, float(y.numpy()[3])), y)

    step = graphs.Step(function, name="split")
    return [step().numpy() for _ in range(3)]


def fan():
    """One node that many wait for, each alone, with work before that must not be overtaken."""
    x, seed = hiprt.array(START), hiprt.zeros(N)
    outs = [hiprt.zeros(N) for _ in range(13)]

    def function():
        y = scale(seed, 3.0)
        for i, out in enumerate(outs):
            launch("scale", y, out, float(i), size=N)

    step = graphs.Step(function, name="fan")
    results = []
    for i in range(4):
        seed.copy_from(scale(x, float(i + 1)))
        step()
        results += [out.numpy() for out in outs]
    return results


def roots():
    """Several nodes without dependencies, launched while earlier work of the stream is still to come."""
    stream, source = hiprt.current_stream(), hiprt.zeros(N)
    xs = [hiprt.array(START * i) for i in range(4)]
    outs = [hiprt.zeros(N) for _ in range(3)]

    def function():
        for i, out in enumerate(outs):
            launch("scale", source, out, float(i + 1), size=N)

    step = graphs.Step(function, name="roots")
    step()
    results = []
    for x in xs:
        with held(stream):
            source.copy_from(x)
            step()
        results += [out.numpy() for out in outs]
    return results


def in_flight():
    """Launches of one topology with different arguments, all queued before the first runs."""
    stream, x, results = hiprt.current_stream(), hiprt.array(START), []
    outs = [hiprt.zeros(N) for _ in range(3)]
    for turn in range(3):
        with held(stream):
            for i, out in enumerate(outs):
                with graphs.step("in flight"):
                    launch("mix", scale(x, 1.0 + i + 3 * turn), x, out, size=N)
        results += [out.numpy() for out in outs]
    return results


def dropped():
    """Steps that go away while their launches wait for a long piece of work."""
    x, long, results = hiprt.array(START), hiprt.array(np.ones(1 << 18, np.float32)), []
    for i in range(4):
        for _ in range(8):
            long = scale(long, 1.0)
        results.append(graphs.Step(lambda i=i: mix(scale(x, float(i)), x), name="dropped")())
    return [result.numpy() for result in results]


def spent():
    """More changes than an exec may take."""
    x, out, factor = hiprt.array(START), hiprt.zeros(N), 0.0
    step = graphs.Step(lambda: launch("mix", scale(x, factor), x, out, size=N), name="spent", keep=False)
    results = []
    with flags.override(graph_update_budget=8):
        for i in range(CHANGES):
            factor = i
            step()
            results.append(out.numpy())
    return results


def moved_often():
    """The same by arrays at other addresses."""
    arrays = [hiprt.array(START * i) for i in range(CHANGES)]
    step = graphs.Step(lambda a: scale(a, 2.0), name="moved often", moves=True)
    with flags.override(graph_update_budget=8):
        return [step(array).numpy() for array in arrays]


def wide():
    """Many nodes that all change, and change back."""
    x, outs, factor = hiprt.array(START[:1]), hiprt.zeros((WIDE, 1)), 0.0
    rows, results = [outs[i] for i in range(WIDE)], []

    def function():
        for row in rows:
            launch("scale", x, row, factor, size=1)

    step = graphs.Step(function, name="wide", keep=False)
    for value in (1.0, 2.0, 1.0, 3.0):
        factor = value
        step()
        results.append(outs.numpy())
    return results


def rewired():
    """The same kernels and numbers of dependencies at each place, but other edges."""
    x, values = hiprt.array(START), [hiprt.zeros(N) for _ in range(4)]
    results = []
    for i in range(40):
        with graphs.step("rewired"):
            launch("scale", x, values[0], 1.0 + i, size=N)
            launch("scale", x, values[1], 2.0 + i, size=N)
            launch("scale", values[0], values[2], 3.0, size=N)
            launch("scale", values[i % 2], values[3], 4.0, size=N)
        results += [values[2].numpy(), values[3].numpy()]
    return results


def nested():
    """A step called by a step, with changes."""
    x, out, factor = hiprt.array(START), hiprt.zeros(N), 1.0
    inner = graphs.Step(lambda: launch("scale", x, out, factor, size=N), name="inner")
    outer = graphs.Step(lambda: (inner(), accumulate(x, out)), name="nested", keep=False)
    results = []
    for value in (1.0, 2.0, 3.0):
        factor = value
        outer()
        results.append(out.numpy())
    return results


def functions():
    """Different kernels at the same place."""
    x, out, results = hiprt.array(START), hiprt.zeros(N), []
    for i in range(6):
        with graphs.step("functions"):
            if i % 2:
                launch("accumulate", x, out, size=N)
            else:
                launch("scale", x, out, float(i), size=N)
        results.append(out.numpy())
    return results


def foreign():
    """Other code between launches of ours: where its place is not declared, in blocks, with other arguments."""
    x, y, state = hiprt.array(START.view(np.uint32)), hiprt.zeros(N, np.uint32), hiprt.zeros(N, np.uint32)
    stream, factor = hiprt.current_stream(), 1

    def function():
        k.add(x, state, out=state)
        other_code.affine(stream.handle, y, state, factor)
        k.add(y, state, out=state)
        with step.capture(reads=[state], writes=[y]):
            other_code.affine_packed(stream.handle, y, state, factor)
            other_code.pair(stream.handle, y, factor)
        return k.add(state, y)

    results = []
    for keep in (True, False):
        step = graphs.Step(function, name=f"foreign {keep}", keep=keep)
        for i in range(6):
            factor = 1 if keep else 1 + i // 2
            results.append(step().numpy())
    return results


WORKLOADS = {
    function.__name__: function
    for function in (
        kept,
        issued,
        kernels,
        moved,
        split,
        fan,
        roots,
        in_flight,
        dropped,
        spent,
        moved_often,
        wide,
        rewired,
        nested,
        functions,
        foreign,
    )
}


def differing(names=tuple(WORKLOADS)):
    """Return the names of the workloads whose graphs do not give eager's bits."""
    wrong = []
    for name in names:
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            with flags.override(graph=False):
                expected = WORKLOADS[name]()
            got = WORKLOADS[name]()
        if [value.tobytes() for value in got] != [value.tobytes() for value in expected]:
            wrong.append(name)
    return wrong


def report(names=tuple(WORKLOADS)):
    """Return what differs, and the rungs and reasons of all steps together."""
    wrong = differing(names)
    counts = graphs.stats()
    rungs = {rung: sum(step["rungs"][rung] for step in counts.values()) for rung in graphs.RUNG_NAMES}
    # Eager runs that were asked for are not counted as such.
    reasons = {reason: n for step in counts.values() for reason, n in step["reasons"].items()}
    rungs["eager"] -= sum(step["reasons"].get("eager: HIPRT_GRAPH=0", 0) for step in counts.values())
    return {"wrong": wrong, "rungs": rungs, "reasons": reasons, "probes": graphs.probes(hiprt.current_device())}


def ours(*names, **where):
    """Run workloads in a child, `report`, after checking that nothing is wrong; all of them by default."""
    result = child(report, names or tuple(WORKLOADS), **where)
    assert not result["wrong"], result
    return result
