"""A machine runs a random program (`helpers.program`) in numpy, or on the device in use."""

from contextlib import ExitStack
from functools import cache

import numpy as np

import hiprt
from helpers.program import Illegal, Op, View
from hiprt import graphs
from hiprt.compiler import compile_source
from hiprt.graphs.block import ladders
from hiprt.module import READ, READ_WRITE, SCALAR, WRITE

STALL, FACTOR = 3000, 1664525  # a long chain of arithmetic, so that streams have work in flight
HEAD = f"""
#define STALL {STALL}
#define FACTOR {FACTOR}u
#define NEXT int i = blockIdx.x * blockDim.x + threadIdx.x
#define AT(p) p[(i / cols) * p##0 + (i % cols) * p##1]
typedef unsigned int word;
"""
# name: buffers with access, and the body for element i of n; word arithmetic wraps around.
KERNELS = {
    "iota": ({"y": WRITE}, "AT(y) = i * (word)m + (word)c;"),
    "affine": ({"x": READ, "y": WRITE}, "AT(y) = AT(x) * (word)m + (word)c;"),
    "add": ({"x": READ, "y": READ_WRITE}, "AT(y) += AT(x) * (word)m + (word)c;"),
    "mix": ({"x": READ, "z": READ, "y": WRITE}, "AT(y) = (AT(x) * (word)m) ^ (AT(z) + (word)c);"),
    "swap": ({"x": READ_WRITE, "y": READ_WRITE}, "word t = AT(x) + (word)c; AT(x) = AT(y) ^ (word)m; AT(y) = t;"),
    "turn": (
        {"x": READ, "y": WRITE},
        "word t = AT(x); int k = i; i = (k + (word)m % n) % n; t += AT(x); i = k; AT(y) = t;",
    ),
    "stall": ({"y": READ_WRITE}, "word t = AT(y); for (int k = 0; k < STALL; k++) t = t * FACTOR + 1; AT(y) = t;"),
    "secret": ({"y": SCALAR}, "AT(y) = AT(y) * (word)m + (word)c;"),
}
TOTAL = """
extern "C" __global__ void total(const word* x, word* y, int x0, int x1, int y0, int y1, int m, int c, int cols,
                                 int n) {
  extern __shared__ word part[];
  part[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) part[threadIdx.x] += AT(x);
  __syncthreads();
  if (threadIdx.x == 0) {
    word sum = (word)c;
    for (unsigned k = 0; k < blockDim.x; k++) sum += part[k];
    y[0] = sum * (word)m;
  }
}
"""

KEPT = ("kept", "moved", "overwritten")
LIFE = 4  # statements for which the results of a call are used and watched


def walk(array, path):
    """Follow a view's path; numpy and hiprt arrays index alike."""
    for kind, *rest in path:
        if kind == "slice":
            axis, low, high, step = rest
            array = array[(slice(None),) * (axis if axis < array.ndim else 0) + (slice(low, high, step),)]
        elif kind == "row":
            array = array[rest[0] % array.shape[0]] if array.ndim == 2 and array.shape[0] else array
        elif kind == "T":
            array = array.T
    return array


def plane(array):
    """Return an array with two axes."""
    return array[None] if array.ndim == 1 else array


def fit(targets, sources):
    """Trim operands to common sizes; of a source, an axis of size 1 serves all."""
    targets, sources = [plane(array) for array in targets], [plane(array) for array in sources]
    shape = []
    for axis in range(2):
        sizes = [t.shape[axis] for t in targets] + [s.shape[axis] for s in sources if s.shape[axis] != 1]
        shape.append(min(sizes, default=1))
    targets = [t[: shape[0], : shape[1]] for t in targets]
    sources = [s[: shape[0] if s.shape[0] != 1 else 1, : shape[1] if s.shape[1] != 1 else 1] for s in sources]
    return targets, sources, tuple(shape)


