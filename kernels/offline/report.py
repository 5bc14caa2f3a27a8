"""The report of kernels on targets: a table as text, with which a later report is compared."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import astuple, fields

from hiprt.kernels.offline.resources import Resources

__all__ = ["Report"]

NAMES = tuple(field.name for field in fields(Resources))
PLURALS = {"wide_loads": "128-bit loads", "dots": "dot instructions", "matrices": "matrix instructions"}


class Report:
    """The resources of kernels on targets.

    Parameters
    ----------
    compiler : str
        The compiler that made the code; other versions use other registers.
    rows : iterable of Resources
    """

    def __init__(self, compiler: str, rows: Iterable[Resources]) -> None:
        self.compiler = compiler
        self.rows = sorted(rows)

    def __str__(self) -> str:
        cells = [NAMES, *(tuple(map(str, astuple(row))) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells)]
        aligned = (
            "  ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))
            )
            for row in cells
        )
        return "\n".join([f"# {self.compiler}", *aligned, ""])

    @classmethod
    def parse(cls, text: str) -> Report:
        """Read a report that ``str`` wrote.

        Raises
        ------
        ValueError
            The text is no report, or has other columns.
        """
        first, *lines = text.splitlines() or [""]
        if not first.startswith("# ") or not lines or tuple(lines[0].split()) != NAMES:
            raise ValueError("not a report of kernels: make it with `hiprt compile --target gfx1201 --report`")
        cells = [line.split() for line in lines[1:]]
        return cls(first[2:], [Resources(row[0], row[1], *map(int, row[2:])) for row in cells])

    def of(self, targets: Container[str]) -> Report:
        """Return the part for some targets."""
        return Report(self.compiler, [row for row in self.rows if row.target in targets])

    def regressions(self, before: Report) -> list[str]:
        """Return one sentence for each kernel and target that was better before.

        A kernel got worse if it has more registers in memory, fewer wide loads, dot or matrix instructions, or is not
        in this report.
        """
        now = {(row.kernel, row.target): row for row in self.rows}
        found = []
        for old in before.rows:
            new = now.get((old.kernel, old.target))
            where = f"{old.kernel} on {old.target}"
            if new is None:
                found.append(f"{where} is in the earlier report and was not compiled")
                continue
            if new.spills > old.spills:
                found.append(
                    f"{where} spills: {new.vgpr_spills} vector and {new.sgpr_spills} scalar registers, {new.scratch} "
                    f"bytes of scratch (before: {old.vgpr_spills}, {old.sgpr_spills}, {old.scratch})"
                )
            for name, plural in PLURALS.items():
                if getattr(new, name) < getattr(old, name):
                    found.append(f"{where} has {getattr(new, name)} {plural}; before it had {getattr(old, name)}")
        return found
