"""Stream-ordered pools by direct HIP calls."""

import numpy as np
from helpers.hip_calls import ok
from rocm.bindings import hip

ATTR = hip.hipMemPoolAttr
MB = 1 << 20
EVERYTHING = 2**64 - 1


def new_stream():
    """A stream that does not synchronise with the null stream."""
    return ok(hip.hipStreamCreateWithFlags(1))


def new_pool():
    """A pool that is to keep all its memory, and to hand a block to another stream only by the order of events."""
    props = hip.hipMemPoolProps()
    props.allocType = hip.hipMemAllocationType.hipMemAllocationTypePinned
    props.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    props.location.id = 0
    pool = ok(hip.hipMemPoolCreate(props))
    ok(hip.hipMemPoolSetAttribute(pool, ATTR.hipMemPoolAttrReleaseThreshold, np.array([EVERYTHING], np.uint64)))
    for attribute in (ATTR.hipMemPoolReuseAllowOpportunistic, ATTR.hipMemPoolReuseAllowInternalDependencies):
        ok(hip.hipMemPoolSetAttribute(pool, attribute, np.zeros(1, np.int32)))
    return pool


def allow_reuse_of_finished(pool):
    """Let any stream have a block whose free has run."""
    ok(hip.hipMemPoolSetAttribute(pool, ATTR.hipMemPoolReuseAllowOpportunistic, np.ones(1, np.int32)))


def reserved(pool):
    """Bytes that a pool holds, used or free."""
    out = np.zeros(1, np.uint64)
    ok(hip.hipMemPoolGetAttribute(pool, ATTR.hipMemPoolAttrReservedMemCurrent, out))
    return int(out[0])


def allocate(pool, stream, size=MB):
    """Memory of a pool."""
    return ok(hip.hipMallocFromPoolAsync(size, pool, stream))


def free(memory, stream):
    """Free in stream order."""
    ok(hip.hipFreeAsync(memory, stream))


def words(memory, n=4):
    """The first 32-bit words of memory, once its streams are idle."""
    out = np.zeros(n, np.uint32)
    ok(hip.hipMemcpy(out, memory, out.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    return [hex(word) for word in out]
