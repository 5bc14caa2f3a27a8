"""hiprt's part of ``hiprt bench peers``."""

import json
import sys

from hiprt import Stream, use_stream
from hiprt.bench import decode
from hiprt.bench.graph import measure
from hiprt.bench.topology import Work
from hiprt.graphs.launch.timing import microseconds


def main() -> None:
    """Measure the workload in the first argument, which is JSON."""
    work = json.loads(sys.argv[1])
    eager, replay = (measure("chain", work["nodes"], mode, seconds=0.3) for mode in ("eager", "replay"))
    stream = Stream()
    with use_stream(stream):
        whole = microseconds(Work("chain", work["nodes"], 0, stream).record(), stream)
    report = decode.measure(work["preset"], work["context"], work["tokens"])
    answer = {
        "device": report.device,
        "chain_eager_us_per_node": eager.us_per_node["median"],
        "chain_replay_us": replay.us_per_step["median"],
        "chain_device_us_per_node": whole / work["nodes"],
        **{f"decode_{name}_tok_s": mode.tok_s for name, mode in report.modes.items()},
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
