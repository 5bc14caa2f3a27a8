"""Damage a small checkpoint in many ways, and say what became of each try.

    python mutated_checkpoints.py KIND FIRST COUNT [VOCABULARY]

VOCABULARY makes the checkpoint larger than it is by default. KIND is the file that is damaged: ``config``, ``header``,
``index`` or ``tokenizer``. Try N is made from the seed N, so that it can be repeated alone. Every try prints a line of
JSON: its number, its outcome, and what was said.

    refused   an error of the checkpoint, in one line with a remedy
    runs      a text was written
    wrong     anything else: another exception, a file outside of the folder, too much time or memory
"""

import json
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import checkpoints

from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.request import Request

KINDS = ("config", "header", "index", "tokenizer")
SECONDS = 10  # that a try may take
# The most memory that a try may take: a few MiB for the program, or three times a large file.
MIB, TIMES = 64, 3
HOSTILE = [
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**30, -(2**63), 0.5,
    -0.0, 1e-300, 1e30, 1e308, float("inf"), float("-inf"), float("nan"), "", "a", "float16", "F32", "BF16", "F8_E4M3",
    "\ud800", "../x", "/etc/passwd", "x" * 5000, [], [0], [[]], [-1], [2**40, 2**40], [1e9], {}, {"a": 1},
    {"rope_type": []}, {"group_size": 64}, [None] * 50,
]  # fmt: skip


class Slow(BaseException):
    """A try takes too long."""


def places(value, at=()):
    """Yield the path of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def mutated(value, draw):
    """Return a JSON value in which a few places are replaced, removed, doubled or exchanged."""
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        paths = list(places(value))
        if not paths:
            return draw.choice(HOSTILE)
        *way, last = draw.choice(paths[:400] if draw.random() < 0.5 else paths)
        inner = value
        for key in way:
            inner = inner[key]
        kind = draw.randrange(6)
        if kind == 0:
            del inner[last]
        elif kind == 1:
            other = draw.choice(paths)
            found = value
            for key in other[:-1]:
                found = found[key]
            inner[last] = found[other[-1]] if isinstance(found, dict | list) and found is not inner else 1
        elif kind == 2 and isinstance(inner[last], int) and not isinstance(inner[last], bool):
            inner[last] = inner[last] + draw.choice([-1, 1, 4, 64]) if draw.random() < 0.5 else inner[last] * 2
        else:
            inner[last] = draw.choice(HOSTILE)
        # What was copied may lie in itself; such a value is no JSON.
        value = json.loads(json.dumps(value, default=str, check_circular=True))
    return value


def spoiled(data, draw):
    """Return bytes of which a few are changed, removed, repeated or cut off."""
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 8])):
        at = draw.randrange(len(data) or 1)
        kind = draw.randrange(5)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            del data[at : at + draw.randrange(1, 40)]
        elif kind == 2:
            data[at:at] = data[at : at + draw.randrange(1, 200)] * draw.randrange(1, 5)
        elif data:
            at = min(at, len(data) - 1)
            data[at] = draw.randrange(256)
    return bytes(data)


def damage(folder, kind, draw):
    """Damage one file of a checkpoint."""
    if kind == "header":
        path = folder / "model-00001-of-00002.safetensors"
        raw = path.read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        header, data = raw[8 : 8 + size], raw[8 + size :]
        if draw.random() < 0.2:
            path.write_bytes(spoiled(raw[: 8 + size + 64], draw) + data[64:])
            return
        text = changed(header, draw)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        return
    names = {"config": "config.json", "index": "model.safetensors.index.json", "tokenizer": "tokenizer.json"}
    path = folder / names[kind]
    path.write_bytes(changed(path.read_bytes(), draw))


def changed(text, draw):
    """Return the text of a JSON value after damage to the value or to the text."""
    if draw.random() < 0.25:
        return spoiled(text, draw)
    try:
        return json.dumps(mutated(json.loads(text), draw)).encode(errors="surrogatepass")
    except (ValueError, TypeError, RecursionError):
        return spoiled(text, draw)


def attempt(folder):
    """Write a text with a checkpoint; return the outcome and what was said."""
    try:
        report = generate(Request(model=folder, prompt="ab", tokens=3))
    except CheckpointError as error:
        said = str(error)
        is_right = error.cause and error.remedy and "\n" not in said and len(said) < 1000
        return ("refused" if is_right else "wrong"), said
    except ValueError as error:  # the model has no place for the prompt, or lacks its tokens
        said = str(error)
        return ("refused" if "positions of the model" in said or "the prompt needs tokens" in said else "wrong"), said
    return "runs", f"{report.tokens} tokens"


def memory(name):
    """Return a figure of this process in MiB: ``VmRSS``, what it has now, or ``VmHWM``, the most since `forget`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(name))


def forget():
    """Let the most memory that this process has had be what it has now."""
    Path("/proc/self/clear_refs").write_text("5")


def slow(*_):
    """End a try that takes too long."""
    raise Slow


def main(kind, first, count, vocabulary=checkpoints.CONFIG["vocab_size"]):
    """Make the tries, and print what became of them."""
    warnings.simplefilter("ignore")
    root = Path(tempfile.mkdtemp(prefix="checkpoint-"))
    sound = checkpoints.write(root / "sound", shards=2, vocab_size=vocabulary)
    most = max(MIB, TIMES * sum(each.stat().st_size for each in sound.glob("*.safetensors")) >> 20)
    assert attempt(sound) == ("runs", "3 tokens")
    (root / "outside.safetensors").write_bytes((sound / "model-00001-of-00002.safetensors").read_bytes())
    opened = []
    allowed = (str(root / "try"), sys.prefix, sys.base_prefix, "/proc", "/sys", str(Path(__file__).parents[2]))
    cache = os.environ.get("HIPRT_CACHE_DIR", str(Path.home() / ".cache"))

    def watch(event, args):
        if event == "open" and isinstance(args[0], str):
            path = os.path.normpath(args[0])
            if not path.startswith((*allowed, cache)) and os.path.isabs(path):
                opened.append(path)

    sys.addaudithook(watch)
    signal.signal(signal.SIGALRM, slow)
    for number in range(first, first + count):
        folder = root / "try"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound, folder)
        damage(folder, kind, random.Random(number))
        forget()
        before, start = memory("VmRSS"), time.monotonic()
        opened.clear()
        signal.alarm(SECONDS)
        try:
            outcome, said = attempt(folder)
        except Slow:
            outcome, said = "wrong", f"took more than {SECONDS} s"
        except BaseException as error:
            outcome, said = "wrong", f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        if opened:
            outcome, said = "wrong", f"opened {opened[0]}"
        taken = memory("VmHWM") - before
        if taken > most:
            outcome, said = "wrong", f"took {taken} MiB: {said}"
        line = {
            "try": number,
            "outcome": outcome,
            "said": said[:300],
            "MiB": taken,
            "seconds": round(time.monotonic() - start, 3),
        }
        print(json.dumps(line), flush=True)
    shutil.rmtree(root)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
