"""Python types of the C core, for what every launch makes and reads: see ``hiprt/native/objects.h``.

They are extension modules inside the core's shared library, so that they share its state.
"""

from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

from hiprt import core

__all__ = [
    "Array", "Buffer", "Launch", "Launcher", "Op", "Plan", "Planned", "Stream", "exchange_api", "lend", "load",
]  # fmt: skip


def load(name: str) -> ModuleType:
    """Return an extension module that lies in the core's shared library."""
    loader = ExtensionFileLoader(name, core.FILE)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


types = load("hiprt.native.objects")
Array, Buffer, Stream = types.Array, types.Buffer, types.Stream
Launcher, Planned = types.Launcher, types.Planned
Launch, Plan, Op = types.Launch, types.Plan, types.Op
exchange_api, lend = types.exchange_api, types.lend
