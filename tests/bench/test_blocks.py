"""Keys and values in blocks: texts that end and begin, the bits of contiguous caches, exhaustion, what is refused."""

import json
from itertools import chain

import numpy as np
import pytest

import hiprt
from hiprt import __main__, flags
from hiprt.allocator import default_pool
from hiprt.bench.engine.blocks import Blocks, PoolError
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models import preset
from hiprt.bench.engine.models.presets import MINIS
from hiprt.bench.engine.request import Request

ROWS = 16
ORDER = "on GPUs a kernel adds the newest position up first where caches are contiguous"


@pytest.fixture(scope="module")
def model():
    return preset("qwen3-mini")


def start(decoder, prompts):
    decoder.start(prompts)
    for _ in decoder.prefill():
        pass


def tokens_of(decoder):
    return [decoder.token(i) for i in range(decoder.batch)]


def check_same(found, expected):
    """The logits and tokens of two decoders are the same, those of idle texts too."""
    assert tokens_of(found) == tokens_of(expected)
    np.testing.assert_array_equal(found.logits.numpy(), expected.logits.numpy())


@pytest.mark.only("cpu", reason=ORDER)
@pytest.mark.parametrize("name", MINIS)
def test_texts_that_end_and_begin_have_the_bits_of_contiguous_caches(name, stream):
    """In a random order, over blocks that change hands; the decode step is recorded once."""
    model, random = preset(name, dtype=np.float32), np.random.default_rng(7)

    def prompt():
        return random.integers(0, model.config.vocab_size, random.integers(1, 50)).tolist()

    plain = Decoder(model, stream, 128, batch=3)
    paged = Decoder(model, stream, 128, batch=3, kv_blocks=ROWS, kv_pool=20)
    random.shuffle(paged.blocks.free)
    prompts = [prompt() for _ in range(3)]
    for each in (plain, paged):
        start(each, prompts)
    check_same(paged, plain)
    for _ in range(6):
        ended, beginning, steps = int(random.integers(3)), prompt(), int(random.integers(1, 9))
        for each in (plain, paged):
            each.release(ended)
            each.step()
        check_same(paged, plain)
        for each in (plain, paged):
            each.begin(ended, beginning, seed=5)
        for _ in range(steps):
            for each in (plain, paged):
                each.step()
            check_same(paged, plain)
        held = [-(-at // ROWS) for at in paged.positions]
        assert [len(own) for own in paged.blocks.taken] == held
        assert sorted(chain(paged.blocks.free, *paged.blocks.taken)) == [*range(20)]
    assert paged.graph.rungs["instantiate"] == 1
    assert paged.graph.rungs["replay"] == paged.steps - 1


def test_replays_while_blocks_are_added_have_the_bits_of_eager_steps(model, stream):
    """256 tokens under HIPRT_GRAPH_VERIFY=1, and a decoder that launches each kernel by itself."""
    graph, eager = (Decoder(model, stream, 300, batch=2, kv_blocks=ROWS) for _ in range(2))
    for each in (graph, eager):
        start(each, [[5], [*range(30)]])
    with flags.override(graph_verify=True):
        for _ in range(256):
            graph.step()
            eager.step_eager()
    check_same(graph, eager)
    assert graph.graph.rungs == {**dict.fromkeys(graph.graph.rungs, 0), "instantiate": 1, "replay": 255}
    assert [len(own) for own in graph.blocks.taken] == [17, 18]


def test_a_pool_takes_the_memory_of_its_blocks(model, stream):
    """However long a text may become."""
    config, before = model.config, default_pool.stats().allocated
    kept = [Decoder(model, stream, 1024, batch=4, kv_blocks=ROWS, kv_pool=pool) for pool in (8, 40)]
    sizes = [sum(part.nbytes for layer in each.state.layers for part in (layer.keys, layer.values)) for each in kept]
    row = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * model.dtype.itemsize
    assert sizes == [8 * ROWS * row, 40 * ROWS * row]
    assert default_pool.stats().allocated - before >= sum(sizes)


def test_an_exhausted_pool_is_told_and_nothing_is_lost(model, stream):
    """The texts go on with the same bits once blocks are free."""
    wide, narrow = (Decoder(model, stream, 128, batch=2, kv_blocks=ROWS, kv_pool=pool) for pool in (16, 3))
    for each in (wide, narrow):
        start(each, [[1, 2, 3], [*range(15)]])
        for _ in range(13):
            each.step()
    wide.step()
    with pytest.raises(PoolError, match="1 more blocks of 16 tokens are needed, and 0 of 3 are free: release a text"):
        narrow.step()
    for each in (wide, narrow):
        each.release(1)
    assert narrow.positions[0] == wide.positions[0] - 1
    narrow.step()
    assert narrow.token(0) == wide.token(0)
    np.testing.assert_array_equal(narrow.logits.numpy()[0], wide.logits.numpy()[0])
    with pytest.raises(PoolError, match=r"3 more blocks .* and 1 of 3 are free"):
        narrow.begin(1, [*range(40)])
    narrow.begin(1, [4])
    narrow.step()
    with pytest.raises(PoolError, match="8 more blocks"):
        narrow.start([[*range(60)], [*range(50)]])
    start(narrow, [[7], [8]])
    start(wide, [[7], [8]])
    check_same(narrow, wide)


def test_texts_that_do_not_fit_leave_those_before(model, stream):
    """A start without enough blocks ends nothing: the texts go on with the bits that they would have had."""
    tried, left = (Decoder(model, stream, 128, batch=2, kv_blocks=ROWS, kv_pool=4) for _ in range(2))
    for each in (tried, left):
        start(each, [[1, 2, 3], [5] * 20])
    with pytest.raises(PoolError, match="8 more blocks of 16 tokens are needed, and 4 of 4 are free"):
        tried.start([[7] * 60, [8] * 60])
    for each in (tried, left):
        each.step()
    check_same(tried, left)


def test_a_text_in_the_place_of_another_is_the_one_that_is_written_alone(stream):
    """The others do not see it, and it does not see what was there before."""
    model = preset("qwen3-next-mini", dtype=np.float32)
    alone, beside = Decoder(model, stream, 128), Decoder(model, stream, 128, batch=2, kv_blocks=ROWS)
    start(alone, [3, 4, 5])
    start(beside, [[9] * 20, [3, 4, 5]])
    beside.step()
    beside.begin(0, [3, 4, 5])
    for _ in range(4):
        beside.step()
    for _ in range(3):
        alone.step()
    assert beside.state.tokens.numpy()[0, :7].tolist() == alone.state.tokens.numpy()[0, :7].tolist()


@pytest.mark.only("cpu", reason=ORDER)
def test_generate_writes_the_same_texts_in_less_memory():
    """Texts of different lengths in two groups; every logit has the bits of an eager one."""
    prompts = tuple((*range(20, 20 + length),) for length in (5, 130, 9, 17, 3, 30, 8, 100, 7))
    ids = {"prompt_ids": prompts, "tokens": 12, "verify": True}
    plain, paged = generate(Request(**ids)), generate(Request(**ids, kv_blocks=16))
    assert [each.token_ids for each in paged.choices] == [each.token_ids for each in plain.choices]
    assert (paged.verified, paged.kv_blocks, plain.kv_blocks) == (True, 16, None)
    first, second = (sum(-(-(len(each) + 12) // 16) for each in part) for part in (prompts[:5], prompts[5:]))
    per_token = plain.kv_bytes // (5 * 256)
    assert paged.kv_bytes == max(first, second) * 16 * per_token < plain.kv_bytes / 2
    assert paged.rungs["replay"] >= 2 * 10


@pytest.mark.only("cpu", reason=ORDER)
def test_a_text_that_ends_gives_its_blocks_back():
    """The one beside it goes on to its own end."""
    text = hiprt.load()
    whole = text.generate(["Once", "One day there was a"], tokens=30)
    stop = whole.choices[0].text[8:14]
    generation = text.generation(["Once", "One day there was a"], {"tokens": 30, "stop": stop, "kv_blocks": 16})
    generation.run(lambda piece: None, lambda: False, lambda *_: None)
    ended, other = generation.report.choices
    assert (ended.finish_reason, ended.text) == ("stop string", whole.choices[0].text.split(stop)[0])
    assert other.token_ids == whole.choices[1].token_ids
    assert not generation.decoder.blocks.taken[0]
    assert generation.decoder.blocks.taken[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kv-blocks", "24"], "blocks of 24 positions; a power of two from 16 to 4096"),
        (["--kv-blocks", "16", "--kv-bits", "8"], "kv_blocks=16: it does not go with kv_bits, leave that out"),
        (["--kv-blocks", "16", "--speculate", "2"], "kv_blocks=16: it does not go with speculate"),
        (["--kv-blocks", "16", "--save-cache", "x"], "kv_blocks=16: it does not go with save_cache"),
    ],
)
def test_what_the_command_refuses(capsys, options, message):
    with pytest.raises(SystemExit):
        __main__.main(["generate", *options])
    assert message in capsys.readouterr().err


def test_bench_decode_takes_blocks(capsys):
    """The step has a launch more, and each layer of attention another one; it is replayed all the same."""
    options = ["bench", "decode", "--mode", "graph", "--tokens", "4", "--context", "30", "--json"]
    nodes = []
    for more in ([], ["--kv-blocks", "16", "--prompt"]):
        assert __main__.main([*options, *more]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["modes"]["graph"]["rungs"]["replay"] == 4
        nodes.append({kernel["name"]: kernel["nodes"] for kernel in report["kernels"]})
    layers = nodes[0]["norm_rope_attention"]
    assert nodes[1]["paged_attention"] == nodes[1]["norm_rope_write"] == layers
    assert sum(nodes[1].values()) == sum(nodes[0].values()) + layers + 1
    assert "block_slots" in [kernel["name"] for kernel in report["prompt_kernels"]]
    with pytest.raises(SystemExit):
        __main__.main([*options, "--kv-blocks", "16", "--kv-bits", "8"])
    assert "kv_blocks: it is for one device" in capsys.readouterr().err


def test_a_conversation_has_no_blocks():
    with pytest.raises(ValueError, match="kv_blocks=16: a conversation is one text"):
        hiprt.load().conversation(kv_blocks=16)


def test_mistakes_are_named(model, stream, tmp_path):
    def made(**options):
        return Decoder(model, stream, 64, **options)

    paged = made(kv_blocks=ROWS)
    for message, wrong in [
        ("blocks of 24 positions; a power of two from 16 to 4096", lambda: made(kv_blocks=24)),
        ("blocks of 0 positions", lambda: made(kv_blocks=0)),
        ("a pool of 0 blocks", lambda: made(kv_blocks=ROWS, kv_pool=0)),
        ("kv_blocks=16: it does not go with kv_bits or drafts", lambda: made(kv_blocks=ROWS, kv_bits=8)),
        ("does not go with kv_bits or drafts", lambda: made(kv_blocks=ROWS, drafts=2)),
        ("leave kv_blocks out", lambda: paged.write_cache(tmp_path / "cache")),
        ("leave kv_blocks out", lambda: paged.read_cache(tmp_path / "cache", [1])),
        ("kv_pool=3: say by kv_blocks", lambda: made(kv_pool=3)),
        ("call start for the first", lambda: paged.begin(0, [1])),
        ("the prompt needs tokens", lambda: paged.begin(0, [])),
        ("too long for a capacity", lambda: paged.begin(0, [1] * 64)),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


def test_a_table_is_of_whole_blocks(stream):
    blocks = Blocks(16, 5, 2, 50, 8)
    assert blocks.table.shape == (2, 4)
    assert blocks.slots.shape == (8,)
    blocks.reserve({0: 17, 1: 16}, stream)
    assert blocks.taken == [[0, 1], [2]]
    np.testing.assert_array_equal(blocks.table.numpy(), [[0, 1, -1, -1], [2, -1, -1, -1]])
    with pytest.raises(PoolError):
        blocks.reserve({0: 49, 1: 49}, stream)
    assert blocks.taken == [[0, 1], [2]]
    blocks.release(0, stream)
    assert sorted(blocks.free) == [0, 1, 3, 4]
    np.testing.assert_array_equal(blocks.table.numpy()[0], [-1] * 4)
