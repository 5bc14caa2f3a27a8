"""The shipped model writes sentences of its grammar, through hiprt."""

from hiprt import Stream, use_stream
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import load
from hiprt.bench.engine.room import bucket
from hiprt.bench.engine.text import Text
from hiprt.bench.story import CHECKPOINT
from hiprt.bench.story.prompts import PROMPTS, score

TOKENS = 60


def test_at_least_95_percent_of_the_sentences_parse():
    """What follows 20 held-out prompts parses, and every token but the very first is one replay."""
    checkpoint = Checkpoint(CHECKPOINT)
    with Stream() as stream, use_stream(stream):
        longest = max(len(checkpoint.encode(prompt)) for prompt in PROMPTS)
        decoder = Decoder(load(checkpoint), stream, bucket(longest + TOKENS))

        def write(prompt):
            ids = checkpoint.encode(prompt)
            decoder.start(ids)
            text, pieces = Text(checkpoint.tokenizer, ids), []
            for _ in range(len(ids) + TOKENS - 1):
                is_prompt = decoder.is_in_prompt
                decoder.step()
                if is_prompt:
                    continue
                token = decoder.token()
                if token in checkpoint.stops:
                    break
                pieces.append(text.push(token))
            return "".join(pieces) + text.flush()

        result = score(write)
    assert len(PROMPTS) == 20
    assert result.sentences >= 60
    assert result.rate >= 0.95, result.faults
    rungs = decoder.graph.rungs
    assert rungs["instantiate"] == 1
    assert rungs["patch"] + rungs["update"] + rungs["eager"] == 0
