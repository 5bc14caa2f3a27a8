"""Dialects: the signatures that targets write for a kernel, and the preludes that make its body legal there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from hiprt.kernels.lang.attributes import ATTRIBUTES
from hiprt.kernels.lang.metal_to_hip import declare_shared

__all__ = ["BODY", "CHECK", "DIALECTS", "METAL_BODY", "OPS", "PRELUDE", "Dialect", "Parameter", "prelude"]

PRELUDE = Path(__file__).parent / "prelude"
OPS = Path(__file__).parents[1] / "ops"


@cache
def prelude(files: tuple[str, ...]) -> str:
    """Return files of the folder ``prelude`` as one text; messages name them as ``hiprt/<file>``."""
    return "".join(f'#line 1 "hiprt/{name}"\n{(PRELUDE / name).read_text()}' for name in files)


@lru_cache(maxsize=256)  # one body serves all values of a kernel's template
def named_in(body: str) -> tuple[str, ...]:
    """Return the kernel attributes that a body names, in their order."""
    return tuple(name for name in ATTRIBUTES if re.search(rf"\b{name}\b", body))


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel; ``word`` is the dialect's name of its type."""

    name: str
    word: str
    is_buffer: bool
    is_const: bool


@dataclass(frozen=True)
class Dialect:
    """How one target writes a kernel.

    Attributes
    ----------
    files : tuple of str
        The prelude's files in the folder ``prelude``, in order.
    opening, closing : str
        The text before and after the body; its fields are ``name``, ``threads`` and ``parameters``.
    buffer, scalar : str
        The text of one parameter; its fields are ``const``, ``word``, ``restrict``, ``name`` and ``index``.
    attribute : str
        The text of a kernel attribute; its fields are ``word``, ``name`` and ``value``.
    is_metal : bool
        Whether attributes are parameters and the body stays as it is. Otherwise attributes are local variables.
    """

    files: tuple[str, ...]
    opening: str
    closing: str
    buffer: str
    scalar: str
    attribute: str
    is_metal: bool = False

    @cached_property
    def prelude(self) -> str:
        """The prelude's text."""
        return prelude(self.files)

    def parameter(self, parameter: Parameter, index: int, restrict: bool) -> str:
        """Return one parameter of the signature."""
        form = self.buffer if parameter.is_buffer else self.scalar
        return form.format(
            const="const " if parameter.is_const else "",
            word=parameter.word,
            restrict="__restrict__ " if restrict else "",
            name=parameter.name,
            index=index,
        )

    def kernel(
        self,
        name: str,
        parameters: Sequence[Parameter],
        definitions: Sequence[str],
        body: str,
        *,
        file: str,
        threads: int,
        restrict: bool,
        is_varied: bool = False,
        resident: int = 1,
        cluster: int = 1,
        waves: int = 1,
    ) -> str:
        """Return a whole kernel: the signature, definitions, the attributes that the body names, and the body.

        Threadgroups have `threads` threads along x, or vary and have at most so many.
        """
        signature = [self.parameter(p, i, restrict) for i, p in enumerate(parameters)]
        attributes = [
            self.attribute.format(
                word=ATTRIBUTES[each].word,
                name=each,
                value=ATTRIBUTES[each].whole.format(threads=0 if is_varied else threads),
            )
            for each in named_in(body)
        ]
        if self.is_metal:
            signature, attributes = signature + attributes, []
        bounds = str(threads) if self.is_metal or resident == 1 else f"{threads}, {resident}"
        grouped = f" __cluster_dims__({cluster})" if cluster > 1 else ""
        grouped += f" HIPRT_WAVES({waves})" if waves > 1 else ""
        text = body if self.is_metal else declare_shared(body)
        opening = self.opening.format(name=name, threads=bounds, cluster=grouped, parameters=", ".join(signature))
        generated = f'#line 1 "signature of {file}"'
        return "\n".join([generated, opening, *definitions, *attributes, f'#line 1 "{file}"', text, self.closing, ""])


# The prelude of a user's body.
BODY = (
    "target.h",
    "types.h",
    "vectors.h",
    "math.h",
    "cpu.h",
    "threads.h",
    "integers.h",
    "transcendental.h",
    "functions.h",
    "complex.h",
    "limits.h",
    "lanes.h",
    "atomics.h",
    "grid.h",
    "words.h",
    "utils.h",
    "simdgroup_matrix.h",
)
# The prelude of a user's body in Metal.
METAL_BODY = ("metal_body.h", "utils.h")
# The prelude that declares Metal's library for the strict checker.
CHECK = (
    "metal_check.h",
    "types.h",
    "vectors.h",
    "math.h",
    "threads.h",
    "integers.h",
    "transcendental.h",
    "functions.h",
    "complex.h",
    "limits.h",
    "lanes.h",
    "atomics.h",
    "metal_words.h",
    "utils.h",
    "simdgroup_matrix.h",
)

DIALECTS = {
    "hip": Dialect(
        files=(
            "target.h",
            "types.h",
            "vectors.h",
            "math.h",
            "cpu.h",
            "transcendental.h",
            "complex.h",
            "threads.h",
            "simd.h",
            "dot.h",
            "matrix.h",
            "atomics.h",
            "arrival.h",
            "overlap.h",
            "stages.h",
            "words.h",
        ),
        opening='namespace metal {{\nextern "C" __global__ void __launch_bounds__({threads}){cluster} '
        "{name}({parameters}) {{",
        closing="}\n}  // namespace metal",
        buffer="{const}{word}* {restrict}{name}",
        scalar="{word} {name}",
        attribute="const {word} {name} = {value};",
    ),
    "metal": Dialect(
        files=("metal.h",),
        opening="[[kernel, max_total_threads_per_threadgroup({threads})]] void {name}({parameters}) {{",
        closing="}",
        buffer="{const}device {word}* {name} [[buffer({index})]]",
        scalar="const constant {word}& {name} [[buffer({index})]]",
        attribute="{word} {name} [[{name}]]",
        is_metal=True,
    ),
}
