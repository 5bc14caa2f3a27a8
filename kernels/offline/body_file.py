"""Body files: a Metal body whose first comments give the arguments of a call.

// inputs: x float16 2, w float16     names, dtypes and numbers of axes (1 where none is given)
// outputs: out float16
// template: T float16, N 4           where the body has parameters

The programs are made for threadgroups along x, and for arrays of eight elements or more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hiprt.kernels.lang.metal_body import WORDS, Body, Form, Operand

__all__ = ["BodyFile"]

LINE = re.compile(r"^// *(inputs|outputs|template): *(.*)$", re.MULTILINE)
THREADS = 256
DTYPES = {dtype.name: dtype for dtype in WORDS}


@dataclass(frozen=True)
class BodyFile:
    """A body and the form of its calls.

    Attributes
    ----------
    body : Body
    form : Form
    """

    body: Body
    form: Form

    @classmethod
    def read(cls, path: Path) -> BodyFile:
        """Read a file.

        Raises
        ------
        ValueError
            The file does not name its outputs, or a comment has something else than names and dtypes.
        """
        source = path.read_text()
        told: dict[str, list[list[str]]] = {"inputs": [], "outputs": [], "template": []}
        for kind, items in LINE.findall(source):
            told[kind] += [item.split() for item in items.split(",") if item.strip()]
        if not told["outputs"]:
            raise ValueError(
                f"{path}: a Metal body has no signature of its own: say what a call would, in comments like "
                "`// inputs: x float16 2, w float16` and `// outputs: out float16`"
            )
        try:
            inputs = {
                name: Operand(DTYPES[dtype], int("".join(axes) or 1), few=False)
                for name, dtype, *axes in told["inputs"]
            }
            outputs = {name: DTYPES[dtype] for name, dtype in told["outputs"]}
            template = tuple((name, DTYPES[v] if v in DTYPES else int(v)) for name, v in told["template"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path}: its first comments are not names and dtypes ({error})") from None
        body = Body(path.stem, tuple(inputs), tuple(outputs), source)
        form = Form(tuple(inputs.values()), tuple(outputs.values()), template)
        body.check_names(form)
        return cls(body, form)

    def text(self, dialect: str) -> str:
        """Return the program in a dialect, ``hip`` or ``metal``."""
        if dialect == "metal":
            return self.body.metal(self.form)
        return self.body.hip(self.form, line=True, threads=THREADS)
