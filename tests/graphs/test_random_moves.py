"""Random calls of `hiprt_step_move`: what a step's nodes do, and where its buffers are, as a model in Python has it."""

import json
import random
import struct
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, pairwise

import numpy as np
import pytest

import hiprt
from hiprt import core
from hiprt.compiler import compile_source
from hiprt.core import ffi, lib
from hiprt.hip import lib as hip
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE

WORD, WORDS = 4, 160  # bytes of a number, and numbers in the memory that all buffers lie in
SOURCE = """
extern "C" __global__ void mix(const unsigned* a, const unsigned* b, unsigned* y, unsigned by, unsigned n) {
  if (threadIdx.x < n) y[threadIdx.x] = a[threadIdx.x] * by + b[n - 1 - threadIdx.x];
}
extern "C" __global__ void add(const unsigned* x, unsigned* y, unsigned n) {
  if (threadIdx.x < n) y[threadIdx.x] += x[threadIdx.x];
}
struct places {
  unsigned by;
  unsigned long long first;
  unsigned char odd;
  unsigned long long second, number;
} __attribute__((packed));
extern "C" __global__ void tell(const unsigned* x, places in, unsigned* y, unsigned long long last, unsigned n) {
  unsigned told = in.first + 3 * in.second + 5 * in.number + 7 * last + in.odd;
  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * in.by + told;
}
"""
PLACES, FIRST, SECOND = struct.Struct("<IQBQQ"), 4, 13  # of `places`, and where it has addresses
ARGUMENTS = {
    "mix": (
        hiprt.Argument("a", READ),
        hiprt.Argument("b", READ),
        hiprt.Argument("y", WRITE),
        hiprt.Argument("by", SCALAR, "uint32"),
        hiprt.Argument("n", SCALAR, "uint32"),
    ),
    "add": (hiprt.Argument("x", READ), hiprt.Argument("y", READ_WRITE), hiprt.Argument("n", SCALAR, "uint32")),
    # It writes addresses as numbers. It reads nothing there: what is not declared is not ordered.
    "tell": (
        hiprt.Argument("x", READ),
        hiprt.Argument("in", SCALAR, "bytes", size=PLACES.size, alignment=1, addresses=(FIRST, SECOND)),
        hiprt.Argument("y", WRITE),
        hiprt.Argument("last", SCALAR, "address"),
        hiprt.Argument("n", SCALAR, "uint32"),
    ),
}
# What each does with its buffers.
ACCESS = {name: tuple(each.access for each in arguments if each.access) for name, arguments in ARGUMENTS.items()}
ACCESS |= {"copy": (READ, WRITE), "fill": (WRITE,)}
# What a dump calls them.
NAMES = {READ: "read", WRITE: "write", READ_WRITE: "update"}


@cache
def kernels():
    """Compile the kernels for the device in use."""
    module = hiprt.Module(compile_source(SOURCE, "test_random_moves.hip")[0])
    return {name: hiprt.Function(module, name, arguments) for name, arguments in ARGUMENTS.items()}


@dataclass(frozen=True)
class Node:
    """Work on some buffers of `count` numbers each."""

    name: str
    addresses: tuple[int, ...]
    count: int
    by: int  # the number that a kernel or a fill is given
    told: tuple[int, ...] = ()  # addresses that are no buffers: two in a structure, and one that is an argument
    number: int = 0  # the structure has it too, and it stays, also where it looks like an address in memory that moves

    @cached_property
    def buffers(self):
        """(access, start, end) of each."""
        return [(a, at, at + WORD * self.count) for a, at in zip(ACCESS[self.name], self.addresses)]

    @cached_property
    def places(self):
        """(start, end) of each buffer, and of each other address as of an empty one."""
        return [*((start, end) for _, start, end in self.buffers), *((at, at) for at in self.told)]

    @property
    def arguments(self):
        """The bytes that its kernel is given; the device is little-endian."""
        values = {"mix": (*self.addresses, self.by, self.count), "add": (*self.addresses, self.count)}
        if self.name == "tell":
            (x, y), (first, second, last) = self.addresses, self.told
            values["tell"] = (x, PLACES.pack(self.by, first, 0xA5, second, self.number), y, last, self.count)
        return [each if isinstance(each, bytes) else each.to_bytes(8, "little") for each in values.get(self.name, ())]

    def issue(self, stream):
        """Put it on a stream, or record it."""
        if self.name == "fill":
            core.call(lib.hiprt_fill(stream.core, *self.addresses, self.by, WORD, self.count))
        elif self.name == "copy":
            source, target = self.addresses
            nbytes = WORD * self.count
            core.call(lib.hiprt_copy(stream.core, target, source, nbytes, hip.hipMemcpyDeviceToDevice))
        else:
            dims = ffi.new("hiprt_dims *", {"grid": [1, 1, 1], "block": [16, 1, 1]})
            cells = [ffi.from_buffer(each) for each in self.arguments]
            nbytes = [WORD * self.count] * len(self.addresses)
            core.call(lib.hiprt_launch_kernel(stream.core, kernels()[self.name].core, dims, cells, nbytes))

    def moved(self, moves):
        """The node once its buffers lie where they are moved to, and other addresses follow what they point to."""

        def at_new(addresses):
            return tuple(
                next((to + at - start for start, end, to in moves if start <= at < end), at) for at in addresses
            )

        return replace(self, addresses=at_new(self.addresses), told=at_new(self.told))


