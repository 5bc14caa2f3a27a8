"""Several threads: which launches may come from any thread, and what belongs to one.

You learn three arrangements that work: threads that call one step, threads that each have a stream and a step, and a
thread that waits for another's work by an event.

- From any thread: calling a step that has been recorded, with the same arrays or (``moves=True``) with others of their
  shape. The calls take turns, and each runs with its caller's arrays. Allocating, freeing, compiling and loading too.
- One thread's at a time: a stream, and the step on it, while a call records (the first call with new shapes or
  values). What another thread launches on that stream meanwhile would become a part of the recording.
- A thread that has not chosen a stream has one of its own. Work on different streams is not ordered: where one thread
  reads what another thread's stream writes, it waits for an event, or for the stream.

Run it, with no GPU needed: ``python examples/threads.py``
"""

import threading

import numpy as np

import hiprt
from hiprt import graphs, kernels

THREADS, CALLS, SIZE = 4, 100, 1000


def in_threads(work):
    """Run work(0), work(1), … on a thread each, and wait for them."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_step():
    """All threads call one step, each with an array of its own."""
    stream, one = hiprt.Stream(), hiprt.full(SIZE, 1.0)

    def count(total):
        # It returns nothing: a step that returns one of its arguments is recorded again for others.
        kernels.add(total, one, out=total)

    # The step has a stream, so that it does not matter who calls it. moves=True patches other arrays into the graph.
    step = graphs.Step(count, stream=stream, moves=True)
    totals = [hiprt.zeros(SIZE) for _ in range(THREADS)]
    # What was launched so far is on this thread's stream, and the step's stream does not wait for it by itself.
    hiprt.current_stream().synchronize()
    step(totals[0])  # records, before there are other threads

    def work(number):
        for _ in range(CALLS):
            step(totals[number])

    in_threads(work)
    # Read on the step's stream, behind the calls.
    counts = [int(total.numpy(stream)[0]) for total in totals]
    assert counts == [CALLS + 1, *[CALLS] * (THREADS - 1)]
    assert step.rungs["instantiate"] == 1
    print("one step      ", counts, "by one graph, recorded once")


def own_steps():
    """Each thread has a stream and a step: nothing is shared but the input, which nobody writes."""
    x, sums = hiprt.array(np.arange(SIZE, dtype=np.float32)), [0.0] * THREADS
    hiprt.current_stream().synchronize()

    def work(number):
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            step = graphs.Step(lambda: kernels.sum(kernels.multiply(x, float(number))), name=f"thread {number}")
            for _ in range(CALLS):
                result = step()
            sums[number] = result.item()

    in_threads(work)
    assert sums == [number * SIZE * (SIZE - 1) / 2 for number in range(THREADS)]
    print("own steps     ", sums)


def handed_over():
    """One thread produces on its stream, this one consumes on its own, and the host waits for neither."""
    produced, ready, seen = hiprt.Event(timing=False), threading.Event(), {}

    def produce():
        x = kernels.square(hiprt.array(np.arange(SIZE, dtype=np.float32)))
        produced.record(hiprt.current_stream())
        seen["x"] = x
        ready.set()  # the launches are made; whether they have run is the event's matter

    producer = threading.Thread(target=produce)
    producer.start()
    ready.wait()
    produced.wait(hiprt.current_stream())
    # The array is held until this stream has read it, which item() waits for: its memory belongs to the other's stream.
    total = kernels.sum(seen["x"]).item()
    producer.join()
    np.testing.assert_allclose(total, np.square(np.arange(SIZE, dtype=np.float64)).sum(), rtol=1e-5)
    print("handed over   ", "the sum of the squares is numpy's")


if __name__ == "__main__":
    one_step()
    own_steps()
    handed_over()
