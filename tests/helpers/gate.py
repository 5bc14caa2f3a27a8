"""A gate holds a stream's later work back until it is opened, without a race or a sleep."""

import ctypes

from hiprt import library
from hiprt.errors import check


class Gate:
    """The stream waits for a value in memory, which the host writes to open the gate."""

    def __init__(self, stream):
        self.stream = stream
        self.memory = check(library.hip().hipHostMalloc(8, 0), "hipHostMalloc")
        self.word = ctypes.c_uint32.from_address(int(self.memory))
        self.word.value = self.target = 0

    @property
    def is_closed(self):
        """Whether the stream waits."""
        return self.word.value < self.target

    def shut(self):
        """Hold back what is launched from now on."""
        self.target += 1
        hip = library.hip()
        wait = hip.hipStreamWaitValue32(
            self.stream.hip_stream, self.memory, self.target, hip.hipStreamWaitValueGte, 2**32 - 1
        )
        check(wait, "hipStreamWaitValue32")

    def open(self):
        """Let the stream's work run, and wait until it has finished."""
        self.release()
        self.stream.synchronize()

    def release(self):
        """Let the stream's work run."""
        self.word.value = self.target

    def close(self):
        """Give the memory back, which waits for the device: every gate must be open."""
        check(library.hip().hipHostFree(self.memory), "hipHostFree")
