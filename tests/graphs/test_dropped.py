"""Objects that the garbage collector finds while a stream is captured: the capture comes to a good end (G10)."""

import gc
import random

import numpy as np
import pytest
from helpers import foreign
from helpers.child import child
from helpers.kernels import accumulate, scale
from quirks.capture_calls import GLOBAL, LOCAL, RELAXED, capturing, new_stream, on_thread

import hiprt
from hiprt import allocator, flags, graphs, kernels as k
from hiprt.allocator.driver import device_memory
from hiprt.bench.engine.models.upload import Part, Piece
from hiprt.buffer import hip_malloc
from hiprt.loaded_modules import modules

PROFILES = ("cuda", "clr-6.2", "clr-6.4", "clr-7.2", "clr-7.13", "clr-10", "paranoid")
N = 300
LARGE = 1 << 18  # elements, so that work on them is in flight for a while
SOURCE = 'extern "C" __global__ void f(float* y) { y[threadIdx.x] += 1.0f; }'


def event():
    """An event, recorded or not."""
    made = hiprt.Event()
    made.record(hiprt.current_stream())
    return [made, hiprt.Event()]


def stream():
    """A stream with work and memory."""
    made = hiprt.Stream()
    with hiprt.use_stream(made):
        return [made, scale(hiprt.full(LARGE, 1.0), 2.0)]


def wrapper():
    """Somebody's stream, with its owner."""
    raw = new_stream()
    made = hiprt.Stream.from_handle(int(raw), owner=raw)
    with hiprt.use_stream(made):
        return [made, hiprt.full(LARGE, 1.0)]


def lost_wrapper():
    """An array that was used last on a stream whose wrapper goes without being closed."""
    array = hiprt.full(N, 1.0)
    with hiprt.use_stream(hiprt.Stream.from_handle(int(new_stream()))):
        accumulate(array, hiprt.zeros(N))
        scale(array, 2.0)
    return [array]


def shared_array():
    """An array that other streams use than the one to which its memory goes back."""
    array = hiprt.full(LARGE, 1.0)
    for _ in range(2):
        with hiprt.use_stream(hiprt.Stream()):
            scale(array, 2.0)
            accumulate(array, array)
    return [array]


def foreign_memory():
    """Memory of others, by its address and by DLPack."""
    held = hiprt.full(N, 1.0)
    made = [hiprt.wrap(held.address, N, owner=held), hiprt.from_dlpack(hiprt.full(N, 2.0))]
    for each in made:
        scale(each, 2.0)
    return [*made, hiprt.from_dlpack(np.ones(N))]


def step():
    """Execs that are in flight, replayed, patched and split."""
    x, y = hiprt.full(LARGE, 1.0), hiprt.zeros(LARGE)
    made = [graphs.Step(lambda a: accumulate(scale(a, 2.0), y)), graphs.Step(lambda a: scale(a, 2.0), keep=False)]
    for each in made:
        each(x)
        each(x)
        each(y)
    return made


def guarded_step():
    """An exec with a canary, which has memory of the host."""
    with flags.override(graph_canary=True):
        return step()


def module():
    """A module, which is unloaded later."""
    with flags.override(cache_modules=0):
        y = hiprt.zeros(N)
        kernel = k.hip_kernel(SOURCE + f" // {random.random()}", "f", {"y": "update float32"})
        kernel(y, threads=N, block=N)
    return [kernel, y]


def pool():
    """A pool of its own, with memory of the driver."""
    made = allocator.Pool(device_memory if random.random() < 0.5 else hip_malloc)
    held = [made.allocate(1 << 16, hiprt.current_stream()), made.allocate(1 << 20, hiprt.Stream())]
    del held[random.randrange(2)]
    return [made, held]


def compiled():
    """A traced function with its step."""
    made = hiprt.compile(lambda a: k.add(k.add(a, a), a))
    made(hiprt.full(N, 1.0))
    return [made]


