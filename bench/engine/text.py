"""Text: tokens as they come, in pieces that can be shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

__all__ = ["Text", "Writer"]

CONTEXT = 8  # tokens of the prompt that are enough to spell the token behind them
BROKEN = "\N{REPLACEMENT CHARACTER}"


class Text:
    """Tokens to text, piece by piece, where no piece ends inside a character.

    The library's stream decodes the pieces. What it lacks is here: the end of a text, and tokenizers that spell unknown
    characters as bytes, with which it raises where such bytes are no character.

    Parameters
    ----------
    tokenizer : Tokenizer
    prompt : sequence of int
        The tokens of the text before; a tokenizer may spell the first token of a text differently.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.stream = DecodeStream(list(prompt[-CONTEXT:]), skip_special_tokens=True)
        self.held: list[int] = []  # tokens since the last piece

    def push(self, token: int) -> str:
        """Add a token; return the text that is complete now, which may be none."""
        self.held.append(token)
        try:
            piece = self.stream.step(self.tokenizer, token)
        except Exception:  # the library has no class of its own for this
            piece = self.tokenizer.decode(self.held)
            self.stream = DecodeStream([token], skip_special_tokens=True)
        if piece is None:
            return ""
        self.held.clear()
        return str(piece)

    def flush(self) -> str:
        """Return what is left at the end of the text, without an unfinished character."""
        rest = self.tokenizer.decode(self.held).rstrip(BROKEN)
        self.held.clear()
        return str(rest)


class Writer:
    """One text as it is written.

    Parameters
    ----------
    tokenizer : Tokenizer
    prompt : sequence of int
    write : callable
        Takes each piece of the text.

    Attributes
    ----------
    text : str
        What has been written.
    ids : list of int
        The tokens, with the one that ended the text.
    is_ended : bool
        Whether a stop token has come.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], write: Callable[[str], object]) -> None:
        self.pieces = Text(tokenizer, prompt)
        self.write = write
        self.text = ""
        self.ids: list[int] = []
        self.is_ended = False

    def push(self, token: int, stops: Collection[int]) -> None:
        """Add a token, unless the text has ended; one of `stops` ends it."""
        if self.is_ended:
            return
        self.ids.append(token)
        self.is_ended = token in stops
        if not self.is_ended:
            self.show(self.pieces.push(token))

    def show(self, piece: str) -> None:
        """Write a piece; an empty one is kept back."""
        self.text += piece
        if piece:
            self.write(piece)
