"""Random programs of device work, as data: what a program is, and how a seed makes one.

A program is a list of statements over a few int32 buffers: calls of steps (kept, issued again, or blocks; nested), work
outside of steps, and replaced buffers. Operands are views that may overlap. `helpers.machine` runs programs,
`helpers.fuzz` compares what comes out.
"""

import random
from dataclasses import dataclass, fields, replace

SHAPES = ((7,), (32,), (45,), (4, 9), (6, 6), (2, 20))
ALL_RUNGS = ("replay", "patch", "update", "instantiate", "eager")
LIMITED = (("replay", "patch", "instantiate"), ("replay", "update", "instantiate"), ("patch", "instantiate"),
           ("update", "instantiate"), ("instantiate",), ("replay", "instantiate"), ("eager",))  # fmt: skip


class Illegal(Exception):
    """A program has no defined result: a race within a kernel, or a name that is not there."""


@dataclass(frozen=True)
class View:
    """A named array, then slices of it."""

    name: str
    path: tuple = ()

    def __str__(self):
        text = self.name
        for kind, axis, *rest in self.path:
            if kind == "slice":
                low, high, step = ("" if part is None else part for part in rest)
                text += "[" + ":, " * axis + f"{low}:{high}:{step}]"
            else:
                text += f"[{axis}]" if kind == "row" else f".{kind}"
        return text


@dataclass(frozen=True)
class Op:
    """One operation; `target` is an existing view, or the name of a new temporary."""

    kind: str
    target: View | str = ""
    sources: tuple[View, ...] = ()
    numbers: tuple = (1, 0)
    guard: int | None = None  # run only when the last host read was odd (1) or even (0)
    callee: int = -1
    block: int = 32

    def __str__(self):
        numbers = ", ".join(map(str, self.numbers))
        sources = ", ".join(map(str, self.sources))
        text = f"{self.kind}({', '.join(part for part in (sources, numbers) if part)})"
        if self.kind == "call":
            text = f"step{self.callee}({', '.join(part for part in (sources, numbers) if part)})"
        new = "new " if isinstance(self.target, str) and self.target else ""
        text = f"{new}{self.target} = {text}" if self.target else text
        return text if self.guard is None else f"if h % 2 == {self.guard}: {text}"


@dataclass(frozen=True)
class Body:
    """A step: how it is called, and what it does. Arguments are a0 …, numbers s0 ….

    Styles: ``kept``, ``moved`` (kept, and other arrays are patched in), ``overwritten`` (kept, and the next call writes
    over its results), ``issued`` again each time, and ``block``.
    """

    style: str
    ops: tuple[Op, ...]
    results: tuple[View, ...] = ()
    n_args: int = 0
    n_numbers: int = 0


@dataclass(frozen=True)
class Statement:
    """``call`` a step (results: name_0 …), do ``ops`` outside of one, or ``new``: replace buffer p… by another."""

    kind: str
    step: int = -1
    args: tuple[View, ...] = ()
    numbers: tuple[int, ...] = ()
    key: str | None = None
    ops: tuple[Op, ...] = ()
    name: str = ""
    shape: tuple[int, ...] = ()

    def __str__(self):
        if self.kind == "new":
            return f"{self.name} = array{self.shape}"
        if self.kind == "ops":
            return "; ".join(map(str, self.ops))
        key = f", key={self.key!r}" if self.key else ""
        return f"{self.name} = step{self.step}({', '.join(map(str, self.args + self.numbers))}{key})"


