"""Mutated inputs: each is taken for what it is, or refused with an error that says so; never a crash, a hang, or a lie.

`python -m faults.mutations KIND COUNT SEED` runs cases of one kind in this process, under limits of time and memory;
`python -m faults.mutations all FILE` runs 10,000 of each and writes what was found.
"""

import copy
import ctypes
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import tracemalloc
from collections import Counter
from pathlib import Path

import msgpack
import numpy as np

MEMORY, SECONDS = 8 << 30, 10  # of address space for a child; for a case
SPECIAL = (0, 1, -1, 2, 63, 64, 65, 255, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, -(2**63), 2**64, 10**30)
TEXTS = (
    "",
    " ",
    "null",
    "nan",
    "inf",
    "-0",
    "1e9",
    "\0",
    "é",
    "²",
    "read",
    "write float32 over x",
    "a,b",
    "%s",
    "9" * 4301,
)


def mutated(data, chance):
    """Return bytes after a few changes: bits, bytes, pieces that are cut, doubled or put elsewhere."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at, much = chance.randrange(len(data) + 1), chance.choice((1, 1, 2, 8, 64))
        kind = chance.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at : at + much] = chance.randbytes(much)
        elif kind == 2:
            del data[at : at + much]
        elif kind == 3:
            data[at:at] = data[at : at + much]
        elif kind == 4:
            del data[at:]
        else:
            data[at:at] = chance.choice(TEXTS).encode()
    return bytes(data)


def mutated_text(text, chance):
    """Return a text after a few changes."""
    return mutated(text.encode(), chance).decode("latin-1")


def says(error, what=""):
    """See that an error begins with what is wrong."""
    assert str(error).startswith(what), error
    assert str(error), repr(error)


def number(chance):
    """Return a number, which is often one at a bound."""
    return chance.choice(SPECIAL) if chance.random() < 0.6 else chance.randrange(-(2 ** chance.randrange(1, 66)), 2**66)


class CacheEntries:
    """Files of the cache of compiled kernels: what is loaded is what was stored, or nothing."""

    def __init__(self, folder):
        from hiprt.cache_key import digest
        from hiprt.code_cache import CodeCache

        self.cache, self.key = CodeCache(folder), digest(["a program"])
        self.entry = b"\x7fELF" + bytes(range(256)), {"&k<float>": "_Z1kIfE"}
        self.cache.store("cpu", self.key, *self.entry)
        (self.file,) = (each for each in folder.rglob("*") if each.is_file())
        self.whole = self.file.read_bytes()

    def case(self, chance):
        """Load a mutated file, or one whose content was never what it should be."""
        from hiprt.core import lib

        if chance.random() < 0.7:
            self.file.write_bytes(mutated(self.whole, chance))
            found = self.cache.load("cpu", self.key)
            assert found in (None, self.entry), found
        else:
            content = mutated(json.dumps(self.entry[1]).encode() + b"\n" + self.entry[0], chance)
            assert not lib.hiprt_cache_store(self.cache.place, b"cpu", self.key.encode(), content, len(content), 0)
            found = self.cache.load("cpu", self.key)
            assert found is None or all(map(str.__instancecheck__, found[1])), found
        return found is not None


class Probes:
    """Files of probe results: all results as texts, or none."""

    def __init__(self, folder):
        import hiprt
        from hiprt.graphs.launch import probes

        self.probes, self.device, self.file = probes, hiprt.current_device(), folder / "probes.json"
        probes.cache_file = lambda device: self.file
        probes.store(self.device, dict.fromkeys(probes.PROBES, probes.OK))
        self.whole = self.file.read_bytes()

    def case(self, chance):
        """Load a mutated file."""
        self.file.write_bytes(mutated(self.whole, chance))
        found = self.probes.load(self.device)
        assert found is None or list(found) == list(self.probes.PROBES), found
        assert all(isinstance(result, str) for result in (found or {}).values()), found
        return found is not None


class Flags:
    """Values of environment variables: a value, or an error that names the variable."""

    def __init__(self, folder):
        from hiprt.flags import names, spelled

        self.flags, self.spelled = list(names().values()), spelled

    def case(self, chance):
        """Read one flag that has a mutated value."""
        flag = chance.choice(self.flags)
        text = self.spelled(flag.default)
        value = chance.choice(
            (chance.choice(TEXTS), str(number(chance)), mutated(text.encode(), chance).decode("latin-1"))
        )
        value = value.replace("\0", "")
        os.environ[flag.name] = value
        try:
            found = flag.read()
        except ValueError as error:
            says(error, flag.name + "=")
            return False
        finally:
            del os.environ[flag.name]
        if isinstance(found, int):
            assert -1 <= found < 2**63, found
        return True


class Capsules:
    """DLPack capsules whose fields are wrong: an array within one address space, or an error; let go of once."""

    ERRORS = (BufferError, ValueError)

    def __init__(self, folder):
        from hiprt import dlpack

        self.dlpack, self.memory = dlpack, np.zeros(4096, np.uint8)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.new, self.gone = new, 0
        self.deleter = dlpack.Deleter(self.let_go)

    def let_go(self, pointer):
        """Count what the consumer lets go of."""
        self.gone += 1

    def case(self, chance):
        """Take a mutated tensor."""
        import hiprt

        dlpack = self.dlpack
        is_versioned = chance.random() < 0.5
        made = (dlpack.Versioned if is_versioned else dlpack.Legacy)()
        tensor = made.tensor
        ndim = chance.choice((0, 1, 2, 2, 3))
        # Both have 64 axes, so that no count of axes that is taken is a lie about memory.
        shape, strides = (ctypes.c_int64 * 64)(*[2] * 64), (ctypes.c_int64 * 64)(*[1] * 64)
        tensor.data, tensor.device_type, tensor.ndim = self.memory.ctypes.data, dlpack.CPU, ndim
        tensor.code, tensor.bits, tensor.lanes = 2, 32, 1
        tensor.shape = shape
        if chance.random() < 0.5:
            tensor.strides = strides
        if is_versioned:
            made.major, made.minor = dlpack.VERSION
        made.deleter = ctypes.cast(self.deleter, ctypes.c_void_p)
        for _ in range(chance.choice((1, 1, 2, 3))):
            field = chance.choice("shape strides ndim code bits lanes offset data device version flags".split())
            value = number(chance)
            if field in ("shape", "strides"):
                (shape if field == "shape" else strides)[chance.randrange(4)] = ctypes.c_int64(value).value
                if chance.random() < 0.1:
                    setattr(tensor, field, None)
            elif field == "offset":
                tensor.byte_offset = value & (2**64 - 1)
            elif field == "data":
                tensor.data = chance.choice((None, value & (2**64 - 1)))
            elif field == "device":
                tensor.device_type = ctypes.c_int32(value).value
            elif field == "version" and is_versioned:
                made.major = value & 0xFFFFFFFF
            elif field == "flags" and is_versioned:
                made.flags = value & (2**64 - 1)
            elif field in ("ndim", "code", "bits", "lanes"):
                setattr(tensor, field, value & 0xFF if chance.random() < 0.5 else chance.choice((0, 1, 4, 8, 16, 64)))
        source = Source(self.new(ctypes.addressof(made), dlpack.VERSIONED if is_versioned else dlpack.LEGACY, None))
        self.gone, taken = 0, None
        try:
            taken = hiprt.from_dlpack(source)
            size = int(np.prod(taken.shape, dtype=object))
            assert size == taken.size >= 0, taken.shape
            assert 0 <= taken.address < 1 << 63, taken.address
        except self.ERRORS as error:
            says(error)
        is_taken = taken is not None
        taken = None
        hiprt.current_stream().synchronize()
        from hiprt.allocator.external import external

        external.settle()
        external.give_back()
        assert self.gone == 1, f"let go of {self.gone} times"
        return is_taken


class Source:
    """An array of another library."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **wanted):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


