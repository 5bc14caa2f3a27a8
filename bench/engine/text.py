"""Text: tokens as they come, in pieces that can be shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tokenizers import Tokenizer

__all__ = ["Text", "Writer"]

CONTEXT = 8  # prompt tokens that decide how the first generated one is spelled
BROKEN = "\N{REPLACEMENT CHARACTER}"


class Text:
    """Tokens to text, piece by piece, where no piece ends inside a character.

    Parameters
    ----------
    tokenizer : Tokenizer
    prompt : sequence of int
        The tokens before; a tokenizer may spell the first token of a text differently.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.ids = list(prompt[-CONTEXT:])
        self.start, self.shown = 0, len(self.ids)

    def pending(self) -> str:
        """Return the text of the tokens that have not been shown."""
        before = self.tokenizer.decode(self.ids[self.start : self.shown])
        return str(self.tokenizer.decode(self.ids[self.start :])[len(before) :])

    def push(self, token: int) -> str:
        """Add a token; return the text that is complete."""
        self.ids.append(token)
        piece = self.pending()
        # A character's first bytes decode to a replacement character until its last byte has come.
        if piece.endswith(BROKEN):
            return ""
        self.start, self.shown = self.shown, len(self.ids)
        return piece

    def flush(self) -> str:
        """Return what is left at the end, without an unfinished character."""
        piece = self.pending().rstrip(BROKEN)
        self.start = self.shown = len(self.ids)
        return piece


class Writer:
    """One text as it is written."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], write: Callable[[str], object]) -> None:
        self.pieces = Text(tokenizer, prompt)
        self.write = write
        self.text = ""
        self.ids: list[int] = []
        self.is_ended = False

    def push(self, token: int, stops: Collection[int]) -> None:
        """Add a token, unless the text has ended."""
        if self.is_ended:
            return
        self.ids.append(token)
        self.is_ended = token in stops
        if not self.is_ended:
            self.show(self.pieces.push(token))

    def show(self, piece: str) -> None:
        """Hand on what is complete."""
        self.text += piece
        if piece:
            self.write(piece)
