"""``import mlx.core`` in this process gets `hiprt.metal_compat.mlx`; MLX's own core is not loaded.

The parts of MLX that are Python (``mlx.nn``, ``mlx.utils``, ``mlx.optimizers``) come from the package ``mlx`` as it is
installed. Nothing on disk is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

__all__ = ["INSTALL", "stand_in"]

CORE, OURS = "mlx.core", "hiprt.metal_compat.mlx"
MODULES = "mlx.nn.layers.base"  # where the class of modules is
INSTALL = "pip install 'hiprt[mlx]'"


class ModuleLoader(SourceFileLoader):
    """Loads the file with the class of modules, whose calls are recorded then."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the file."""
        super().exec_module(module)
        import_module(f"{OURS}.module_calls").adopt(module.Module)


class CoreFinder(MetaPathFinder, Loader):
    """Finds ``mlx.core`` before Python looks at the disk, and ``mlx`` without any modules where it is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of what is ours; None leaves a module to the other finders."""
        if fullname == CORE:
            return ModuleSpec(CORE, self, is_package=False)
        if fullname == MODULES:
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None and isinstance(spec.loader, SourceFileLoader):
                spec.loader = ModuleLoader(fullname, spec.loader.path)
            return spec
        if fullname == "mlx" and PathFinder.find_spec("mlx") is None:
            return ModuleSpec("mlx", None, is_package=True)
        if fullname.startswith("mlx.") and fullname.count(".") == 1 and not found_on(fullname, path):
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: it is part of the package mlx. {INSTALL} brings it", name=fullname
            )
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put our module, and the modules in it, in the place of the one that importlib made."""
        ours = import_module(OURS)
        sys.modules[CORE] = ours
        for name, part in vars(ours).items():
            if isinstance(part, ModuleType) and part.__name__ == f"{OURS}.{name}" and not name.startswith("_"):
                sys.modules[f"{CORE}.{name}"] = part


def found_on(name: str, path: Sequence[str] | None) -> bool:
    """Whether a module lies in one of the folders."""
    return PathFinder.find_spec(name, path) is not None


def stand_in() -> None:
    """Let ``import mlx.core`` get our module from now on.

    Raises
    ------
    ImportError
        Another ``mlx.core`` has been imported already.
    """
    core = sys.modules.get(CORE)
    if core is not None and core is not sys.modules.get(OURS):
        raise ImportError(
            f"mlx.core is imported already, from {getattr(core, '__file__', 'elsewhere')}: "
            "call stand_in() before the first import of mlx",
            name=CORE,
        )
    if not any(isinstance(finder, CoreFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, CoreFinder())
