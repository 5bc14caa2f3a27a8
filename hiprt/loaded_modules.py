"""Loaded modules by content: each is loaded once for a device, shared, and unloaded when nothing uses it any more."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from hiprt import core, fork
from hiprt.cache_key import key_of
from hiprt.compiler import compile_source, reads_files
from hiprt.device import Device, current_device, set_device
from hiprt.errors import HipError
from hiprt.flags import flags
from hiprt.hip import call, lib
from hiprt.module import Module, is_used

__all__ = ["FunctionTable", "ModuleCache", "modules", "on_device"]

FORMS = 256  # the most functions of one kernel
# Unloading waits for the device, which breaks captures that others make, so it is done for many modules at once.
MANY = 64
serials = itertools.count()
T = TypeVar("T")


@contextmanager
def on_device(device: Device) -> Iterator[None]:
    """Make `device` this thread's within the block."""
    before = current_device()
    set_device(device.index)
    try:
        yield
    finally:
        set_device(before.index)


class FunctionTable(dict[Any, T]):
    """The functions of one kernel by form of call. If there are too many forms, the one compiled first is dropped."""

    def __setitem__(self, key: Any, value: T) -> None:
        if len(self) >= FORMS and key not in self:
            del self[next(iter(self))]
        super().__setitem__(key, value)


class Retired(NamedTuple):
    """What is left of a module whose functions are gone; graphs may still hold its kernels."""

    device: Device
    handle: int
    kernels: list[Any]


class ModuleCache:
    """Loaded modules.

    A module stays here as long as one of its functions lives; the ``HIPRT_CACHE_MODULES`` ones that were used last stay
    longer. A module that is gone from here is unloaded once no recording and no executable graph holds one of its
    kernels and its device has finished. `sweep` does that, when another module is loaded and many are gone.
    """

    def __init__(self) -> None:
        self.lock = fork.lock()
        self.alive: weakref.WeakValueDictionary[str, Module] = weakref.WeakValueDictionary()
        self.recent: OrderedDict[str, Module] = OrderedDict()
        self.retired: list[Retired] = []

    def load(
        self,
        source: str,
        name: str,
        *,
        options: Sequence[str] = (),
        expressions: Sequence[str] = (),
        device: Device | None = None,
    ) -> Module:
        """Return the module of a source, compiled and loaded where it is not yet.

        Parameters
        ----------
        source, name, options, expressions
            As for `hiprt.compiler.compile_source`.
        device : Device, optional
            This thread's by default.

        Raises
        ------
        CompileError
            The source does not compile; nothing is kept.
        """
        device = device or current_device()
        # A source that reads files may mean another program by now although its text is the same: it is not shared.
        own = [str(next(serials))] if reads_files(source, options) else []
        key = key_of([str(device.index)], name, source, options, expressions, own)
        with self.lock:
            found = self.alive.get(key)
        if found is None:
            with on_device(device):
                made = self.own(device, Module(*compile_source(source, name, options=options, expressions=expressions)))
            if len(self.retired) >= MANY:
                self.sweep()
            with self.lock:
                found = self.alive.setdefault(key, made)
        self.use(key, found)
        return found

    def own(self, device: Device, module: Module) -> Module:
        """Retire a module when its last reference goes, and return it."""
        retired = Retired(device, module.handle, module.kernels)
        weakref.finalize(module, self.retired.append, retired).atexit = False
        return module

    def use(self, key: str, module: Module) -> None:
        """Note that a module is used, and let go of the module that was not used for the longest time."""
        with self.lock:
            self.recent[key] = module
            self.recent.move_to_end(key)
            dropped = [self.recent.popitem(last=False) for _ in range(len(self.recent) - flags.cache_modules)]
        del dropped  # outside the lock, because their finalizers run here

    def sweep(self) -> int:
        """Unload the retired modules that no graph holds, and return how many they are."""
        # They are taken one by one because a module may retire at any moment, in any thread.
        retired = [self.retired.pop() for _ in range(len(self.retired))]
        idle = [old for old in retired if not any(map(is_used, old.kernels))]
        self.retired += [old for old in retired if old not in idle]
        return sum(self.unload(device, idle) for device in {old.device for old in idle})

    def unload(self, device: Device, idle: Sequence[Retired]) -> int:
        """Unload the idle modules of a device; those that cannot be unloaded now are kept for another time."""
        mine = [old for old in idle if old.device == device]
        count = 0
        if core.lib.hiprt_captures():
            self.retired += mine
            return count
        try:
            with on_device(device):
                device.synchronize()  # their kernels may have been launched eagerly
                while mine:
                    # It is let go of first: after a failure nothing more is known of it.
                    call(lib.hipModuleUnload(mine.pop().handle))
                    count += 1
        except HipError:  # a stream captures, or work has failed, of which its own thread is told
            self.retired += mine
        return count


modules = ModuleCache()
