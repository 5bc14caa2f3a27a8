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
    stops : sequence of str
        Texts that end the text before them.

    Attributes
    ----------
    text : str
        What has been written.
    ids : list of int
        The tokens, with the one that ended the text.
    end : str
        What has ended the text: ``eos`` for a stop token, ``stop`` for one of `stops`; empty before that.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt: Sequence[int], write: Callable[[str], object], stops: Sequence[str] = ()
    ) -> None:
        self.pieces = Text(tokenizer, prompt)
        self.write = write
        self.stops = stops
        self.text = self.held = ""  # held: what may begin one of `stops`
        self.ids: list[int] = []
        self.end = ""

    def push(self, token: int, stops: Collection[int]) -> None:
        """Add a token, unless the text has ended; one of `stops` ends it."""
        if self.end:
            return
        self.ids.append(token)
        if token in stops:
            self.end = "eos"
        else:
            self.show(self.pieces.push(token))

    def finish(self) -> None:
        """Write what was held back."""
        if self.end != "stop":
            self.show(self.pieces.flush())
        if self.end != "stop":
            self.emit(self.held)

    def show(self, piece: str) -> None:
        """Write a piece, up to where one of `stops` is or may begin."""
        text = self.held + piece
        found = [at for at in map(text.find, self.stops) if at >= 0]
        if found:
            self.end = "stop"
            self.emit(text[: min(found)])
            return
        ends = (text[-size:] for stop in self.stops for size in range(min(len(stop) - 1, len(text)), 0, -1))
        starts = (end for end in ends if any(stop.startswith(end) for stop in self.stops))
        self.held = max(starts, key=len, default="")
        self.emit(text[: len(text) - len(self.held)])

    def emit(self, piece: str) -> None:
        """Write a piece; an empty one is nothing to be told."""
        self.text += piece
        if piece:
            self.write(piece)