def share(a, b):
    """Whether two pieces of memory share bytes; one that is empty counts as the byte at which it begins."""
    return a[0] < max(b[1], b[0] + 1) and b[0] < max(a[1], a[0] + 1)


def is_allowed(nodes, moves):
    """Whether all that moves comes to lie apart from the rest, by the header's words."""
    places = [place for node in nodes for place in node.places]
    if any(start >= end for start, end, _ in moves) or any(a[1] > b[0] for a, b in pairwise(moves)):
        return False
    taken = [each for each in places if not any(start <= each[0] < end for start, end, _ in moves)]
    for start, end, to in moves:
        reach = max([end, *(each[1] for each in places if start <= each[0] < end)])
        place = (to, to + reach - start)
        if any(share(place, other) for other in taken):
            return False
        taken.append(place)
    return True


def are_ordered(nodes, edges):
    """Whether the edges order every two nodes of which one writes what the other uses."""
    before = [{i} for i in range(len(nodes))]
    for edge in sorted(edges, key=lambda edge: edge["after"]):
        before[edge["after"]] |= before[edge["before"]]
    return all(
        i in before[k]
        for (i, first), (k, second) in combinations(enumerate(nodes), 2)
        for a, *its in first.buffers
        for b, *others in second.buffers
        if (a | b) & WRITE and its[0] < its[1] and others[0] < others[1] and share(its, others)
    )


def random_address(draw, arrays):
    """Where an array begins, in it, at its end, and of no memory."""
    start, end = draw.choice(arrays)
    return draw.choice((start, draw.randrange(start, end), end - 1, end, 0))


def random_nodes(draw, arrays):
    """Some nodes with parts of arrays; no node writes what it also reads through another buffer."""
    nodes = []
    while len(nodes) < draw.randint(3, 12):
        name = draw.choice(("mix", "mix", "add", "tell", "copy", "fill"))
        # An empty copy or fill is no node.
        count = draw.choice((1, 2, 3, 4, 4, 8, 0 if name in ARGUMENTS else 1))
        places = [draw.choice(arrays) for _ in ACCESS[name]]
        # Some reach behind the end of their array.
        tops = [max(1, end - start - WORD * draw.choice((1, count, count, count))) for start, end in places]
        addresses = tuple(start + draw.randrange(0, top, WORD) for (start, _), top in zip(places, tops))
        node = Node(name, addresses, count, draw.getrandbits(31) | 1)
        if name == "tell":
            first, second, last, number = (random_address(draw, arrays) for _ in range(4))
            node = replace(node, told=(first, second, last), number=number)
        if all(a & b == READ or not share(x, y) for (a, *x), (b, *y) in combinations(node.buffers, 2)):
            nodes.append(node)
    return nodes


