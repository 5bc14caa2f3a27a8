"""`hiprt.torch.graphed` on the CPU device: what runs eagerly, and captures that fail."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from helpers import foreign  # noqa: E402
from helpers.torch_device import floats, tensor  # noqa: E402

import hiprt  # noqa: E402
from hiprt.hip import call, lib  # noqa: E402
from hiprt.torch.cuda import Cuda  # noqa: E402


def test_what_cannot_be_a_graph_runs_eagerly(device):
    """And the reason is told: host copies, random numbers, and what fails while it is captured."""

    def copies(x):
        y = device.empty()
        call(lib.hipMemcpyAsync(y.data_ptr(), foreign.pointer(hiprt.array([1.0])), 4, lib.hipMemcpyHostToDevice, ours))
        return y

    def draws(x):
        device.drawn += 1
        return x

    def reads(x):
        if device.is_capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        return x

    ours = device.ours.handle
    for work, reason in (
        (copies, "a copy from or to the host"),
        (draws, "it draws random numbers: give them to it as an argument"),
        (reads, "it cannot be captured: operation not permitted when stream is capturing"),
    ):
        run = hiprt.torch.graphed(work)
        for _ in range(4):
            assert isinstance(run(tensor(1)), torch.Tensor)
        assert reason in run.explain()[-1].reason
        assert run.stats.rungs["eager"] == 4


@pytest.mark.parametrize("tells_first", [False, True])
def test_a_capture_that_fails_leaves_torch_as_it_was(tells_first):
    """Its allocator and its random numbers, which some versions of torch tell nothing where a capture fails."""

    class Torch:
        """Stands for torch: what of it takes part in captures."""

        def __init__(self):
            self.pools, self.taken, self.released = 0, [], []
            self.is_drawing_captured = self.has_failed = False
            self.cuda = self._C = self

        def stream(self, _):
            return nullcontext()

        def graph_pool_handle(self):
            self.pools += 1
            return (0, self.pools)

        def CUDAGraph(self, keep_graph):
            return TorchGraph()

        def zeros(self, n, device):
            assert device == "cuda"

        def _cuda_endAllocateToPool(self, index, pool):
            if pool not in self.taken:
                raise RuntimeError("not currently recording to mempool_id")
            self.taken.remove(pool)

        def _cuda_releasePool(self, index, pool):
            self.released.append((index, pool))

    class TorchGraph:
        def capture_begin(self, pool=None, capture_error_mode="global"):
            self.pool = pool or fake.graph_pool_handle()
            assert self.pool not in fake.taken
            fake.taken.append(self.pool)
            fake.is_drawing_captured, fake.has_failed = True, False

        def capture_end(self):
            if not fake.has_failed or tells_first:
                fake._cuda_endAllocateToPool(0, self.pool)
                fake.is_drawing_captured = False
            if fake.has_failed:
                raise RuntimeError("operation failed due to a previous error during capture")

        def raw_cuda_graph(self):
            return 7

    fake, device = Torch(), object.__new__(Cuda)
    device.torch, device.index, device.pool, device.side = fake, 3, None, SimpleNamespace(device="cuda")

    def waits():
        fake.has_failed = True
        raise RuntimeError("operation not permitted when stream is capturing")

    def is_given_up():
        fake.has_failed = True

    for is_first in (True, False):
        for work, reason in ((waits, "not permitted"), (is_given_up, "previous error")):
            with pytest.raises(RuntimeError, match=reason):
                device.capture(work, is_first=is_first)
            assert fake.taken == []
            assert not fake.is_drawing_captured
            assert device.capture(lambda: 1, is_first=is_first).results == 1
    assert [index for index, _ in fake.released] == [3] * 4


def test_tensors_that_do_not_tell_where_they_are_run_eagerly(device):
    """A graph of them would read the memory that the first ones had."""

    class Wrapper(torch.Tensor):
        """Made of another tensor, as sharded and quantised ones are."""

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
            return op(*(each.inner if isinstance(each, cls) else each for each in args), **(kwargs or {}))

    x, weights = tensor(1), {"w": tensor(2)}
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
    run = hiprt.torch.graphed(lambda x: x * 2, weights=weights, name="hidden memory")
    for _ in range(3):
        assert torch.equal(run(Wrapper(x)), x * 2)
        assert torch.equal(run(torch.eye(4).to_sparse()).to_dense(), 2 * torch.eye(4))
        assert torch.equal(run(nested).values(), 2 * nested.values())
        run(x)
    weights["w"] = Wrapper(tensor(3))
    assert torch.equal(run(x), x * 2)
    assert "a tensor, sparse or made of others, does not tell where it is: a <class" in run.explain()[-1].reason
    weights["w"] = torch.empty(0)
    assert torch.equal(run(x), x * 2)
    assert run.explain()[-1].reason == "first call of this signature"


def test_what_is_left_elsewhere_runs_eagerly(device):
    """A replay sets no attributes: a weight that the function exchanges, and gradients of a backward pass."""
    cache, weight = torch.nn.Module(), torch.nn.Parameter(floats(1))
    cache.register_buffer("sums", floats(0))

    def exchanges(x):
        cache.sums = floats(0).copy_(cache.sums + x)
        return cache.sums * 1

    def differentiates(x):
        with torch.enable_grad():
            (weight * x).sum().backward()
        return x + 1

    added = hiprt.torch.graphed(exchanges, weights=cache)
    derived = hiprt.torch.graphed(differentiates, weights=[weight])
    for turn in range(1, 5):
        assert torch.equal(added(floats(1)), floats(turn))
        assert torch.equal(cache.sums, floats(turn))
        assert torch.equal(derived(floats(turn)), floats(turn + 1))
        assert torch.equal(weight.grad, floats(turn))
        weight.grad = None
    reasons = [next(reversed(run.explain())).reason for run in (added, derived)]
    told = "it leaves a gradient at {}: return gradients, or set them to None"
    assert reasons[0] == "it puts another tensor in the place of sums: write to that one, or return it"
    assert reasons[1] == told.format("weight 0")
    weight.requires_grad_(False)
    derived = hiprt.torch.graphed(differentiates, weights=[weight])
    for _ in range(2):
        x = floats(1).requires_grad_()
        derived(x)
        assert torch.equal(x.grad, weight)
    assert derived.explain()[-1].reason == told.format("tensor 0 of the arguments")
