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

LIMIT = 10.0  # seconds in which the others have to end
PROGRAMS = Path(__file__).parent / "programs"
HIPRT = [sys.executable, "-m", "hiprt"]
# What each rank runs. The victim kills itself once it has launched a step: a kill from outside may come when the text
# has ended, and nobody is missed then.
WAYS = {
    # Drawn so evenly, tokens end the text late.
    "engine": lambda ranks, folder, *kill: [
        PROGRAMS / "writes.py", *kill,
        "generate", "--tp", ranks, "--tokens", "900", "--temperature", "10", "--seed", "3", "--verify",
    ],
    "mlx_lm": lambda ranks, folder, *kill: ["-m", "hiprt", "run", PROGRAMS / "generates.py", folder, *kill],
}  # fmt: skip


def kill(way, ranks, victim, steps, folder=None):
    """Run a program of which a rank is killed in the middle of its step of that number, from 1.

    Returns
    -------
    dict
        How many ``seconds`` the others took, the ``status`` of the launcher, and how many of the others ``named`` it.
    """
    command = [*HIPRT, "launch", "--ranks", ranks, *WAYS[way](ranks, folder, victim, steps)]
    process = subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        _, said = process.communicate(timeout=600)
        end = time.monotonic()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    killed = re.search(r"^killed at (.+)$", said, re.M)
    assert killed, said
    line = rf"^(?:hiprt: |hiprt\.errors\.RankError: )rank {victim} of {ranks} has ended without a word$"
    named = len(re.findall(line, said, re.M))
    return {"seconds": round(end - float(killed[1]), 2), "status": process.returncode, "named": named, "said": said}


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
                found = kill(way, ranks, chance.randrange(ranks), 1 + chance.randrange(400), made)
                seconds.append(found["seconds"])
                if not is_right(found, ranks):
                    wrong.append(found)
            report[f"{way}, {ranks} ranks"] = {"kills": len(seconds), "longest_s": max(seconds), "wrong": wrong}
            Path(file).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