class Machine:
    """Runs a program over some kind of arrays; `Host` and `Device` say which."""

    def __init__(self, program):
        self.program = program
        self.scope = {}
        self.born = {}
        self.seen = []

    def start(self):
        """Make the buffers."""
        for i, (name, shape) in enumerate(self.program.buffers.items()):
            self.scope[name] = self.array(initial(i, shape))

    def run(self):
        """Run the program statement by statement."""
        self.start()
        for i, statement in enumerate(self.program.statements):
            self.at = i, -1, 0
            with self.configured(i):
                self.execute(i, statement)
            self.observe(i)
            yield

    def execute(self, i, statement):
        """Run one statement."""
        if statement.kind == "new":
            self.scope[statement.name] = self.array(initial(i + 10, statement.shape))
        elif statement.kind == "ops":
            self.run_ops(-1, statement.ops, self.scope)
        else:
            args = tuple(self.view(view, self.scope) for view in statement.args)
            results = self.call(statement.step, args, statement.numbers, statement.key)
            self.forget(i, statement, args, results)
            names = [f"{statement.name}_{k}" for k in range(len(results))]
            self.scope.update(zip(names, results))
            self.born.update(dict.fromkeys(names, i))

    def body(self, index, args, numbers):
        """Run a step's body and return its results."""
        body = self.program.bodies[index]
        scope = {name: array for name, array in self.scope.items() if name[0] == "g"}
        scope.update({f"a{k}": array for k, array in enumerate(args)})
        scope.update({f"s{k}": number for k, number in enumerate(numbers)})
        self.run_ops(index, body.ops, scope)
        self.at = self.at[0], index, -1
        return tuple(self.view(view, scope) for view in body.results)

    def run_ops(self, body, ops, scope):
        """Run operations one after the other."""
        before = self.at
        for k, op in enumerate(ops):
            self.at = before[0], body, k
            if op.guard is None or self.number("h", scope) % 2 == op.guard:
                self.run_op(op, scope)
        self.at = before

    def run_op(self, op, scope):
        """Run one operation."""
        kind = op.kind
        sources = [self.view(view, scope) for view in op.sources]
        numbers = tuple(self.number(n, scope) for n in op.numbers)
        if kind == "free":
            if scope.pop(op.target.name, None) is None:
                raise Illegal(op.target.name)
        elif kind == "sync":
            self.sync()
        elif kind == "call":
            for k, result in enumerate(self.call(op.callee, tuple(sources), numbers, None)):
                scope[f"{op.target}_{k}"] = result
        elif kind == "read":
            scope["h"] = self.read(sources[0]) & 0xFF
        elif kind == "set":
            self.set(self.view(op.target, scope), numbers[0])
        elif kind in ("copy", "fill"):
            self.run_plain(op, scope, sources, numbers)
        else:
            self.run_kernel(op, scope, sources, numbers)

    def run_plain(self, op, scope, sources, numbers):
        """Copy or fill contiguous memory."""
        if isinstance(op.target, str):
            scope[op.target] = target = self.empty(sources[0].shape)
        else:
            target = self.view(op.target, scope)
        arrays = [self.flat(array) for array in (target, *sources[: op.kind == "copy"])]
        size = min(array.size for array in arrays)
        arrays = [array[:size] for array in arrays]
        if op.kind == "copy":
            self.copy(*arrays)
        else:
            self.fill(arrays[0], numbers[0] & 0xFF)

    def run_kernel(self, op, scope, sources, numbers):
        """Launch a kernel over what its operands have in common."""
        if op.kind == "total":
            if isinstance(op.target, str):
                scope[op.target] = self.empty((1,))
            target = plane(self.view(View(op.target) if isinstance(op.target, str) else op.target, scope))[:1, :1]
            (source,) = map(plane, sources)
            if target.size:
                self.kernel(op, [target], [source], numbers, source.shape)
            return
        fresh = isinstance(op.target, str)
        targets = [] if fresh else [self.view(op.target, scope)]
        if op.kind == "swap":
            targets.append(sources.pop())
        targets, sources, shape = fit(targets, sources)
        if fresh:
            if op.kind == "iota":
                shape = (1, 16)
            scope[op.target] = target = self.empty(shape)
            targets = [target]
        self.kernel(op, targets, sources, numbers, shape)

    def view(self, view, scope):
        """Return the array a view names."""
        if view.name not in scope:
            raise Illegal(view.name)
        return walk(scope[view.name], view.path)

    def number(self, number, scope):
        """Return a number, which may be a name."""
        if isinstance(number, str):
            if number not in scope:
                raise Illegal(number)
            return scope[number]
        return number

    @property
    def observed(self):
        """Return the names whose contents must be right after a statement."""
        return sorted(name for name in self.scope if name[0] in "gpr")