class Declarations:
    """Declared arguments of kernels: a declaration that fits itself, or ValueError or TypeError."""

    GOOD = (
        "read float32",
        "write float32",
        "update",
        "int32",
        "float32",
        "address",
        "write float32 over x",
        "bfloat16",
    )

    def __init__(self, folder):
        from hiprt.kernels import hip_kernel

        self.hip_kernel = hip_kernel

    def case(self, chance):
        """Declare a kernel with mutated texts, or one argument with mutated numbers."""
        import hiprt
        from hiprt import core

        if chance.random() < 0.5:
            args = {}
            for name in ("x", "y", "n"):
                text = chance.choice(self.GOOD)
                if chance.random() < 0.5:
                    text = chance.choice(
                        (mutated(text.encode(), chance).decode("latin-1"), *TEXTS, number(chance), None, [])
                    )
                args[name] = text
            try:
                made = self.hip_kernel("", "k", args)
            except (ValueError, TypeError) as error:
                says(error)
                return False
            assert len(made.args) == 3
            return True
        if chance.random() < 0.5:
            access, dtype = chance.randrange(4), chance.choice(("float32", "bytes", "address", "int8"))
            size, alignment = chance.choice((0, 8, 24, number(chance))), chance.choice((0, 1, 8, number(chance)))
            addresses = [number(chance)][: chance.randrange(2)]
            try:
                made = hiprt.Argument("x", access, dtype, size=size, alignment=alignment, addresses=addresses)
            except (ValueError, TypeError) as error:
                says(error)
                return False
            assert all(0 <= at <= made.size - 8 for at in made.addresses), made.addresses
        row = [chance.choice((8, 4, 0, number(chance) & 0xFFFFFFFF)) for _ in range(3)]
        row[2] = chance.choice((0, 1, 2, 3, row[2]))
        count = chance.choice((1, 3, 64, 65))
        out = core.ffi.new("hiprt_kernel **")
        if status := core.lib.hiprt_kernel_create(0, b"k" * chance.choice((1, 500)), count, [row] * count, out):
            assert "hiprt_kernel_create" in str(core.failure(status))
            return False
        kernel = out[0]
        assert core.lib.hiprt_kernel_offset(kernel, count - 1) <= (count - 1) * 2**33
        core.lib.hiprt_kernel_release(kernel)
        return True


