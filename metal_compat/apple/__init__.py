"""The Apple runner: recordings as Metal command buffers and indirect command buffers, through PyObjC.

Never run on Apple hardware. What is tested, on Linux, is every call against PyObjC's published metadata, the order that
barriers and fences leave open, residency and lifetimes, with the same kernel text executed by the CPU device.
The package Metal (``pip install pyobjc-framework-Metal``) is imported at the first `open_device`, on macOS only.
"""

from hiprt.metal_compat.apple.device import MetalDevice
from hiprt.metal_compat.apple.provider import METAL, open_device
from hiprt.metal_compat.apple.replay import Replay
from hiprt.metal_compat.apple.step import run
from hiprt.metal_compat.apple.stream import MetalStream

__all__ = ["METAL", "MetalDevice", "MetalStream", "Replay", "open_device", "run"]
