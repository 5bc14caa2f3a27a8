"""Commands: committed command buffers, and the objects that they need until they have run.

Never run on Apple hardware.
"""

from __future__ import annotations

from typing import Any

from hiprt.errors import HipError

__all__ = ["Command"]

LAUNCH_FAILURE = 719


class Command:
    """A committed MTLCommandBuffer; Metal takes each one once.

    Parameters
    ----------
    metal : module
        PyObjC's Metal.
    buffer : MTLCommandBuffer
    keep : object
        Whatever the GPU uses; it is dropped when the buffer has finished.
    """

    def __init__(self, metal: Any, buffer: Any, keep: Any) -> None:
        self.metal, self.buffer, self.keep = metal, buffer, keep

    @property
    def busy(self) -> bool:
        """Whether the command buffer has not finished yet."""
        return int(self.buffer.status()) < int(self.metal.MTLCommandBufferStatusCompleted)

    def wait(self) -> None:
        """Wait until the command buffer has finished.

        Raises
        ------
        HipError
            The command buffer failed on the GPU.
        """
        self.buffer.waitUntilCompleted()
        self.keep = None
        if int(self.buffer.status()) == self.metal.MTLCommandBufferStatusError:
            raise HipError(LAUNCH_FAILURE, "hipErrorLaunchFailure", "MTLCommandBuffer.commit", str(self.buffer.error()))
