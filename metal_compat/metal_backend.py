"""The target ``metal`` of ``hiprt compile``: Metal text, written and strictly checked on any machine."""

from __future__ import annotations

from collections.abc import Sequence

from hiprt.errors import CompileError, ProviderError
from hiprt.kernels.offline.builder import Product, Unit
from hiprt.metal_compat.checker import Problem, check_metal, compiler

__all__ = ["MetalBackend"]

HIPRTC_ERROR_COMPILATION = 6


class MetalBackend:
    """The backend for Apple GPUs. It writes text for Apple's compiler, which this machine need not have."""

    targets: tuple[str, ...] = ("metal",)
    dialect = "metal"
    offers = frozenset(("emit", "out"))
    is_loops = False
    fills_cache = False

    def serves(self, target: str) -> bool:
        """Whether the target is ``metal``, which has no versions: the text is for Metal 3 and later."""
        return target in self.targets

    def open(self, _target: str) -> str:
        """Find the checker's compiler."""
        try:
            compiler()
        except RuntimeError as error:
            raise ProviderError("no checker of Metal text", [("ziglang", str(error))]) from None
        return "metal, as checked text"

    def build(self, unit: Unit, target: str, _options: Sequence[str]) -> Product:
        """Write the text and check it.

        Raises
        ------
        CompileError
            The checker found something; ``log`` has one line for each problem.
        ValueError
            The unit is HIP source.
        """
        text = unit.text("metal")
        name = f"{unit.name}.metal"
        if unit.body is None:
            problems = check_metal(text, name)
        else:
            problems = in_body(check_metal(text, f"text of {name}"), text, unit.body.body.source, name)
        if problems:
            log = "\n".join(f"{p.file}:{p.line}: error: {p.text}" for p in problems)
            raise CompileError(HIPRTC_ERROR_COMPILATION, "HIPRTC_ERROR_COMPILATION", "check for metal", unit.name, log)
        return Product(unit, target, {".metal": text.encode()})


def in_body(problems: list[Problem], text: str, source: str, name: str) -> list[Problem]:
    """Give problems in a user's body the line numbers of its file, since the text around the body is generated."""
    before = text[: text.index(source)].count("\n")
    lines = source.count("\n") + 1
    return sorted(
        Problem(name, problem.line - before, problem.text) if 0 < problem.line - before <= lines else problem
        for problem in problems
    )
