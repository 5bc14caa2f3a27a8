"""Each test breaks a rule of Metal's that the Apple runner keeps, and sees the fault. Never run on Apple hardware."""

from types import FunctionType

import numpy as np
import pytest
from helpers.metal.framework import Metal
from helpers.metal.message import FACTS, Misuse
from helpers.metal.resources import Buffer

import hiprt
from hiprt.kernels import Kernel, add
from hiprt.metal_compat.apple import MetalStream, Replay, dispatches, open_device, stream as stream_module
from hiprt.metal_compat.apple.command import Command

pytestmark = pytest.mark.only("cpu", reason="what the fake records is run by the CPU device")

COUNT = 512
SHIFT = Kernel(
    "shift_by",
    inputs={"x": "float"},
    outputs={"out": "float"},
    scalars={"by": "float"},
    source="uint i = thread_position_in_grid.x; out[i] = x[i] + by;",
)


@pytest.fixture
def metal(stream):
    """A fake of the module Metal, which runs the last work first where the order is free."""
    return Metal(stream)


@pytest.fixture
def apple(metal):
    """A stream of the fake device, current within the test."""
    made = MetalStream(open_device(1 << 20, metal))
    with hiprt.use_stream(made):
        yield made
    # The work that a broken runner has left is not run.
    made.owned = False


class Deaf:
    """An encoder that ignores some selectors."""

    def __init__(self, encoder, selectors):
        self.encoder, self.selectors = encoder, selectors

    def __getattr__(self, name):
        return (lambda *args: None) if name in self.selectors else getattr(self.encoder, name)


@pytest.fixture
def deafen(monkeypatch):
    """Make encoders ignore some selectors."""
    from helpers.metal.commands import CommandBuffer

    make = CommandBuffer.computeCommandEncoderWithDispatchType_

    def install(*selectors):
        monkeypatch.setattr(
            CommandBuffer, "computeCommandEncoderWithDispatchType_", lambda *args: Deaf(make(*args), selectors)
        )

    return install


def chain(apple):
    """Launch three adds, each behind the one before, over arrays that hold something."""
    a = hiprt.array(np.arange(COUNT, dtype=np.float32))
    parts = [hiprt.zeros(COUNT) for _ in range(3)]
    apple.synchronize()

    def launch():
        for source, target in zip([a, *parts], parts):
            add(source, source, out=target)
        return parts[-1]

    return launch


def is_right(array):
    return np.array_equal(array.numpy(), np.arange(COUNT) * 8)


def replayed(apple):
    launch = chain(apple)
    with apple.record() as recording:
        out = launch()
    replay = Replay(recording, apple)
    replay.launch()
    return out


def eager(apple):
    return chain(apple)()


def in_parts(apple):
    parts = [hiprt.array(np.arange(COUNT, dtype=np.float32)), *(hiprt.zeros(COUNT) for _ in range(3))]
    for i in range(3):
        add(parts[i], parts[i], out=parts[i + 1])
        apple.flush()
    return parts[-1]


@pytest.mark.parametrize("run", [eager, replayed, in_parts])
def test_nothing_broken(apple, run):
    assert is_right(run(apple))


@pytest.mark.parametrize("run", [eager, replayed])
def test_barriers_left_out(apple, monkeypatch, run):
    monkeypatch.setattr(dispatches, "barriers", lambda dependencies: [False] * len(dependencies))
    assert not is_right(run(apple))


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("run", [eager, replayed])
def test_one_barrier_left_out(apple, monkeypatch, run, lost):
    place = dispatches.barriers
    monkeypatch.setattr(dispatches, "barriers", lambda deps: [b and i != lost for i, b in enumerate(place(deps))])
    assert not is_right(run(apple))


@pytest.mark.parametrize(
    ("run", "selector"),
    [(eager, "memoryBarrierWithScope_"), (in_parts, "waitForFence_")],
)
def test_order_not_asked_for(apple, deafen, run, selector):
    deafen(selector)
    assert not is_right(run(apple))


@pytest.mark.parametrize(
    ("run", "selector"),
    [
        (replayed, "useResource_usage_"),
        (in_parts, "updateFence_"),
        (eager, "setComputePipelineState_"),
        (eager, "setBuffer_offset_atIndex_"),
        (eager, "endEncoding"),
    ],
)
def test_a_call_left_out(apple, deafen, run, selector):
    deafen(selector)
    with pytest.raises(Misuse):
        is_right(run(apple))


def test_a_buffer_resident_for_reading_only(apple, monkeypatch):
    monkeypatch.setattr(Metal, "MTLResourceUsageWrite", 1, raising=False)
    with pytest.raises(Misuse, match="not resident"):
        replayed(apple)


@pytest.mark.parametrize("chip", ["Apple M1", "Apple M2 Max"])
def test_pipelines_that_the_driver_forgets(stream, chip):
    with hiprt.use_stream(MetalStream(open_device(1 << 20, Metal(stream, None, chip)))) as apple:
        assert is_right(replayed(apple))
        launch = chain(apple)
        with apple.record() as recording:
            launch()
        replay = Replay(recording, apple)
        replay.reminders = []
        with pytest.raises(Misuse, match="pipeline was not set"):
            replay.launch()


def test_a_command_buffer_used_again(apple):
    queue = apple.queue
    one = queue.commandBuffer()
    apple.queue = type("Same", (), {"commandBuffer": lambda self: one})()
    with pytest.raises(Misuse, match="again after commit"):
        in_parts(apple)


