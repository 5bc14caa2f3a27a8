"""From logits to the next token: filters, draws, and the step's state on the device."""

from hiprt.kernels.ops.sampling.accept_draft import accept_draft
from hiprt.kernels.ops.sampling.advance import advance
from hiprt.kernels.ops.sampling.draft_ngram import draft_ngram
from hiprt.kernels.ops.sampling.filter_logits import filter_logits
from hiprt.kernels.ops.sampling.repetition_penalty import repetition_penalty
from hiprt.kernels.ops.sampling.sample import sample

__all__ = [
    "accept_draft",
    "advance",
    "draft_ngram",
    "filter_logits",
    "repetition_penalty",
    "sample",
]