def initial(index, shape):
    """Return a buffer's first contents."""
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.uint32) * 2654435761 + 97 * index).astype(np.uint32).view(np.int32).reshape(shape)


def positions(array):
    """Return the address of each element."""
    at = np.int64(array.__array_interface__["data"][0])
    for n, step in zip(array.shape, array.strides):
        at = np.asarray(at)[..., None] + np.arange(n) * step
    return at


def root(array):
    """Return the array whose memory a view shows."""
    return array if array.base is None else array.base


class Host(Machine):
    """Runs a program in numpy; raises `Illegal` where a kernel's result would depend on the order of its threads."""

    def __init__(self, program):
        super().__init__(program)
        self.kept = {}

    def configured(self, _):
        return ExitStack()

    def array(self, values):
        return values.copy()

    def empty(self, shape):
        return np.full(shape, 0x5A5A5A5A, np.int32)

    def flat(self, array):
        if not array.flags.c_contiguous:
            raise Illegal("not contiguous")
        return array.reshape(-1)

    def forget(self, i, statement, args, results):
        """Forget results of long ago, and what shares memory with a kept step's results when they are overwritten.

        That is what the next call does that looks the same.
        """
        form = statement.step, tuple(a.shape for a in args), statement.numbers
        overwritten = [root(array) for array in self.kept.pop(form, ())]
        if self.program.bodies[statement.step].style == "overwritten":
            self.kept[form] = results
        for name in [name for name in self.born if name in self.scope]:
            if self.born[name] < i - LIFE or any(root(self.scope[name]) is other for other in overwritten):
                del self.scope[name]

    def sync(self):
        pass

    def call(self, index, args, numbers, _):
        if self.program.bodies[index].style == "moved":
            # Such a step may use what it is given by no other name.
            shared = [root(array) for name, array in self.scope.items() if name[0] == "g"]
            if any(root(array) is other for array in args for other in shared):
                raise Illegal("an argument has another name")
        return self.body(index, args, numbers)

    def observe(self, i):
        self.seen += [(i, name, self.scope[name].copy()) for name in self.observed]

    def read(self, array):
        if not array.size:
            raise Illegal("nothing to read")
        return int(array.reshape(-1)[0])

    def set(self, array, number):
        self.flat(array)[:] = number

    def copy(self, target, source):
        self.check([target], [source], exact=False)
        target[:] = source

    def fill(self, array, byte):
        array[:] = np.full(array.shape, byte * 0x01010101, np.uint32).view(np.int32)

    @staticmethod
    def check(targets, sources, *, exact):
        """Refuse operands of which one thread writes what another touches; `exact` ones may be the same."""
        written = [positions(array) for array in targets]
        read = [positions(array) for array in sources]
        for i, mine in enumerate(written):
            for k, other in enumerate([*written[i + 1 :], *read]):
                if not mine.size or not other.size or other.max() < mine.min() or mine.max() < other.min():
                    continue
                is_read = k >= len(written) - i - 1
                same = exact and is_read and (mine == other).all()
                if not same and np.isin(mine, other).any():
                    raise Illegal("race")

    def kernel(self, op, targets, sources, numbers, shape):
        m, c = (np.uint32(n & 0xFFFFFFFF) for n in numbers)
        self.check(targets, sources, exact=op.kind not in ("turn", "total"))
        words = [array.view(np.uint32) for array in targets]
        sources = [s if op.kind == "total" else np.broadcast_to(s, shape) for s in sources]
        x, z = ([s.view(np.uint32) for s in sources] + [None] * 2)[:2]
        y = words[0]
        if op.kind == "iota":
            y[:] = np.arange(y.size, dtype=np.uint32).reshape(y.shape) * m + c
        elif op.kind == "affine":
            y[:] = x * m + c
        elif op.kind == "add":
            y += x * m + c
        elif op.kind == "mix":
            y[:] = (x * m) ^ (z + c)
        elif op.kind == "swap":
            other = words[1]
            y[:], other[:] = other ^ m, y + c
        elif op.kind == "turn":
            y[:] = x + np.roll(x.reshape(-1), -int(m % np.uint32(max(x.size, 1)))).reshape(shape)
        elif op.kind == "stall":
            factor, rest = stalled()
            y[:] = y * factor + rest
        elif op.kind == "total":
            y[:] = (np.sum(x, dtype=np.uint32).reshape(1, 1) + c) * m
        else:
            y[:] = y * m + c


