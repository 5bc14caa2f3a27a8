"""Kills of ranks in the middle of a decode: how soon the others end, and whether each names the one that was killed.

``PYTHONPATH=tests python -m distributed.kills COUNT FILE`` kills that many of 2 and of 4 ranks, of our engine and of
mlx-lm.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from hiprt.bench.story import CHECKPOINT

LIMIT = 10.0  # seconds in which the others have to end
PROGRAMS = Path(__file__).parent / "programs"
HIPRT = [sys.executable, "-m", "hiprt"]
WAYS = {
    # Drawn so evenly, tokens end the text late; verified, they take long enough for a kill that comes late.
    "engine": lambda ranks, folder: [
        *HIPRT, "generate", "--tp", ranks, "--tokens", "900", "--temperature", "10", "--seed", "3", "--verify",
    ],
    "mlx_lm": lambda ranks, folder: [
        *HIPRT, "launch", "--ranks", ranks, "-m", "hiprt", "run", PROGRAMS / "generates.py", folder,
    ],
}  # fmt: skip


def children(pid):
    """Return the processes that a process has started, in order."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill(way, ranks, victim, tokens, folder=CHECKPOINT):
    """Kill a rank after some more bytes of what rank 0 writes.

    Returns
    -------
    dict
        How many ``seconds`` the others took, the ``status`` of the launcher, and how many of the others ``named`` it.
    """
    process = subprocess.Popen(
        [*map(str, WAYS[way](ranks, folder))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        assert len(os.read(process.stdout.fileno(), 1)) == 1, process.stderr.read().decode()
        for _ in range(tokens):
            os.read(process.stdout.fileno(), 1)
        begin = time.monotonic()
        os.kill(children(process.pid)[victim], signal.SIGKILL)
        _, said = process.communicate(timeout=300)
        seconds = time.monotonic() - begin
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    line = rf"^(?:hiprt: |hiprt\.errors\.RankError: )rank {victim} of {ranks} has ended without a word$"
    named = len(re.findall(line, said.decode(), re.M))
    return {"seconds": round(seconds, 2), "status": process.returncode, "named": named, "said": said.decode()}


def is_right(found, ranks):
    """Whether all others ended in time and named the rank that was killed."""
    return found["seconds"] < LIMIT and found["named"] == ranks - 1 and found["status"] == 128 + signal.SIGKILL


def main(count, file):
    """Kill many, and write what came of it."""
    from faults.sweep import machine

    made = Path(tempfile.mkdtemp(), "llama")
    maker = PROGRAMS.parent.parent / "metal_compat" / "mlx" / "programs" / "makes.py"
    subprocess.run([*HIPRT, "run", maker, made, "llama", "quantized"], check=True)
    report = {"what": "a rank is killed in the middle of a decode: the others end within 10 s and name it", **machine()}
    report["command"] = "PYTHONPATH=tests python -m distributed.kills COUNT FILE"
    for way in WAYS:
        for ranks in (2, 4):
            chance, seconds, wrong = random.Random(f"{way} {ranks}"), [], []
            for _ in range(int(count)):
                found = kill(way, ranks, chance.randrange(ranks), chance.randrange(400), made)
                seconds.append(found["seconds"])
                if not is_right(found, ranks):
                    wrong.append(found)
            report[f"{way}, {ranks} ranks"] = {"kills": len(seconds), "longest_s": max(seconds), "wrong": wrong}
            Path(file).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
