"""HIPRT_ALLOC_ASYNC: memory from hipMalloc or hipMallocAsync, by flag or by probe, with the known defects of pools."""

import threading
import time
from collections import Counter

import pytest
from helpers.child import child
from helpers.gate import Gate
from quirks.decode import decode, expected, free_bytes

import hiprt
from hiprt.allocator import Pool, default_pool, driver
from hiprt.allocator.driver import async_malloc, is_available, probe

DEFECTS = (
    "pool_threshold_ignored",
    "pool_oversize_reuse",
    "pool_retag_race",
    "pool_oom_fault",
    "pools_unsupported_attr",
    "pool_low_mem_block",
    "poison_on_free",
    "freeasync_null_error",
)
MB = 1 << 20
ASYNC = {"HIPRT_ALLOC_ASYNC": "1"}


def origins():
    """Where the chunks of a new process come from, and what the probe says."""
    kept = hiprt.zeros(100)
    made = {type(chunk.owner).__name__ for chunk in default_pool.chunks.values()}
    return [sorted(made), probe(hiprt.current_device()), float(kept.numpy().sum())]


def exhaust():
    """Ask for too much, and for what there is."""
    kept = hiprt.zeros(40 * MB // 4)
    with pytest.raises(hiprt.OutOfMemoryError, match="arrays of stream"):
        hiprt.zeros(40 * MB // 4)
    del kept
    return float(hiprt.full(50 * MB // 4, 2.0).numpy()[-1])


def mixed_sizes():
    """Bits and memory of arrays whose sizes change, on two streams in turn; MiB taken at most and in the end."""
    least, total, streams = free_bytes(), 0.0, [hiprt.Stream(), hiprt.Stream()]
    start = least
    for i in range(60):
        with hiprt.use_stream(streams[i % 2]):
            size = (1 + i * 7 % 5) * MB // 8
            x = hiprt.full(size, float(i))
            small = hiprt.full(10, 1.0)
            total += float(x.numpy()[-1]) + float(small.numpy().sum())
        if i % 10 == 9:
            default_pool.trim()
        least = min(least, free_bytes())
    del x, small
    default_pool.trim()
    return [total, (start - least) // MB, (start - free_bytes()) // MB]


def trim_behind_work():
    """Trim while a stream still writes what it has freed; then let others have the memory, and look at it."""
    pool, one, two = Pool(async_malloc), hiprt.Stream(), hiprt.Stream()
    gate, buffer = Gate(one), pool.allocate(MB, one)
    gate.shut()
    one.fill(buffer.address, 1, 1, MB)
    del buffer
    held = [pool.give_back(), pool.stats().reserved]
    gate.open()
    returned, left = pool.trim(), pool.stats().reserved
    mine = hiprt.full(MB // 4, 7.0, stream=two)
    one.synchronize()
    gate.close()
    return [*held, returned, left, bool((mine.numpy(two) == 7.0).all())]


def pool_that_goes():
    """A pool is dropped while a stream still uses its memory; what the device lacks then, and afterwards."""
    start, one = free_bytes(), hiprt.Stream()
    pools, gate = [Pool(async_malloc)], Gate(one)
    buffer = pools[0].allocate(MB, one)
    gate.shut()
    one.fill(buffer.address, 1, 1, MB)
    del buffer
    thread = threading.Thread(target=pools.clear)
    thread.start()
    early = start - free_bytes()
    gate.open()
    thread.join()
    gate.close()
    return [early, start - free_bytes()]


def test_probe_decides():
    assert child(origins) == [["Memory"], "ok", 0.0]
    kind, found, _ = child(origins, quirks="pools_unsupported_attr")
    assert (kind, found) == (["NoneType"], "the device says that it has no pools")
    kind, found, _ = child(origins, quirks="pool_retag_race")
    assert (kind, "too early" in found) == (["NoneType"], True)


def test_flag_decides():
    assert child(origins, HIPRT_ALLOC_ASYNC="0")[0] == ["NoneType"]
    for defect in ("pool_retag_race", "pools_unsupported_attr"):
        assert child(origins, quirks=defect, **ASYNC)[0] == ["Memory"]


@pytest.mark.parametrize("defect", ["", *DEFECTS])
def test_memory_is_bounded_and_right(defect):
    """The same numbers, never more than what is in use and waits for a trim, and all of it comes back."""
    total, most, left = child(mixed_sizes, quirks=defect, HIPRT_CPU_MEMORY_MB="96", **ASYNC)
    assert total == sum(range(60)) + 600
    assert most <= 12
    assert left == 0


@pytest.mark.every(2)
@pytest.mark.parametrize("defect", ["", *DEFECTS])
def test_steps(defect):
    """Graph steps have the same bits, on memory of the driver's pools too."""
    assert child(decode, quirks=defect, HIPRT_CPU_MEMORY_MB="64", **ASYNC) == expected()


@pytest.mark.every(2)
@pytest.mark.parametrize("defect", ["", *DEFECTS])
def test_memory_goes_back_only_when_idle(defect):
    got = child(trim_behind_work, quirks=defect, HIPRT_CPU_MEMORY_MB="64", **ASYNC)
    assert got == [0, MB, MB, 0, True]


def test_a_pool_that_goes_waits_for_its_memory():
    assert child(pool_that_goes, **ASYNC) == [MB, 0]


def test_exhaustion_raises():
    """No call is made that some drivers answer with a fault; free memory is given back first."""
    for defect in ("", "pool_oom_fault"):
        assert child(exhaust, quirks=defect, HIPRT_CPU_MEMORY_MB="64", **ASYNC) == 2.0


def test_threads_that_ask_at_once_have_one_answer(monkeypatch):
    """The third waits for what the first finds."""

    def ask(device):
        time.sleep(0.05)
        return "no pools"

    monkeypatch.setattr(driver, "found", {})
    monkeypatch.setattr(driver, "asked", Counter())
    monkeypatch.setattr(driver, "ask", ask)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(probe(hiprt.current_device()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["no pools"] * 4


def test_a_device_is_asked_for_its_free_memory_when_a_part_is_taken(stream, monkeypatch):
    """Requests within what was left are not asked about; one that is larger is, and what is not there is refused."""
    index = stream.device.index
    monkeypatch.setitem(driver.ample, index, 100)
    assert is_available(60, index)
    assert driver.ample[index] == 40
    assert not is_available(1 << 60, index)
    assert driver.ample[index] == 40
    assert is_available(50, index)
    assert driver.ample[index] > 1 << 20