@cache
def stalled():
    """Return what the kernel ``stall`` multiplies by and adds."""
    factor, rest = 1, 0
    for _ in range(STALL):
        factor, rest = factor * FACTOR % 2**32, (rest * FACTOR + 1) % 2**32
    return np.uint32(factor), np.uint32(rest)


@cache
def functions():
    """Compile the kernels for the device in use."""
    text, tables = [HEAD], {}
    for name, (buffers, body) in KERNELS.items():
        arguments = [f"{'const ' * (access == READ)}word* {b}" for b, access in buffers.items()]
        arguments += [f"int {b}{k}" for b in buffers for k in range(2)] + ["int m", "int c", "int cols", "int n"]
        text.append(f'extern "C" __global__ void {name}({", ".join(arguments)}) {{ NEXT; if (i < n) {{ {body} }} }}')
        tables[name] = buffers
    tables["total"] = {"x": READ, "y": WRITE}
    code, _ = compile_source("\n".join([*text, TOTAL]), "program.hip")
    module = hiprt.Module(code)
    made = {}
    for name, buffers in tables.items():
        table = [hiprt.Argument(b, access, "" if access else "uint64") for b, access in buffers.items()]
        numbers = [f"{b}{k}" for b in buffers for k in range(2)] + ["m", "c", "cols", "n"]
        made[name] = hiprt.Function(module, name, table + [hiprt.Argument(n, SCALAR, "int32") for n in numbers])
    return made


