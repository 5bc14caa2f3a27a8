"""Dialects: how a kernel's signature is written for a target, and the prelude that makes its body legal there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["ATTRIBUTES", "DIALECTS", "SOURCES", "Dialect", "Parameter"]

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "src"

# Metal's kernel attributes: type, and what a HIP kernel computes it from (prelude/simd.h).
ATTRIBUTES = {
    "thread_position_in_grid": ("uint3", "group_of_grid() * group_size() + thread_of_group()"),
    "threadgroup_position_in_grid": ("uint3", "group_of_grid()"),
    "thread_position_in_threadgroup": ("uint3", "thread_of_group()"),
    "threads_per_threadgroup": ("uint3", "group_size()"),
    "threadgroups_per_grid": ("uint3", "grid_groups()"),
    "threads_per_grid": ("uint3", "grid_groups() * group_size()"),
    "thread_index_in_threadgroup": ("uint", "thread_index()"),
    "thread_index_in_simdgroup": ("uint", "thread_index() & 31u"),
    "simdgroup_index_in_threadgroup": ("uint", "thread_index() >> 5"),
    "simdgroups_per_threadgroup": ("uint", "(group_threads() + 31u) >> 5"),
    "threads_per_simdgroup": ("uint", "32u"),
}

# A threadgroup array is declared with the word; in a pointer's type the word is an address space, which HIP drops.
SHARED_ARRAY = re.compile(r"\bthreadgroup(?=\s[^;(){}*&]*\[)")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, with its type as the dialect's word."""

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
        The prelude, in order, in the folder ``prelude``.
    opening, closing : str
        Around parameters and body; fields ``name``, ``threads``, ``parameters``.
    buffer, scalar : str
        One parameter; fields ``const``, ``word``, ``restrict``, ``name``, ``index``.
    attribute : str
        A local that holds a kernel attribute; fields ``word``, ``name``, ``value``.
    shared : str
        The word that declares a threadgroup array.
    """

    files: tuple[str, ...]
    opening: str
    closing: str
    buffer: str
    scalar: str
    attribute: str
    shared: str

    @cached_property
    def prelude(self) -> str:
        """The prelude's text; messages name its files as ``hiprt/<file>``."""
        return "".join(f'#line 1 "hiprt/{name}"\n{(FOLDER / "prelude" / name).read_text()}' for name in self.files)

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
    ) -> str:
        """Return a whole kernel: signature, definitions, the attributes that the body names, the body."""
        signature = ", ".join(self.parameter(p, i, restrict) for i, p in enumerate(parameters))
        attributes = [
            self.attribute.format(word=word, name=attribute, value=value)
            for attribute, (word, value) in ATTRIBUTES.items()
            if re.search(rf"\b{attribute}\b", body)
        ]
        text = SHARED_ARRAY.sub(self.shared, body)
        opening = self.opening.format(name=name, threads=threads, parameters=signature)
        generated = f'#line 1 "signature of {file}"'
        return "\n".join([generated, opening, *definitions, *attributes, f'#line 1 "{file}"', text, self.closing, ""])


DIALECTS = {
    "hip": Dialect(
        files=("target.h", "types.h", "math.h", "cpu.h", "simd.h", "words.h"),
        opening='namespace metal {{\nextern "C" __global__ void __launch_bounds__({threads}) {name}({parameters}) {{',
        closing="}\n}  // namespace metal",
        buffer="{const}{word}* {restrict}{name}",
        scalar="{word} {name}",
        attribute="const {word} {name} = {value};",
        shared="HIPRT_SHARED",
    )
}
