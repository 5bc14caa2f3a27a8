"""Record declared work without a device: the C core's recorder needs no library until a graph is built."""

import struct

from hiprt import core


def end(stream):
    """End a recording, and give its stream back; one that goes on would keep steps of this thread from being armed."""
    core.lib.hiprt_stream_stop(stream)
    core.lib.hiprt_stream_release(stream)


class Program:
    """A recorder with its stream, to which kernels that declare byte ranges are added."""

    def __init__(self, edges=1):
        lib = core.lib
        self.kernels = {}  # what was declared so far; programs that share it launch the very same kernels
        self.recorder = core.create("hiprt_recorder", lib.hiprt_recorder_release, lib.hiprt_recorder_create, edges)
        self.stream = core.create("hiprt_stream", end, lib.hiprt_stream_create, 0, 0)
        core.call(core.lib.hiprt_recorder_start(self.recorder, self.stream, False))

    def kernel(self, *ranges, function=0x1000, grid=(1, 1, 1), block=(32, 1, 1), shared=0, scalar=0, ahead=None):
        """Record a kernel; ranges are (start, end, access). `ahead` has a bit for each that it reads before waiting."""
        declared = function, tuple(access for _, _, access in ranges), ahead
        if declared not in self.kernels:
            self.kernels[declared] = self.declare(*declared)
        kernel = self.kernels[declared]
        arguments = b"".join(struct.pack("<Q", start) for start, _, _ in ranges) + struct.pack("<Ixxxx", scalar)
        touched = b"".join(struct.pack("<2Q", start, end) for start, end, _ in ranges)
        payload = struct.pack("<8I", *grid, *block, shared, 0) + arguments + touched
        core.call(core.lib.hiprt_launch(self.stream, kernel, payload, len(payload)))

    @staticmethod
    def declare(function, accesses, ahead):
        """Make a kernel with these buffers and a number of 4 bytes behind them."""
        args = [(8, 8, access) for access in accesses] + [(4, 4, 0)]
        lib = core.lib
        kernel = core.create(
            "hiprt_kernel", lib.hiprt_kernel_release, lib.hiprt_kernel_create, function, b"k", len(args), args
        )
        if ahead is not None:
            lib.hiprt_kernel_wait_itself(kernel, ahead)
        return kernel

    def barrier(self):
        """Record work that declares nothing."""
        core.call(core.lib.hiprt_barrier(self.stream))

    def dependencies(self):
        """Return each node's dependencies."""
        out = []
        raw = core.ffi.new("hiprt_node *")
        for i in range(core.lib.hiprt_recorder_size(self.recorder)):
            core.call(core.lib.hiprt_recorder_node(self.recorder, i, raw))
            out.append([raw.deps[k] for k in range(raw.n_deps)])
        return out

    def overlapping(self):
        """Return the nodes that may start before the one they depend on has finished."""
        raw, found = core.ffi.new("hiprt_node *"), []
        for i in range(core.lib.hiprt_recorder_size(self.recorder)):
            core.call(core.lib.hiprt_recorder_node(self.recorder, i, raw))
            found += [i] if raw.may_overlap else []
        return found

    @property
    def key(self):
        """Return the hash of the topology key."""
        return core.lib.hiprt_recorder_key(self.recorder)

    def same_key(self, other):
        """Whether the keys of both recordings have the same content."""
        return bool(core.lib.hiprt_recorder_same_key(self.recorder, other.recorder))
