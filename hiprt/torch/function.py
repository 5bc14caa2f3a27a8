"""`graphed`: what a function of torch launches, captured once for each signature and patched from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import Any, NamedTuple

from hiprt import core, objects
from hiprt.errors import HipError
from hiprt.flags import flags
from hiprt.graphs.adopted import Adopted
from hiprt.graphs.captured_pointers import Pointers
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import Event, Stats, explain
from hiprt.torch.cuda import Captured, Cuda
from hiprt.torch.results import Results

__all__ = ["Graphed", "graphed"]

MOST_PUZZLES = 32  # captures of a signature that are made once more, to find what follows from nothing
ALIGNMENT = 256  # bytes, up to which torch and its libraries choose kernels by addresses
PLAIN = (bool, int, float, complex, str, bytes, type(None))
tensors_module = objects.load("hiprt.graphs.native.tensors")


@dataclass
class Kept:
    """What is kept for the calls of one signature.

    Attributes
    ----------
    captured : Captured or None
        The first capture, whose memory the graphs use; None before it.
    results : Results or None
        How a call's results follow from that memory and the call's arguments.
    pointers : Pointers or None
        What is known of the addresses in it; None where another capture gave other work.
    words : bytearray
        The addresses that were launched last, as 64-bit words.
    refused : str
        Why calls run eagerly; empty where they do not.
    """

    captured: Captured | None = None
    results: Results | None = None
    pointers: Pointers | None = None
    words: bytearray = field(default_factory=bytearray)
    refused: str = ""


def addresses(words: bytearray) -> memoryview:
    """Return addresses as numbers."""
    return memoryview(words).cast("Q")


class Graphed:
    """A function of torch that runs as a graph: see `graphed`.

    Attributes
    ----------
    adopted : Adopted
        Launches the graphs; its ``stats`` count the rungs.
    kept : dict
        What is kept for each signature.
    captures : int
        How often the function was captured.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        weights: Iterable[Any] | None = None,
        *,
        name: str = "",
        overwrite: bool = False,
    ) -> None:
        import torch

        self.torch = torch
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.overwrite = overwrite
        self.adopted = Adopted(self.name)
        given = owners_of(torch, function) if weights is None else listed(torch, weights)
        modules = [each for each in given if isinstance(each, torch.nn.Module)]
        paths = {inner: path for module in modules for path, inner in module.named_modules()}
        self.modules = list(paths)
        self.module_labels = [f"training of {path or type(module).__name__}" for module, path in paths.items()]
        self.slots = list(slots_of(torch, given))
        self.labels = [label for label, _, _ in self.slots]
        self.numbers: dict[tuple[Form, ...], int] = {}  # of what the weights have been
        places = [(place, key) for _, place, key in self.slots]
        tells = torch.Tensor, Form, described, ALIGNMENT, handles(torch)
        self.reader = tensors_module.Reader(*tells, places, self.numbers)
        self.is_autocast, self.autocast_dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
        self.device: Any = None
        self.kept: dict[Any, Kept] = {}
        self.latest: Kept | None = None
        self.signature: tuple[Any, ...] | None = None
        self.current: Kept | None = None  # of this signature
        self.captures = 0
        self.held: list[tuple[Recording, Captured]] = []  # whose memory executable graphs may have addresses of
        self.lock = self.adopted.ladder.lock
        update_wrapper(self, function, updated=())

    @property
    def stats(self) -> Stats:
        """Which rungs were taken, and why."""
        return self.adopted.stats

    def explain(self) -> list[Event]:
        """Return why calls were no replays, oldest first, of the last 256 events of the process."""
        return [event for event in explain() if event.step == self.name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or launch what it launched.

        Returns
        -------
        object
            What the function returns, in which tensors are new ones; with ``overwrite=True`` they are those that the
            graph writes, and the next call overwrites them. Tensors of the arguments, and views of them, are those of
            this call.
        """
        with self.lock:
            inputs: list[Any] = []
            words = bytearray()
            autocast = self.is_autocast("cuda"), self.autocast_dtype("cuda")
            modes = tuple([module.training for module in self.modules])
            try:
                signature = self.reader.read(args, kwargs, autocast, modes, inputs, words)
            except RecursionError:
                raise
            except RuntimeError as error:
                reason = f"a tensor, sparse or made of others, does not tell where it is: {error}"
                return self.eagerly(partial(self.run, args, kwargs), reason, "")
            kept, why = self.current, ""
            if signature is not self.signature:
                kept, why = self.change(signature)
            if kept is None:
                return self.first(signature, partial(self.run, args, kwargs), inputs, why)
            if not kept.refused and flags.graph:
                with self.device.current():
                    self.adopted.given = self.device.stream()
                    if kept is self.latest and kept.words == words:
                        self.adopted.again()
                    else:
                        self.launch(kept, args, kwargs, inputs, words)
                results = kept.results
                if results is not None:
                    tensors = inputs + self.reader.weights() if results.lie_elsewhere else inputs
                    return results.of_call(tensors, None if self.overwrite else self.device.copy)
            return self.eagerly(partial(self.run, args, kwargs), kept.refused or "HIPRT_GRAPH=0", why)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function itself. Results carry no gradients, also where the function records some."""
        with self.torch.no_grad():
            results = self.function(*args, **kwargs)
        flatten = self.torch.utils._pytree.tree_flatten
        leaves, tree = flatten(results)
        found = [i for i, leaf in enumerate(leaves) if isinstance(leaf, self.torch.Tensor) and leaf.grad_fn is not None]
        if not found:
            return results
        given = {id(each) for each in flatten((args, kwargs))[0]}
        for i in found:
            leaves[i] = leaves[i] if id(leaves[i]) in given else leaves[i].detach()
        return self.torch.utils._pytree.tree_unflatten(leaves, tree)

    def change(self, signature: tuple[Any, ...]) -> tuple[Kept | None, str]:
        """Return what is kept of a signature that differs from the last call's, and the first difference."""
        why = self.difference(signature)
        self.signature = signature
        kept = self.current = self.kept.pop(signature, None)
        if kept is not None:
            self.kept[signature] = kept
        return kept, why

    def launch(
        self, kept: Kept, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: list[Any], words: bytearray
    ) -> None:
        """Launch what the function launches for other memory, or note in `kept` why that cannot be."""
        self.latest = None
        if kept.pointers is None or not self.adopted.point(kept.pointers, words):
            try:
                self.prepare(kept, partial(self.run, args, kwargs), inputs, words)
            except HipError as error:
                if error.name != "HIPRT_E_FOREIGN":
                    raise
                kept.refused = str(error)
            except (RuntimeError, ValueError) as error:
                kept.refused = f"it cannot be captured: {error}"
            if kept.refused:
                kept.captured = kept.results = kept.pointers = None
                return
        kept.words, self.latest = words, kept
        if len(self.held) > 1:
            self.let_go()

    def first(self, signature: tuple[Any, ...], function: Callable[[], Any], inputs: list[Any], why: str) -> Any:
        """Run a call of a new signature eagerly, which makes ready what must not be made while it is captured."""
        kept = self.current = self.kept[signature] = Kept()
        while len(self.kept) > flags.graph_keys:
            del self.kept[next(iter(self.kept))]
        tensors = inputs + self.reader.weights()
        devices = {(tensor.device.type, tensor.device.index) for tensor in tensors}
        if self.device is None and len(devices) == 1:
            self.device = device_of(tensors[0].device)
        if len(devices) != 1 or tensors[0].device.index != self.device.index:
            kept.refused = f"tensors are on {', '.join(sorted(map(str, devices))) or 'no device'}"
            return self.eagerly(function, kept.refused, why)
        seeds, gradients = self.device.seeds(), list(map(gradient, tensors))
        with own_casts(self.torch):
            results = self.device.rehearse(function)
        if self.device.seeds() != seeds:
            kept.refused = "it draws random numbers: give them to it as an argument"
        else:
            kept.refused = self.left_behind(tensors, gradients)
        self.stats.count(Event(self.name, "eager", "first call of this signature", difference=why))
        return results

    def left_behind(self, tensors: list[Any], gradients: list[Any]) -> str:
        """Return what the function put elsewhere than into its results, which a replay does not; empty for nothing."""
        inputs = len(tensors) - len(self.slots)
        for (label, place, key), tensor in zip(self.slots, tensors[inputs:]):
            if place[key] is not tensor:
                return f"it puts another tensor in the place of {label}: write to that one, or return it"
        for i, (tensor, before) in enumerate(zip(tensors, gradients)):
            if gradient(tensor) is not before:
                return f"it leaves a gradient at {self.label(i, inputs)}: return gradients, or set them to None"
        return ""

    def label(self, i: int, inputs: int) -> str:
        """Return the name of the tensor with a number among those of the arguments and the weights."""
        return f"tensor {i} of the arguments" if i < inputs else self.labels[i - inputs]

    def eagerly(self, function: Callable[[], Any], reason: str, why: str) -> Any:
        """Run the function itself, and say why."""
        self.stats.count(Event(self.name, "eager", reason, difference=why))
        return function()

    def prepare(self, kept: Kept, function: Callable[[], Any], inputs: list[Any], words: bytearray) -> None:
        """Launch a recording of the work for tensors at other addresses: it is pointed there, or captured again."""
        starts, places = addresses(words), core.ffi.from_buffer("uint64_t[]", words)
        if kept.pointers is not None and kept.pointers.may_move(words):
            self.adopted.launch_recording(kept.pointers.at(places))
            return
        tensors = inputs + self.reader.weights()
        puzzles = kept.pointers.puzzles if kept.pointers is not None else 0
        captured, recording = self.capture(function, is_first=kept.captured is None)
        if kept.captured is not None:
            self.tell(kept, starts, len(inputs))
        if kept.pointers is not None and kept.pointers.learn(recording, starts):
            # The first capture's memory stays in use, and this one's goes.
            self.adopted.launch_recording(kept.pointers.at(places))
            return
        memory = [(start, extent(tensor)) for start, tensor in zip(starts, tensors)]
        kept.pointers = self.pointers(function, recording, memory, kept.pointers, puzzles)
        kept.results = Results(self.torch, captured.results, tensors, memory)
        self.adopted.launch_recording(recording)
        kept.captured = captured

    def pointers(
        self,
        function: Callable[[], Any],
        recording: Recording,
        memory: list[tuple[int, int]],
        earlier: Pointers | None,
        puzzles: int,
    ) -> Pointers | None:
        """Capture once more, while the other capture keeps its memory, and learn what is an address of it.

        Where earlier captures of the same work have shown that, it is done only for what puzzles since: see `Pointers`.
        """
        is_same = earlier is not None and recording.same_key(earlier.recording)
        if earlier is not None and is_same and not puzzles < earlier.puzzles <= MOST_PUZZLES:
            return earlier.of_later(recording, None, memory)
        _, again = self.capture(function, is_first=False)
        if not again.same_key(recording):
            return None
        if earlier is not None and is_same:
            return earlier.of_later(recording, again, memory)
        return Pointers.of_captures(recording, again, memory)

    def capture(self, function: Callable[[], Any], *, is_first: bool) -> tuple[Captured, Recording]:
        """Capture the function, of which nothing runs, and return what it launched as a recording too."""
        with own_casts(self.torch):
            captured = self.device.capture(function, is_first=is_first)
        self.captures += 1
        stream = self.adopted.given
        assert stream is not None
        recording = Recording.of_graph(captured.graph, stream.device.index, is_given=False)
        self.held.append((recording, captured))
        return captured, recording

    def let_go(self) -> None:
        """Give back the memory of captures that no executable graph knows any more.

        One that waits for its turn, or is made ahead, has addresses of an earlier capture, and is patched later. CUDA
        looks up the memory of a copy that is patched, also where it was.
        """
        self.held = [each for each in self.held if each[0].is_in_use]

    def tell(self, kept: Kept, starts: Sequence[int], inputs: int) -> None:
        """Note that the function was captured again, for the first tensor that moved."""
        before = addresses(kept.words)
        moved = [i for i, (was, now) in enumerate(zip(before, starts)) if was != now]
        where = ""
        if moved:
            i = moved[0]
            where = f"{self.label(i, inputs)}: {before[i]:#x} -> {starts[i]:#x}"
        self.stats.count(Event(self.name, "capture", f"{len(moved)} tensors lie elsewhere", 0, where))

    def difference(self, signature: tuple[Any, ...]) -> str:
        """Describe the first argument that is of another kind than at the last call."""
        if self.signature is None:
            return ""
        names = "arguments", "named arguments", "autocast"
        told = [differs(*each) for each in zip(names, self.signature, signature)]
        told += [differs(*each) for each in zip(self.module_labels, self.signature[3], signature[3])]
        found = next((each for each in told if each), "")
        if found or self.signature[-1] == signature[-1]:
            return found
        before, now = (list(self.numbers)[each[-1]] for each in (self.signature, signature))
        return next(each for each in map(differs, self.labels, before, now) if each)


class Form(NamedTuple):
    """What of a tensor a graph is made for."""

    shape: Any
    strides: Any
    dtype: Any
    device: Any
    alignment: int
    is_conjugated: bool
    is_negated: bool


def described(value: Any) -> tuple[type, str]:
    """Return what a graph is made for of an argument that is neither a tensor nor a container.

    Raises
    ------
    TypeError
        It is something in which tensors could be and cannot be found.
    """
    kind = type(value)
    if value is None or kind in PLAIN or kind.__module__ == "torch":
        return kind, repr(value)  # 1, 1.0 and True are equal
    raise TypeError(
        f"hiprt.torch.graphed: an argument is a {kind.__name__}, in which tensors cannot be found: "
        "give tensors, numbers, strings, or tuples, lists and dictionaries of these"
    )


def differs(name: str, was: Any, now: Any) -> str:
    """Describe the first difference between what two arguments were described as; empty where they are the same."""
    if was == now:
        return ""
    if isinstance(was, Form) and isinstance(now, Form):
        aspect, old, new = next(each for each in zip(Form._fields, was, now) if each[1] != each[2])
        return f"{name} {aspect}: {shown(old)} -> {shown(new)}"
    if isinstance(was, tuple) and isinstance(now, tuple) and dict in (was[0], now[0]) and was[:2] == now[:2]:
        pairs = zip(was[1], was[2][1:], now[2][1:])
        return next(each for key, old, new in pairs if (each := differs(f"{name}[{key!r}]", old, new)))
    are_alike = isinstance(was, tuple) and isinstance(now, tuple) and len(was) == len(now) and was[:1] == now[:1]
    if are_alike and isinstance(was[0], type) and was[0] not in PLAIN:
        return next(each for i in range(1, len(was)) if (each := differs(f"{name}[{i - 1}]", was[i], now[i])))
    return f"{name}: {shown(was)} -> {shown(now)}"


def shown(value: Any) -> str:
    """Return what is described, for messages."""
    if isinstance(value, tuple) and len(value) == 2 and value[0] in PLAIN:
        return str(value[1])
    if isinstance(value, Form):
        return f"tensor of shape {tuple(value.shape)}"
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def handles(torch: Any) -> list[tuple[Any, Any]]:
    """Return tensors with handles, by which torch's C functions take them; none where torch makes no handles."""
    make = getattr(getattr(torch._C, "_aoti", None), "unsafe_alloc_void_ptr_from_tensor", None)
    probes = [torch.empty(0, device="cpu") for _ in range(2)]
    return [] if make is None else [(each, make(each)) for each in probes]


def extent(tensor: Any) -> int:
    """Return how many bytes from its address a tensor reaches."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int((last + 1) * tensor.element_size())


def gradient(tensor: Any) -> Any:
    """Return the gradient that a tensor has, and None for one that may have none."""
    return tensor.grad if tensor.requires_grad and tensor.is_leaf else None


@contextmanager
def own_casts(torch: Any) -> Iterator[None]:
    """Let no casts of weights be shared with what else runs under autocast, whose memory goes when its context ends."""
    was = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was)


def device_of(device: Any) -> Any:
    """Return what captures on a device of torch's."""
    return Cuda(device.index)


def owners_of(torch: Any, function: Callable[..., Any]) -> list[Any]:
    """Return the modules that a function is, or is a method of."""
    found = [function, getattr(function, "__self__", None)]
    return [each for each in found if isinstance(each, torch.nn.Module)]


def listed(torch: Any, weights: Iterable[Any]) -> list[Any]:
    """Return modules, dictionaries and tensors as a list; one module or dictionary is meant as it is."""
    return [weights] if isinstance(weights, (torch.nn.Module, dict)) else list(weights)


def slots_of(torch: Any, given: list[Any]) -> Iterable[tuple[str, Any, Any]]:
    """Yield the name of each tensor that may be replaced, and the dictionary or list where it is, with its key."""
    for i, each in enumerate(given):
        if isinstance(each, torch.nn.Module):
            for path, module in each.named_modules():
                for place in (module._parameters, module._buffers):
                    for key, tensor in place.items():
                        if tensor is not None:
                            yield f"{path}.{key}".lstrip("."), place, key
        elif isinstance(each, dict):
            for key in each:
                yield str(key), each, key
        else:
            yield f"weight {i}", given, i


def graphed(
    function: Callable[..., Any] | None = None,
    *,
    weights: Iterable[Any] | None = None,
    name: str = "",
    overwrite: bool = False,
) -> Any:
    """Return a function of torch that runs as a graph, patched where torch would capture again or copy.

    The first call of a signature (shapes, strides, dtypes and alignment of tensors, values of other arguments, whether
    modules train) runs eagerly. The second is captured on torch's stream, twice, and launched. From then on, calls with
    the same addresses are replays. Where tensors lie elsewhere, inputs and weights alike, the first time is captured
    and compared, which shows what words of the kernels' arguments are their addresses; later times these words are
    patched without a call of the function. Nothing is copied.

    Parameters
    ----------
    function : callable
        Takes and returns tensors, also in lists and dictionaries. Its Python code runs while it is captured only. It
        runs without gradients, unless it records some itself, and its results carry none.
    weights : module, dict, or iterable of modules, dicts and tensors, optional
        Tensors besides the arguments that may be replaced between calls. By default those of the module that the
        function is, or is a method of. Other tensors must stay where they are.
    name : str, optional
        The name used in statistics and messages; the function's by default.
    overwrite : bool
        Whether results are the graph's own memory, which the next call overwrites; copies by default.

    Returns
    -------
    Graphed
        To be called as the function is; ``explain()`` says why calls were no replays.

    Examples
    --------
    >>> @hiprt.torch.graphed(weights=model)  # doctest: +SKIP
    ... def decode(token, cache):
    ...     return model(token, cache)
    """
    if function is None:
        return lambda given: Graphed(given, weights, name=name, overwrite=overwrite)
    return Graphed(function, weights, name=name, overwrite=overwrite)
