"""Tables that the benchmarks print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

__all__ = ["text_table"]

WIDEST = 400  # characters; rich would wrap longer lines


def text_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> str:
    """Return rows as text in columns that are as wide as what they hold.

    Parameters
    ----------
    head : sequence of str
        The title of each column.
    rows : iterable of sequences of str
        The cells of each row, at most as many as there are columns.
    names : int
        How many columns, from the left, hold names: they begin at one place. Numbers in the others end at one place.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for index, title in enumerate(head):
        table.add_column(title, justify="left" if index < names else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    page = StringIO()
    Console(file=page, width=WIDEST).print(table)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())