def test_a_command_buffer_committed_twice(apple):
    one = apple.queue.commandBuffer()
    one.commit()
    with pytest.raises(Misuse, match="twice"):
        one.commit()


def shifted(apple, x, by, out):
    with apple.record() as recording:
        SHIFT(apple, (2, 1, 1), (COUNT // 2, 1, 1), x=x, out=out, by=by)
    return recording


def test_commands_changed_in_flight(apple, monkeypatch):
    x, y, out = hiprt.zeros(COUNT), hiprt.zeros(COUNT), hiprt.zeros(COUNT)
    replay = Replay(shifted(apple, x, 1.0, out), apple)
    replay.launch()
    monkeypatch.setattr(Replay, "wait", lambda self: None)
    with pytest.raises(Misuse, match="in flight"):
        replay.patch(shifted(apple, y, 1.0, out))


@pytest.mark.parametrize("waits", [True, False])
def test_values_changed_in_flight(apple, monkeypatch, waits):
    x, out = hiprt.zeros(COUNT), hiprt.zeros(COUNT)
    replay = Replay(shifted(apple, x, 1.0, out), apple)
    with apple.record() as recording:
        add(x, out, out=x)
    total = Replay(recording, apple)
    if not waits:
        monkeypatch.setattr(Replay, "wait", lambda self: None)
    replay.launch()
    total.launch()
    replay.patch(shifted(apple, x, 2.0, out))
    assert (x.numpy()[0] == 1.0) == waits


@pytest.mark.parametrize("keeps", [True, False])
def test_memory_kept_until_it_was_used(apple, monkeypatch, keeps):
    """The second launches overwrite the values of the first ones if nothing keeps these."""
    if not keeps:
        monkeypatch.setattr(stream_module, "Command", lambda metal, buffer, keep: Command(metal, buffer, None))
    x, first, second = hiprt.zeros(COUNT), hiprt.zeros(COUNT), hiprt.zeros(COUNT)
    apple.synchronize()
    for out, by in ((first, 1.0), (second, 2.0)):
        SHIFT(apple, (1, 1, 1), (COUNT // 2, 1, 1), x=x, out=out, by=by)
        apple.flush()
    assert (first.numpy()[0] == 1.0) == keeps


def test_a_replay_dropped_in_flight(apple):
    x, first, second = hiprt.zeros(COUNT), hiprt.zeros(COUNT), hiprt.zeros(COUNT)
    replay = Replay(shifted(apple, x, 1.0, first), apple)
    replay.launch()
    del replay
    SHIFT(apple, (2, 1, 1), (COUNT // 2, 1, 1), x=x, out=second, by=2.0)
    apple.flush()
    assert (first.numpy()[0], second.numpy()[0]) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m, d, q: q.commandBuffers(), AttributeError),
        (lambda m, d, q: d.newLibraryWithSource_option_error_("", None, None), AttributeError),
        (lambda m, d, q: d.commandBuffer(), AttributeError),
        (lambda m, d, q: m.MTLDispatchTypeParallel, AttributeError),
        (lambda m, d, q: q.commandBuffer(1), TypeError),
        (lambda m, d, q: d.newHeapWithDescriptor_(), TypeError),
        (lambda m, d, q: d.newHeapWithDescriptor_(7), TypeError),
        (lambda m, d, q: m.MTLHeapDescriptor.alloc().init().setSize_(1.0), TypeError),
        (lambda m, d, q: m.MTLHeapDescriptor.alloc().init().setSize_(-1), TypeError),
        (lambda m, d, q: m.MTLCompileOptions.alloc().init().setFastMathEnabled_(0), TypeError),
        (lambda m, d, q: d.newLibraryWithSource_options_error_(b"", m.MTLCompileOptions.alloc(), None), TypeError),
        (lambda m, d, q: q.commandBuffer().computeCommandEncoderWithDispatchType_("concurrent"), TypeError),
        (lambda m, d, q: encoder(q).memoryBarrierWithScope_(None), TypeError),
        (lambda m, d, q: encoder(q).setBuffer_offset_atIndex_(q, 0, 0), TypeError),
        (lambda m, d, q: encoder(q).setBuffer_offset_atIndex_(None, 0), TypeError),
        (lambda m, d, q: encoder(q).dispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1)), TypeError),
        (lambda m, d, q: encoder(q).waitForFence_(None), TypeError),
    ],
)  # fmt: skip
def test_a_call_that_pyobjc_would_refuse(metal, call, error):
    device = metal.MTLCreateSystemDefaultDevice()
    with pytest.raises(error):
        call(metal, device, device.newCommandQueue())


def encoder(queue):
    return queue.commandBuffer().computeCommandEncoderWithDispatchType_(1)


def test_every_method_of_the_fake_is_published(metal):
    """No class of the fake has a method with a selector's name that escapes the check."""
    kinds, left = [], [type(metal.device).__mro__[1]]
    while left:
        kinds.append(left.pop())
        left += kinds[-1].__subclasses__()
    assert len(kinds) > 15
    known = {selector.replace(":", "_") for part in ("metadata", "headers") for selector in FACTS[part]}
    for kind in kinds:
        for name, value in vars(kind).items():
            is_message = name.endswith("_") and not name.startswith("_")
            if isinstance(value, FunctionType) and (is_message or hasattr(value, "__wrapped__")):
                assert name in known, f"{kind.__name__}.{name}"
                assert hasattr(value, "__wrapped__"), f"{kind.__name__}.{name}"
    assert hasattr(Buffer.contents, "__wrapped__")
