"""Users' bodies on Metal, which runs exact grids itself and gets numbers of axes as arguments.

Never run on Apple hardware.
"""

from __future__ import annotations

import struct
from typing import Any

from hiprt.errors import CompileError
from hiprt.kernels.lang.dialect import METAL_BODY, prelude
from hiprt.kernels.lang.metal_body import Form
from hiprt.metal_compat.apple.library import Bindings, MetalModule, Sizes
from hiprt.metal_compat.options import DEFAULT_MODE
from hiprt.metal_compat.program_cache import BuildError, ProgramCache

__all__ = ["BodyModule", "load_body"]

PRAGMA = "#pragma METAL fp contract(off)\n"


class BodyModule(MetalModule):
    """The library of one body for one form of call.

    Attributes
    ----------
    axes : tuple of int
        The number of axes that is bound at each binding index; -1 where the call's next argument is bound.
    """

    axes: tuple[int, ...]

    def arrange(self, arguments: Bindings, grid: Sizes, block: Sizes) -> tuple[Bindings, Sizes, Sizes, bool]:
        """Insert the numbers of axes into the arguments, and take the grid in threads from the last one."""
        *given, extent = arguments
        left = iter(given)
        bound = tuple(next(left) if axes < 0 else struct.pack("<i", axes) for axes in self.axes)
        assert isinstance(extent, bytes)
        x, y, z, *whole = struct.unpack("<6I", extent)
        return bound, (x, y, z), (whole[0], whole[1], whole[2]), True


def load_body(programs: ProgramCache, form: Form, device: Any) -> BodyModule:
    """Compile a body's Metal text.

    Raises
    ------
    BuildError
        Metal's compiler refuses it.
    """
    body = programs.body
    pragma = PRAGMA if programs.mode == DEFAULT_MODE else ""
    text = pragma + prelude(METAL_BODY) + f'#line 1 "{body.name}.metal"\n' + body.metal(form)
    try:
        module = BodyModule(device.metal, device.handle, text, body.name, programs.mode)
    except CompileError as error:
        raise BuildError(error.code, error.name, error.call, error.detail, error.log) from None
    module.axes = tuple(p.ndim if p.kind == "ndim" else -1 for p in body.parameters(form))
    return module
