"""Python types of the C core, for what every launch makes and reads: see ``hiprt/native/objects.h``.

They are a second module inside the core's shared library, so that both share one state.
"""

from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

from hiprt import core

__all__ = ["Array", "Buffer", "Launcher", "Planned", "Step", "Stream"]

loader = ExtensionFileLoader("hiprt.native.objects", core.FILE)
spec = spec_from_loader(loader.name, loader)
assert spec is not None
module = module_from_spec(spec)
loader.exec_module(module)
Array, Buffer, Stream, Launcher, Planned, Step = (
    getattr(module, name) for name in ("Array", "Buffer", "Stream", "Launcher", "Planned", "Step")
)