class ExportedPrograms:
    """Files of exported functions: a function that can be told as text, or an error; memory as the file is large."""

    MOST = 4, 1 << 20  # bytes of Python's for each byte of the file, and in any case

    def __init__(self, folder):
        import hiprt
        from hiprt import kernels
        from hiprt.kernels import hip_kernel
        from hiprt.metal_compat import metal_kernel

        half = hip_kernel("__global__ void half(float* x) { }", "half", {"x": "update float32", "n": "int32"})
        twice = metal_kernel("twice", ["x"], ["y"], "y[thread_position_in_grid.x] = 2;")
        weight = np.arange(24, dtype=np.float32).reshape(3, 8)

        def function(x, *, y):
            z = kernels.concatenate([x[: x.shape[0] // 2 + 1, None], (y * weight)[:, None]], axis=0)
            half(z, 3, threads=z.size)
            (made,) = twice(
                inputs=[z],
                output_shapes=lambda shape: [shape],
                output_dtypes=[np.float16],
                grid=lambda shape: (shape[0] * shape[2], 1, 1),
                threadgroup=(32, 1, 1),
            )
            return kernels.sum(made, axis=(0, 1)), kernels.astype(x, np.int64) if x.shape[1] > 4 else x

        self.file, self.wholes = folder / "f.hiprt", []
        for shapeless in (False, True):
            with hiprt.exporter(self.file, function, shapeless=shapeless, metadata="text") as export:
                export(weight, y=weight)
                export(weight.astype(np.float16), y=weight)
            self.wholes.append(self.file.read_bytes())
        hiprt.import_function(self.file)  # what is made once is not counted below

    def case(self, chance):
        """Import a file of which bytes, or parts of the program, are others."""
        whole = chance.choice(self.wholes)
        content = mutated(whole, chance) if chance.random() < 0.4 else self.with_parts(whole, chance)
        self.file.write_bytes(content)
        return imported(self.file, len(content), self.MOST)

    def with_parts(self, whole, chance):
        """Return a file whose header or program has a few parts replaced, and is consistent otherwise."""
        length = int.from_bytes(whole[:8], "little")
        header, body = json.loads(whole[8 : 8 + length]), whole[8 + length :]
        begin, end = header["program"]["data_offsets"]
        program = msgpack.unpackb(body[begin:end])
        if chance.random() < 0.2:
            header = replaced(header, chance, (*TEXTS[:8], "F64", "U8"))
        else:
            program = replaced(program, chance, (*TEXTS[:8], "value", "kernel", "float64", ["value", 1], ["+", 1, 1]))
            packed = msgpack.packb(program)
            body = body[:begin] + packed
            header["program"]["data_offsets"] = [begin, begin + len(packed)]
            header["program"]["shape"] = [len(packed)]
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + body


class MlxFunctions:
    """MLX's files of functions: the same."""

    MOST = ExportedPrograms.MOST

    def __init__(self, folder):
        import hiprt

        self.file = folder / "f.mlxfn"
        files = (Path(__file__).parent.parent / "graphs/mlxfn").glob("[!a]*-0.32*.mlxfn")
        self.wholes = [file.read_bytes() for file in sorted(files)]
        for whole in self.wholes:
            self.file.write_bytes(whole)
            hiprt.import_function(self.file)

    def case(self, chance):
        """Import a file of which a few bytes, or numbers, are others."""
        content = bytearray(chance.choice(self.wholes))
        if chance.random() < 0.3:
            content = bytearray(mutated(content, chance))
        for _ in range(chance.choice((1, 1, 4))):
            at = chance.randrange(len(content) + 1)
            much = chance.choice((1, 1, 4, 8))
            content[at : at + much] = (number(chance) & (2**64 - 1)).to_bytes(8, "little")[:much]
        self.file.write_bytes(content)
        return imported(self.file, len(content), self.MOST)


def imported(file, nbytes, most):
    """Import a file; whether it could be, after it was seen that an error says of which file it is."""
    import hiprt

    tracemalloc.start()
    try:
        made = hiprt.import_function(file)
        assert made.program.startswith("program("), made.program
        return True
    except ValueError as error:
        says(error, f"[import_function] {file}: ")
        return False
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most[0] * nbytes + most[1], f"{peak} bytes for {nbytes}"


def replaced(value, chance, words):
    """Return a tree of lists and maps in which a few parts are other ones: numbers, words, or other parts of it."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places, waiting = [], [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, (list, dict)) and each:
                places.append(each)
                waiting += each.values() if isinstance(each, dict) else each
        if not places:
            break
        place = chance.choice(places)
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        kind = chance.randrange(5)
        if kind == 0:
            del place[key]
        elif kind == 1:
            place[key] = max(-(2**63), min(2**64 - 1, number(chance)))
        elif kind == 2:
            place[key] = copy.deepcopy(chance.choice(places))
        elif kind == 3:
            place[key] = chance.choice((None, True, 1.5, "a", [], {}))
        else:
            place[key] = chance.choice(words)
    return value


KINDS = {
    "cache entries": CacheEntries,
    "probes": Probes,
    "flags": Flags,
    "capsules": Capsules,
    "declarations": Declarations,
    "exported programs": ExportedPrograms,
    "MLX functions": MlxFunctions,
}


def run(kind, count, seed):
    """Run cases of a kind; returns how many were taken and refused, and what was wrong."""
    found, wrong = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        cases = KINDS[kind](Path(folder))
        for i in range(count):
            signal.alarm(SECONDS)
            try:
                found["taken" if cases.case(random.Random(f"{seed} {i}")) else "refused"] += 1
            except Exception:
                found["wrong"] += 1
                wrong.append({"seed": f"{seed} {i}", "what": traceback.format_exc(limit=-3)})
    signal.alarm(0)
    return {"cases": count, **found, "found": wrong[:20]}


def in_child(kind, count, seed):
    """Run cases in a process of their own; what it found, or how it ended."""
    command = [sys.executable, "-W", "ignore", "-m", "faults.mutations", kind, str(count), str(seed)]
    path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return {"cases": count, "wrong": 1, "found": [f"ended with {done.returncode}: {done.stderr[-2000:]}"]}
    return json.loads(done.stdout.splitlines()[-1])


def main(kind, *rest):
    """Run one kind here, or all in processes of their own."""
    if kind != "all":
        if not os.environ.get("LD_PRELOAD"):  # sanitizers map more than any limit
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        print(json.dumps(run(kind, int(rest[0]), int(rest[1]))))
        return
    from faults.sweep import machine

    report = {"what": "mutated inputs: taken for what they are, or refused with an error that says so", **machine()}
    report["command"] = "python -m faults.mutations all FILE"
    for name in KINDS:
        begin = time.time()
        report[name] = {**in_child(name, 10_000, 1), "seconds": round(time.time() - begin)}
        Path(rest[0]).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