class Machine:
    """A step with two recordings that take turns, and the model of both."""

    def __init__(self, seed, stream):
        self.draw, self.stream = random.Random(seed), stream
        self.random = np.random.default_rng(seed)
        self.memory = hiprt.array(np.zeros(WORDS, np.uint32))
        self.base = self.memory.address
        arrays = self.arrays()
        self.recordings = [random_nodes(self.draw, arrays) for _ in range(2)]
        # Pieces of memory that are moved: mostly arrays, of which some stay, so that others are moved around them.
        self.known = self.draw.sample(arrays, len(arrays) // 2)
        self.step = ffi.gc(lib.hiprt_step_create(b"random", self.rules()), lib.hiprt_step_release)
        self.outcome, self.ran = ffi.new("hiprt_outcome *"), ffi.new("int *")
        self.last = []  # the moves that were made last
        self.counts = Counter()
        self.record()

    def rules(self):
        """Mostly patches, with some budgets that are soon spent."""
        rules = ffi.new("hiprt_rules *")
        lib.hiprt_rules_default(rules)
        patches = lib.HIPRT_RUNGS & ~(1 << lib.HIPRT_UPDATE)
        others = (lib.HIPRT_RUNGS, patches & ~(1 << lib.HIPRT_PATCH), 1 << lib.HIPRT_EAGER)
        rules.rungs = self.draw.choice((*[patches] * 9, *others))
        rules.slots = self.draw.choice((1, 4))
        rules.budget_nodes = self.draw.choice((10000, 10000, 10000, 25))
        return rules

    def arrays(self):
        """Pieces of the memory, some side by side."""
        found, at = [], self.base
        while at < self.base + WORD * WORDS // 2:
            size = WORD * self.draw.choice((1, 2, 4, 4, 4, 8, 8))
            found.append((at, at + size))
            at += size + WORD * self.draw.choice((0, 0, 0, 1, 5))
        return found

    def compare(self, call):
        """Compare what a call does, from random memory, with the nodes run eagerly; return its status."""
        before = self.random.integers(0, 1 << 32, WORDS, np.uint32)
        self.memory.set(before, self.stream)
        status = call()
        found = self.memory.numpy(self.stream)
        self.memory.set(before, self.stream)
        if not status:
            for node in self.nodes:
                node.issue(self.stream)
        np.testing.assert_array_equal(found, self.memory.numpy(self.stream))
        assert self.ran[0] == (not status)
        return status

    def dump(self):
        """What the step says that it launched last."""
        size = ffi.new("uint64_t *")
        core.call(lib.hiprt_step_dump(self.step, ffi.NULL, 0, size))
        text = ffi.new("char[]", size[0])
        core.call(lib.hiprt_step_dump(self.step, text, size[0], size))
        return json.loads(ffi.string(text))

    def check_dump(self):
        """Check that it has the addresses of the model, and the order that they need."""
        dump = self.dump()
        for shown, node in zip(dump["nodes"], self.nodes, strict=True):
            assert shown["kernel_name"] == node.name
            given = [int.from_bytes(argument, "little") for argument in node.arguments]
            assert [int(argument, 16) for argument in shown["arguments"]] == given
            wanted = [(NAMES[access], start, end) for access, start, end in node.buffers]
            assert [(each["access"], each["start"], each["end"]) for each in shown["accesses"]] == wanted
        assert are_ordered(self.nodes, dump["edges"])

    def stats(self):
        """What the step has counted."""
        out = ffi.new("hiprt_step_stats *")
        lib.hiprt_step_count(self.step, out)
        return bytes(ffi.buffer(out))

    def record(self):
        """Record one of the two, where its buffers are now."""
        self.nodes = self.draw.choice(self.recordings)

        def call():
            core.call(lib.hiprt_step_begin(self.step, self.stream.core))
            for node in self.nodes:
                node.issue(self.stream)
            return lib.hiprt_step_end(self.step, self.outcome, self.ran)

        assert self.compare(call) == 0
        self.check_dump()

    def again(self):
        """Launch what was launched last."""
        assert self.compare(lambda: lib.hiprt_step_again(self.step, self.stream.core, self.outcome, self.ran)) == 0
        self.check_dump()

    def random_piece(self):
        """A piece of memory to be moved: mostly one that was moved before."""
        kind = self.draw.random()
        if kind < 0.94:
            starts = [start for node in self.nodes for start, _ in node.places]
            used = [piece for piece in self.known if any(piece[0] <= start < piece[1] for start in starts)]
            return self.draw.choice(used if used and kind < 0.7 else self.known)
        if kind < 0.97 and len(self.known) > 1:  # what several arrays lie in
            first, second = sorted(self.draw.sample(self.known, 2))
            return first[0], max(first[1], second[1])
        start = self.draw.randrange(WORDS - 1)
        return self.base + WORD * start, self.base + WORD * self.draw.randint(start + 1, min(WORDS, start + 12))

    def size_of(self, piece):
        """Bytes from the start of what moves to its end, or to that of a buffer in it that reaches further."""
        ends = [end for node in self.nodes for start, end in node.places if piece[0] <= start < piece[1]]
        return max([piece[1], *ends]) - piece[0]

    def random_place(self, size, pieces):
        """Where a piece of memory goes: next to what a node has, to where another is that moves too, or anywhere."""
        kind, (start, end) = self.draw.random(), self.draw.choice(self.draw.choice(self.nodes).places)
        if kind < 0.3:
            to = end
        elif kind < 0.6:
            to = start - size
        elif kind < 0.7:
            to = start
        elif kind < 0.8:
            to = self.draw.choice(pieces)[0]
        else:
            to = self.base + WORD * self.draw.randrange(WORDS)
        to += WORD * self.draw.choice((0, 0, 0, -1, 1)) - to % WORD  # a number too far, for some
        return min(max(to, self.base), self.base + WORD * WORDS - size)

    def random_moves(self):
        """Moves, mostly such as are allowed: what is refused makes the step forget what it knows of earlier ones."""
        if self.last and self.draw.random() < 0.15:
            back = sorted((to, to + end - start, start) for start, end, to in self.last)
            # The other recording may have a buffer there that reaches further.
            if all(to + self.size_of((start, end)) <= self.base + WORD * WORDS for start, end, to in back):
                return back
        pieces = []
        for piece in (self.random_piece() for _ in range(self.draw.choice((1, 1, 2, 3, 5)))):
            if self.draw.random() < 0.02 or not any(share(piece, other) for other in pieces):
                pieces.append(piece)
        if self.draw.random() < 0.98:
            pieces.sort()
        moves, tries = [], 1 if self.draw.random() < 0.15 else 50
        for piece in pieces:
            for _ in range(tries):
                move = (*piece, self.random_place(self.size_of(piece), pieces))
                if is_allowed(self.nodes, sorted([*moves, move, *((*p, p[0]) for p in pieces[len(moves) + 1 :])])):
                    break
            moves.append(move)
        return moves

    def move(self):
        """Move some memory, which is made, or refused and changes nothing."""
        moves, nodes = self.random_moves(), self.nodes
        is_made = is_allowed(nodes, moves)
        users = [i for i, node in enumerate(nodes) if node.moved([(s, e, s + 1) for s, e, _ in moves]) != node]
        before = (self.dump(), self.stats())
        if is_made:
            self.nodes = [node.moved(moves) for node in nodes]
            self.recordings[self.recordings.index(nodes)] = self.nodes
        arguments = (self.step, self.stream.core, len(moves), moves, self.outcome, self.ran)
        status = self.compare(lambda: lib.hiprt_step_move(*arguments))
        assert status == (0 if is_made else lib.HIPRT_E_ARGUMENT), moves
        self.counts["refused" if not is_made else "made" if users else "of nothing"] += 1
        if not is_made:
            assert (self.dump(), self.stats()) == before
            return
        self.check_dump()
        assert self.outcome.nodes == len(nodes)
        if ffi.string(self.outcome.reason).startswith(b"arrays moved"):
            assert (self.outcome.changed, self.outcome.first) == (len(users), min(users))
        self.last = moves
        self.known = [piece for piece in self.known if piece not in [(s, e) for s, e, _ in moves]]
        self.known += [(to, to + end - start) for start, end, to in moves]
        self.known = sorted(set(self.draw.sample(self.known, min(len(self.known), 16))))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_random_moves(stream, form, part):
    """Calls one behind the other are what an eager run at the new addresses does; what is refused changes nothing."""
    counts = Counter()
    for seed in part(range({"short": 80, "usual": 400, "long": 5000}[form])):
        machine = Machine(seed, stream)
        try:
            for _ in range(60):
                kind = machine.draw.random()
                (machine.record if kind < 0.04 else machine.again if kind < 0.1 else machine.move)()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        counts += machine.counts
    assert counts["made"] > counts["refused"] > 0, counts
    assert counts["of nothing"] > 0, counts
