"""Commands: committed command buffers, and what they need until they have run. Never run on Apple hardware."""

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
        What the GPU uses; dropped when it has finished.
    """

    def __init__(self, metal: Any, buffer: Any, keep: Any) -> None:
        self.metal, self.buffer, self.keep = metal, buffer, keep

    @property
    def busy(self) -> bool:
        """Whether it has not finished yet."""
        return int(self.buffer.status()) < int(self.metal.MTLCommandBufferStatusCompleted)

    def wait(self) -> None:
        """Wait until it has finished.

        Raises
        ------
        HipError
            It failed on the GPU.
        """
        self.buffer.waitUntilCompleted()
        self.keep = None
        if int(self.buffer.status()) == self.metal.MTLCommandBufferStatusError:
            raise HipError(LAUNCH_FAILURE, "hipErrorLaunchFailure", "MTLCommandBuffer.commit", str(self.buffer.error()))