@dataclass(frozen=True)
class Config:
    """Flags a program runs under."""

    graph_rungs: tuple[str, ...] = ALL_RUNGS
    graph_edges: str = "data"
    graph_fanout: int = 4
    graph_max_nodes: int = 0
    graph_max_bytes: int = 0
    graph_slots: int = 4
    graph_keys: int = 64
    graph_update_budget: int = 10000
    graph_force_eager_from: int = 0
    graph_force_eager_to: int = 0
    alloc_plan: bool = True

    @property
    def flags(self):
        """The flags by name, as `hiprt.flags.override` takes them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self):
        changed = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return ", ".join(changed) or "defaults"


@dataclass(frozen=True)
class Program:
    """Buffers g… (also used by the steps' bodies) and p… (only passed to them), steps, and what happens in order."""

    seed: int
    buffers: dict
    bodies: tuple[Body, ...]
    statements: tuple[Statement, ...]
    configs: tuple[Config, ...] = (Config(),)
    is_read_at_once: bool = False  # by the host after every statement, else copied on the device and read at the end

    def __str__(self):
        lines = [f"seed {self.seed}" + (", read at once" if self.is_read_at_once else "")]
        lines += [f"flags: {config}" for config in self.configs]
        lines += [f"{name} = array{shape}" for name, shape in self.buffers.items()]
        for i, body in enumerate(self.bodies):
            names = [f"a{k}" for k in range(body.n_args)] + [f"s{k}" for k in range(body.n_numbers)]
            lines += [f"{body.style} step{i}({', '.join(names)}):", *(f"    {op}" for op in body.ops)]
            lines.append(f"    return {', '.join(map(str, body.results))}")
        return "\n".join([*lines, *(f"{i}: {statement}" for i, statement in enumerate(self.statements))])


class Writer:
    """A writer draws a program. Parts without a defined result are removed afterwards.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.count = 0
        # Short steps that change what they are given, called with one array after the other.
        self.is_lean = self.chance(0.3)
        self.stall = self.random.choice((0, 0, 0, 1.5))

    def chance(self, share):
        """Return True in this share of calls."""
        return self.random.random() < share

    def program(self):
        """Return a program."""
        draw = self.random
        usual, share = draw.choice(SHAPES), 1 if self.is_lean else draw.choice((0.6, 1))
        names = [f"g{i}" for i in range(draw.randint(1, 2))] + [
            f"p{i}" for i in range(2 if self.is_lean else draw.randint(2, 5))
        ]
        buffers = {name: usual if self.chance(share) else draw.choice(SHAPES) for name in names}
        shared = [name for name in names if name[0] == "g"]
        bodies = []
        for _ in range(1 if self.is_lean else draw.choice((1, 1, 2, 3))):
            bodies.append(self.body(shared, bodies))
        configs = tuple(self.config() for _ in range(draw.choice((1, 1, 1, 2))))
        return Program(self.seed, buffers, tuple(bodies), self.statements(buffers, bodies), configs, self.chance(0.15))

    def config(self):
        """Return flags: a third of the time as they are, else some of them changed."""
        draw = self.random
        if self.chance(0.8 if self.is_lean else 0.33):
            return Config()
        changes = {
            "graph_rungs": lambda: draw.choice(LIMITED),
            "graph_edges": lambda: draw.choice(("chain", "both")),
            "graph_fanout": lambda: draw.choice((0, 2, 3)),
            "graph_max_nodes": lambda: draw.randint(1, 8),
            "graph_max_bytes": lambda: draw.choice((64, 256, 1024)),
            "graph_slots": lambda: draw.choice((1, 2)),
            "graph_keys": lambda: draw.choice((1, 2)),
            "graph_update_budget": lambda: draw.choice((1, 3, 10)),
        }
        chosen = {name: change() for name, change in changes.items() if self.chance(0.25)}
        if self.chance(0.15):
            begin = draw.randint(0, 6)
            chosen |= {"graph_force_eager_from": begin, "graph_force_eager_to": begin + draw.randint(1, 6)}
        if self.chance(0.2):
            chosen["alloc_plan"] = False
        return Config(**chosen)

    def view(self, names, share=0.5):
        """Return a view of one of the names, likelier of a late one."""
        draw = self.random
        path = []
        while self.chance(share) and len(path) < 2:
            kind = draw.choice(("slice", "slice", "slice", "T", "row"))
            if kind == "slice":
                bounds = draw.choice((None, None, 0, 1, 3, 8)), draw.choice((None, None, -1, 5, 20))
                step = draw.choice((None, None, 2, 3, -1, -2))
                if step is not None and step < 0:
                    bounds = bounds[::-1] if self.chance(0.5) else (None, None)
                path.append(("slice", draw.randint(0, 1), *bounds, step))
            else:
                path.append((kind, draw.randint(0, 5)) if kind == "row" else (kind, 0))
        return View(names[max(draw.randrange(len(names)), draw.randrange(len(names)))], tuple(path))

    def body(self, shared, callees):
        """Return a step that may call the ones before."""
        draw = self.random
        n_args, n_numbers = (draw.randint(1, 2), 1) if self.is_lean else (draw.randint(1, 3), draw.randint(0, 2))
        names = shared + [f"a{i}" for i in range(n_args)]
        numbers = [f"s{i}" for i in range(n_numbers)]
        size = draw.randint(1, 4) if self.is_lean else draw.randint(3, 12)
        ops, names = self.ops(names, numbers, size, callees, is_split=not self.is_lean and self.chance(0.15))
        results = tuple(self.view(names, 0.2) for _ in range(draw.choice((0, 0, 1) if self.is_lean else (0, 1, 1, 2))))
        usual = ("kept", "overwritten", "moved", "issued", "block")
        styles = ("kept", "moved", "moved") if self.is_lean else usual
        return Body(draw.choice(styles), tuple(ops), results, n_args, n_numbers)

    def ops(self, names, numbers, count, callees=(), *, is_split=False):
        """Return operations, and the names there are after them."""
        draw, names, numbers, ops = self.random, list(names), list(numbers), []
        kinds = {"affine": 5, "add": 4, "mix": 4, "swap": 2, "turn": 2, "total": 1, "iota": 1, "copy": 2, "fill": 1,
                 "secret": 0.5, "free": 1.5, "fan": 0.3, "stall": self.stall, "call": 1.5 * bool(callees)}  # fmt: skip
        if is_split:
            kinds |= {"read": 1.5, "set": 0.7, "sync": 0.7}
        while len(ops) < count:
            kind = draw.choices(list(kinds), kinds.values())[0]
            ops += self.op(kind, names, numbers, callees)
            if kind == "read" and "h" not in numbers:
                numbers.append("h")
        return ops, names

    def op(self, kind, names, numbers, callees):
        """Return an operation (of a fan, several), and note the names that it makes."""
        draw = self.random
        block = draw.choice((32, 32, 16, 5))
        pair = tuple(draw.choice(numbers) if numbers and self.chance(0.3) else draw.randint(-4, 9) for _ in range(2))
        guard = draw.randint(0, 1) if "h" in numbers and self.chance(0.3) else None
        if kind == "fan":
            leaves = [self.op("affine", names[:1], numbers, ())[0] for _ in range(draw.randint(5, 9))]
            made = [leaf.target if isinstance(leaf.target, str) else leaf.target.name for leaf in leaves]
            names += [name for name in made if name not in names]
            return [*leaves, *(Op("add", self.view(names), (View(name),), pair) for name in made)]
        if kind == "call":
            callee = draw.randrange(len(callees))
            body = callees[callee]
            views = tuple(self.view(names, 0.2) for _ in range(body.n_args))
            op = Op(kind, self.fresh(), views, tuple(draw.randint(0, 3) for _ in range(body.n_numbers)), None, callee)
            names += [f"{op.target}_{k}" for k in range(len(body.results))]
            return [op]
        if kind in ("read", "sync"):
            return [Op(kind, "", (self.view(names),) if kind == "read" else (), ())]
        if kind == "free":
            made = [name for name in names if name[0] == "t"]
            return [Op(kind, View(names.pop(names.index(draw.choice(made)))), (), ())] if len(made) > 1 else []
        target = self.view([n for n in names if n[0] == "g"] if kind == "secret" else names, 0.4)
        if kind not in ("add", "swap", "secret", "set", "stall") and self.chance(0.3 if self.is_lean else 0.6):
            target = self.fresh()
        sources = {"iota": 0, "secret": 0, "set": 0, "stall": 0, "mix": 2}.get(kind, 1)
        views = tuple(self.view(names) for _ in range(sources))
        if isinstance(target, str) and guard is None:
            names.append(target)
        return [Op(kind, target, views, pair, guard, -1, block)]

    def fresh(self):
        """Return a new name."""
        self.count += 1
        return f"t{self.count}"

    def statements(self, buffers, bodies):
        """Return what happens: few different calls, again and again, with other work between."""
        draw = self.random
        names, made, calls, results = list(buffers), [], [], []
        replaced = [name for name in names if name[0] == "p"]
        weights = (2, 5, 4, 0, 0.5) if self.is_lean else (2, 3, 4, 1.5, 1)
        for _ in range(draw.randint(6, 12) if self.is_lean else draw.randint(4, 9)):
            kind = draw.choices(("call", "other", "again", "ops", "new"), weights)[0]
            if kind == "new":
                made.append(Statement("new", name=draw.choice(replaced), shape=draw.choice(tuple(buffers.values()))))
            elif kind == "ops":
                made.append(Statement("ops", ops=tuple(self.ops(names, (), draw.randint(1, 3), is_split=True)[0])))
            else:
                if kind == "call" or not calls:
                    calls.append(self.call(bodies, names + results, replaced))
                elif kind == "other":
                    calls.append(self.other(draw.choice(calls), names + results))
                made.append(draw.choice(calls[-6:] if self.is_lean else calls[-3:]))
                results = [f"{made[-1].name}_{k}" for k in range(len(bodies[made[-1].step].results))]
        return tuple(made)

    def call(self, bodies, names, replaced):
        """Return a call of a step; mostly with whole buffers, sometimes with results of earlier calls."""
        draw = self.random
        step = draw.randrange(len(bodies))
        body = bodies[step]
        pool = list(replaced if self.chance(0.7) else names)
        draw.shuffle(pool)
        if self.chance(0.8 if self.is_lean else 0.6):
            args = [View(pool[k % len(pool)]) for k in range(body.n_args)]
        else:
            args = [self.view(names, 0.4) for _ in range(body.n_args)]
        key = draw.choice((None, None, None, "one", "two"))
        numbers = tuple(draw.randint(1, 3) for _ in range(body.n_numbers))
        self.count += 1
        return Statement("call", step, tuple(args), numbers, key, name=f"r{self.count}")

    def other(self, call, names):
        """Return a call with other arguments, often of the same shapes."""
        draw = self.random
        args = list(call.args)
        for k, arg in enumerate(args):
            if self.chance(0.5):
                args[k] = View(draw.choice(names), arg.path)
        share = 0.4 if self.is_lean else 0.2
        numbers = tuple(draw.randint(1, 3) if self.chance(share) else number for number in call.numbers)
        self.count += 1
        return replace(call, args=tuple(args), numbers=numbers, name=f"r{self.count}")


def without(items, index):
    """Return a tuple without one of its items."""
    return items[:index] + items[index + 1 :]


def drop(program, statement, body, op):
    """Return a program without what stands at a place: an operation, a body's results (op -1), or a statement."""
    if body >= 0:
        old = program.bodies[body]
        new = replace(old, results=()) if op < 0 else replace(old, ops=without(old.ops, op))
        return replace(program, bodies=(*program.bodies[:body], new, *program.bodies[body + 1 :]))
    old = program.statements[statement]
    if old.kind == "ops" and len(old.ops) > 1:
        new = (replace(old, ops=without(old.ops, op)),)
    else:
        new = ()
    return replace(program, statements=program.statements[:statement] + new + program.statements[statement + 1 :])