def pinned():
    """Pinned memory from which a copy is under way."""
    made, values = Piece(1 << 16), np.ones(1 << 16, np.uint8)
    part = Part(hiprt.current_stream(), hiprt.zeros(1 << 16, np.uint8))
    part.add(values, None, int(values.ctypes.data), values.nbytes)
    part.copy(made)
    return [made, part]


KINDS = (event, stream, wrapper, shared_array, foreign_memory, step, guarded_step, module, compiled, pinned)
# What waits for the device, unless the core itself captures: it knows of no other capture.
WAITING = (lost_wrapper, pool)


def garbage(kinds, count):
    """Make objects that only the collector can free, one of each of some kinds."""
    for _ in range(count):
        ring = [random.choice(kinds)()]
        ring.append(ring)


def collect():
    """Do all that may happen at any moment: a collection, and what frees memory for an allocation."""
    gc.collect()
    hiprt.zeros(random.choice((N, 1 << 21)))
    gc.collect()


def beside_our_captures(seeds):
    """Steps that take in other code's work, in whose midst objects go; what was wrong."""
    gc.disable()
    wrong = []
    for seed in seeds:
        random.seed(seed)
        with hiprt.Stream() as own, hiprt.use_stream(own):
            x, y = hiprt.array(np.arange(N, dtype=np.uint32)), hiprt.zeros(N, np.uint32)
            declares, keep = random.random() < 0.5, random.random() < 0.5

            def work(x=x, y=y, own=own):
                foreign.affine(own.handle, y, x, 3)
                drop()
                foreign.affine(own.raw, x, y, 1)

            def function(x=x, y=y, own=own, work=work, declares=declares):
                k.add(x, x, out=x)
                if declares:
                    with graphs.capture(reads=[x, y], writes=[x, y]):
                        work()
                else:
                    work()

            def drop():
                collect()
                allocator.default_pool.trim()
                modules.sweep()

            made, values = graphs.Step(function, keep=keep), np.arange(N, dtype=np.uint32)
            for i in range(2):
                garbage((*KINDS, *WAITING), 6)
                made()
                values = values * 6 + 2
                if not np.array_equal(x.numpy(), values) or made.rungs["eager"]:
                    wrong.append([seed, i, dict(made.rungs), list(made.reasons)])
                    break
    return wrong


def beside_others_captures(seeds):
    """Captures of other code, of this thread or another, in whose midst objects go; none may end."""
    gc.disable()
    for seed in seeds:
        random.seed(seed)
        garbage(KINDS, 6)
        drop = (lambda: on_thread(collect)) if random.random() < 0.5 else collect
        with capturing(random.choice((GLOBAL, LOCAL, RELAXED))):
            drop()
    return []


def forked_stream():
    """A stream that goes between its fork and the end of the capture."""
    with hiprt.Stream() as own, hiprt.use_stream(own):
        x = hiprt.array(np.arange(N, dtype=np.uint32))
        fork, join = foreign.Event(), foreign.Event()

        def function():
            with graphs.capture(reads=[x], writes=[x]):
                side = hiprt.Stream()
                fork.between(own.raw, side.raw)
                foreign.pair(side.raw, x, 3)
                join.between(side.raw, own.raw)
                del side
                gc.collect()

        made = graphs.Step(function)
        made()
        made()
        return [x.numpy().tolist(), made.rungs["eager"]]


@pytest.mark.every(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_our_captures(profile, form, part):
    assert child(beside_our_captures, [*part(range(4 if form == "short" else 40))], profile=profile) == []


@pytest.mark.every(2)
@pytest.mark.parametrize("profile", PROFILES[::-1])
def test_captures_of_others(profile, form, part):
    assert child(beside_others_captures, [*part(range(6 if form == "short" else 60))], profile=profile) == []


@pytest.mark.every(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_stream_that_a_capture_forked_to(profile):
    expected = (np.arange(N, dtype=np.uint32) * 3 + 1) * 3 + 1
    assert child(forked_stream, profile=profile) == [expected.tolist(), 0]