class Device(Machine):
    """Runs a program on the device in use, on a stream of its own.

    Parameters
    ----------
    program : Program
    seen : list
        What `Host` has seen, for its sizes.
    """

    def __init__(self, program, seen, *, is_configured=True):
        super().__init__(program)
        self.stream = hiprt.Stream()
        self.functions = functions()
        self.is_configured = is_configured
        self.steps = []
        self.log = None
        self.sizes = sum(values.size for _, _, values in seen)
        self.names = [{name for at, name, _ in seen if at == i} for i in range(len(program.statements))]
        self.used = 0
        self.parts = []

    def start(self):
        with hiprt.use_stream(self.stream):
            super().start()
            self.log = hiprt.empty(max(self.sizes, 1), np.int32)
        for i, body in enumerate(self.program.bodies):
            self.steps.append(self.step(i, body))

    def step(self, index, body):
        """Return a function that calls a step with (args, numbers, key) and returns its results."""

        def function(*values):
            return self.body(index, values[: body.n_args], values[body.n_args :])

        if body.style != "block":
            return graphs.Step(
                function,
                name=f"fuzz {body.style}",
                stream=self.stream,
                keep=body.style in KEPT,
                moves=body.style == "moved",
                overwrite=body.style == "overwritten",
            )
        # Blocks of one name share executable graphs; no two programs may, to run again alike.
        return f"fuzz block {self.program.seed} {id(self)} {index}"

    def call(self, index, args, numbers, key):
        step = self.steps[index]
        if not isinstance(step, str):
            return step(*args, *numbers, key=key)
        with graphs.step(step, key=key, stream=self.stream):
            return self.body(index, args, numbers)

    def close(self):
        """Drop every array and step, once the stream's work has finished."""
        self.stream.synchronize()
        for step in self.steps:
            if isinstance(step, str):
                ladders.pop(step, None)
        self.scope.clear()
        self.steps.clear()
        self.parts.clear()
        self.log = None
        self.stream.close()

    def reasons(self):
        """Yield why steps ran eagerly, where nothing asked for it."""
        for step in self.steps:
            if isinstance(step, str):
                found = ladders[step].stats.reasons if step in ladders else ()
            else:
                found = step.reasons
            asked = ("eager: HIPRT_GRAPH", "eager: recorded while HIPRT_GRAPH", "eager: the step launched nothing")
            yield from (reason for reason in found if reason.startswith("eager:") and not reason.startswith(asked))

    def configured(self, i):
        """Launch on the program's stream, and under the statement's flags where they are not those of all."""
        stack = ExitStack()
        stack.enter_context(hiprt.use_stream(self.stream))
        configs = self.program.configs
        if self.is_configured and len(configs) > 1:
            stack.enter_context(hiprt.flags.override(**configs[i % len(configs)].flags))
        return stack

    def array(self, values):
        return hiprt.array(values)

    def empty(self, shape):
        return hiprt.empty(shape, np.int32)

    def flat(self, array):
        return array.reshape(-1)

    def forget(self, i, *_):
        """Drop the arrays that `Host` dropped."""
        for name in [name for name in self.born if name in self.scope and name not in self.names[i]]:
            del self.scope[name]

    def sync(self):
        self.stream.synchronize()

    def read(self, array):
        return int(array.numpy().reshape(-1)[0])

    def set(self, array, number):
        array.set(np.full(array.shape, number, np.int32))

    def copy(self, target, source):
        target.copy_from(source)

    def fill(self, array, byte):
        array.fill_bytes(byte)

    def kernel(self, op, targets, sources, numbers, shape):
        """Launch; undeclared work stands between barriers."""
        if op.kind == "swap":
            arrays = [targets[0], targets[1]]
        else:
            arrays = [*(self.broadcast(s, shape) for s in sources), *targets]
        strides = [step for array in arrays for step in array.strides]
        size = shape[0] * shape[1]
        if op.kind == "secret":
            arrays = [targets[0].address]
            self.stream.barrier()
        launch, block = self.functions[op.kind].launch, (op.block, 1, 1)
        values = (*arrays, *strides, *numbers, shape[1], size)
        if op.kind == "total":
            launch(self.stream, (1, 1, 1), block, *values, shared=4 * op.block)
        else:
            launch(self.stream, (-(-size // op.block), 1, 1), block, *values)
        if op.kind == "secret":
            self.stream.barrier()

    @staticmethod
    def broadcast(array, shape):
        """Return a view with stride 0 along the axes that serve all."""
        if array.shape == shape:
            return array
        strides = tuple(0 if n == 1 else step for n, step in zip(array.shape, array.strides))
        return hiprt.Array(array.buffer, shape, array.dtype, array.address, strides)

    def observe(self, i):
        """Copy what must be right into the log, on the device and in stream order, or read it."""
        with hiprt.use_stream(self.stream):
            for name in self.observed:
                array = self.scope[name]
                if self.program.is_read_at_once:
                    self.seen.append((i, name, array.numpy()))
                    continue
                source = plane(array)
                part = self.log[self.used : self.used + array.size].reshape(source.shape)
                self.used += array.size
                self.parts.append((i, name, array.shape))
                self.kernel(Op("affine"), [part], [source], (1, 0), source.shape)

    def finish(self):
        """Return what each statement left in the buffers."""
        if self.parts:
            values, at = self.log.numpy(self.stream), 0
            for i, name, shape in self.parts:
                size = int(np.prod(shape))
                self.seen.append((i, name, values[at : at + size].reshape(shape)))
                at += size
        return self.seen
