"""What Perfetto makes of a file in Chrome's trace format, by the rules of its importer
(src/trace_processor/importers/json, and slice_tracker.cc and flow_tracker.cc beside it, of v25 to v52).

It judges times in whole nanoseconds, and counts what it cannot show as an error, which its page then reports.
"""

import json
import re
from collections import Counter, defaultdict

FIRST_PIECE = 1 << 15  # characters of a file that are surely read together
KNOWN = {"displayTimeUnit", "otherData"}
ROUNDINGS = (int, round)  # of versions that cut a number off, and of those that read its digits


def errors_of(text):
    """The errors that Perfetto counts for a file, by name; empty if it shows all of it."""
    found = Counter()
    whole = json.loads(text)
    before = list(whole)[: list(whole).index("traceEvents")]
    found["it reads no further than to another name"] += not set(before) <= KNOWN
    found["known name behind the first piece"] += set(before) != KNOWN or text.index('"traceEvents"') > FIRST_PIECE
    for rounded in ROUNDINGS:
        found.update(read(whole["traceEvents"], rounded))
    return +found


def read(events, rounded):
    """The errors of the events, with times in nanoseconds made by `rounded`."""
    found, stacks, flows = Counter(), defaultdict(list), set()
    times = []
    for event in events:
        text = json.dumps(event, ensure_ascii=False)
        found["escape that is not known"] += bool(re.search(r'\\[^"]', text))
        found["half a letter"] += bool(re.search("[\ud800-\udfff]", text))
        found["array in an event"] += any(isinstance(value, list) for value in event.values())
        found["number of more decimals than are read"] += bool(re.search(r"\.\d{19}", text))
        times.append(rounded(event["ts"] * 1000))
    for _, event, ts in sorted(zip(range(len(events)), events, times), key=lambda each: (each[2], each[0])):
        kind, stack = event["ph"], stacks[event["pid"], event["tid"]]
        if kind == "X":
            end = ts + rounded(event["dur"] * 1000)
            while stack and stack[-1] <= ts:
                stack.pop()
            if stack and end > stack[-1]:
                found["slice_drop_overlapping_complete_event"] += 1
            else:
                stack.append(end)
        elif kind in "sf":
            flow = event["cat"], event["name"], event["id"]
            found["flow_no_enclosing_slice"] += not stack
            if kind == "s":
                found["flow_duplicate_id"] += flow in flows
                flows.add(flow)
            else:
                found["flow_end_without_start"] += flow not in flows
        elif kind != "M" or event["name"] not in ("process_name", "thread_name") or not event["args"]["name"]:
            found[f"event that is not shown: {kind}"] += 1
    return found
