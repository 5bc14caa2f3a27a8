"""llama.cpp: its own llama-bench measures a GGUF file."""

import json
import shutil
import subprocess
import sys


def main() -> None:
    """Measure the workload in the first argument, which is JSON."""
    work = json.loads(sys.argv[1])
    program = shutil.which("llama-bench")
    if program is None:
        sys.exit("llama-bench is not on PATH")
    if not work["gguf"]:
        sys.exit("no model: give --gguf FILE")
    command = [program, "-m", work["gguf"], "-p", "512", "-n", str(work["tokens"]), "-ngl", "99", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    answer = {"device": rows[0].get("gpu_info", ""), "version": rows[0].get("build_commit", "")}
    for row in rows:
        answer["decode_graph_tok_s" if row["n_gen"] else "prefill_tok_s"] = row["avg_ts"]
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
