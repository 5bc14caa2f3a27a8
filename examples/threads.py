"""Several threads: which launches may come from any thread, and what belongs to one.

You learn three arrangements: threads that call one step, threads that each have a stream and a step, and a thread that
uses what another one's stream computes.

- A thread that has not chosen a stream works on its device's default stream, as all such threads do.
- Any thread may call a step. The calls take turns, each runs with its caller's arrays, and the launches that other
  threads make on the same stream while a call records are no part of it.
- Work on different streams runs side by side, but where it uses one array: then it waits for the work there, by an
  event that hiprt puts. The host waits where it reads, and nowhere else.

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

    # moves=True patches other arrays into the graph.
    step = graphs.Step(count, stream=stream, moves=True)
    totals = [hiprt.zeros(SIZE) for _ in range(THREADS)]
    step(totals[0])

    def work(number):
        for _ in range(CALLS):
            step(totals[number])

    in_threads(work)
    counts = [int(total.numpy()[0]) for total in totals]
    assert counts == [CALLS + 1, *[CALLS] * (THREADS - 1)]
    assert step.rungs["instantiate"] == 1
    print("one step      ", counts, "by one graph, recorded once")


def own_steps():
    """Each thread has a stream and a step: nothing is shared but the input, which nobody writes."""
    x, sums = hiprt.array(np.arange(SIZE, dtype=np.float32)), [0.0] * THREADS

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
    ready, seen = threading.Event(), {}

    def produce():
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            seen["x"] = kernels.square(hiprt.array(np.arange(SIZE, dtype=np.float32)))
            ready.set()  # the launches are made; this thread's stream waits until they have run

    producer = threading.Thread(target=produce)
    producer.start()
    ready.wait()
    total = kernels.sum(seen["x"]).item()
    producer.join()
    np.testing.assert_allclose(total, np.square(np.arange(SIZE, dtype=np.float64)).sum(), rtol=1e-5)
    print("handed over   ", "the sum of the squares is numpy's")


if __name__ == "__main__":
    one_step()
    own_steps()
    handed_over()
