"""Generation and its command: text in pieces, what is counted, how it ends."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest
from helpers import checkpoints
from tokenizers import Tokenizer, decoders, models

from hiprt import HipError, __main__, bfloat16, flags
from hiprt.bench.engine import command, generation, loading_bar
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models.transformer import Transformer
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.shadow import difference
from hiprt.bench.engine.text import Text
from hiprt.errors import RankError

KEYS = {
    "text", "tokens", "tok_s", "first_token_ms", "provider", "device", "nodes_per_token", "launches_per_token", "rungs",
    "peak_bytes", "graph_peak_bytes", "eager_peak_bytes", "changed_nodes_per_token", "verified", "prompt",
    "prompt_tokens", "model", "edges", "planned_bytes", "lower_bound_bytes",
}  # fmt: skip
TOKENS = 40


def run(*arguments, status=0):
    """Run the command; return its stdout and stderr."""
    command = [sys.executable, "-m", "hiprt", *map(str, arguments)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert child.returncode == status, child.stderr
    return child.stdout, child.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model that never ends a text by itself."""
    return checkpoints.write(tmp_path_factory.mktemp("models") / "tiny", eos_token_id=None)


@pytest.fixture
def request_for(folder):
    """Make a request to the random model."""

    def make(**values):
        return Request(**{"model": folder, "prompt": "Once upon", "tokens": TOKENS, **values})

    return make


def test_pieces_are_whole_characters():
    """A character whose bytes are tokens of their own comes out with its last byte."""
    tokenizer = checkpoints.tokenizer()
    message = "aé東🦊\N{COMBINING ACUTE ACCENT}b"
    ids = tokenizer.encode(message).ids
    assert len(ids) == len(message.encode())
    text = Text(tokenizer, [])
    pieces = [text.push(token) for token in ids]
    assert "".join(pieces) == message
    assert [piece for piece in pieces if piece] == list(message)
    assert text.flush() == ""


def test_an_unfinished_character_is_left_out():
    """A text does not end inside a character, and bytes that are no character become marks."""
    tokenizer = checkpoints.tokenizer()
    start = tokenizer.encode("🦊").ids[:2]
    text = Text(tokenizer, tokenizer.encode("prompt").ids)
    assert [text.push(token) for token in start] == ["", ""]
    assert text.flush() == ""
    text = Text(tokenizer, [])
    pieces = [text.push(token) for token in [*start, *tokenizer.encode("x").ids]]
    assert pieces[:2] == ["", ""]
    assert re.fullmatch("\ufffd+x", pieces[2])


def test_bytes_that_are_no_character_do_not_end_the_text():
    """A tokenizer may spell unknown characters as bytes; such bytes become marks, and the text goes on."""
    words = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"\u2581the": 256, "b": 257}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[], byte_fallback=True))
    steps = decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)
    tokenizer.decoder = decoders.Sequence(list(steps))
    text = Text(tokenizer, [257])
    pieces = [text.push(token) for token in (256, *"🦊".encode(), 257, 0x41, 0xF0, 257, 256)]
    assert pieces[:6] == [" the", "", "", "", "🦊", "b"]
    assert re.fullmatch("A\ufffd+b the", "".join(pieces[6:]))


def test_special_tokens_are_not_shown():
    """Special tokens are not text."""
    tokenizer = checkpoints.tokenizer()
    text = Text(tokenizer, tokenizer.encode("ab").ids)
    assert [text.push(token) for token in (257, *tokenizer.encode("c").ids, 256)] == ["", "c", ""]


def test_difference_is_bit_by_bit():
    """Zeros of both signs differ, equal NaNs do not, and the first difference is returned."""
    values = np.array([1.0, 0.0, np.nan, 2.0], np.float32)
    assert difference(values, values.copy()) is None
    other = np.array([1.0, -0.0, np.nan, 3.0], np.float32)
    assert difference(values, other) == (1, 0.0, 0.0)
    halves = np.array([[1.0, 2.0]], bfloat16)
    assert difference(halves, np.nextafter(halves, bfloat16.type(9))) is not None
    assert difference(halves, halves) is None


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"tokens": 0}, "tokens=0"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"seed": -1}, "seed=-1"),
        ({"eager": True, "verify": True}, "verify"),
        ({"batch": -1}, "batch=-1"),
        ({"prompt": ()}, "at least one text"),
        ({"prompt_ids": ((),)}, "prompt_ids"),
        ({"logprobs": 21}, "logprobs=21"),
        ({"prompt": ("a", "b"), "batch": 3}, "batch=3 with 2 prompts"),
    ],
)
def test_requests_are_checked(values, word):
    """A request that makes no sense is refused before anything is loaded."""
    with pytest.raises(ValueError, match=word):
        Request(**values)


def test_text_comes_in_pieces(request_for):
    """What is written piece by piece is the text, and the tokens spell it."""
    pieces = []
    report = generate(request_for(), pieces.append)
    assert len(pieces) > 1
    assert "".join(pieces) == report.text
    assert report.tokens == len(report.token_ids) == TOKENS
    assert report.stop == "length"
    assert report.prompt_tokens == len("Once upon")


def test_counts_of_a_run(request_for):
    """Each token is one launch of the same graph, and the peak of memory is more than the weights."""
    request = request_for()
    report = generate(request)
    # The prompt's chunks of 8 and 1, the draw behind them, and the steps for the tokens behind the first.
    assert report.rungs == {"replay": TOKENS - 2, "patch": 0, "update": 0, "instantiate": 4, "eager": 0}
    assert report.only_replay_after == 1
    assert report.launches_per_token == 1
    assert report.nodes_per_token == 2 * 5 + 4
    assert report.edges >= report.nodes_per_token - 1
    assert report.peak_bytes > (request.model / "model.safetensors").stat().st_size
    assert report.first_token_ms > 0
    assert report.tok_s > 0
    assert report.verified is None


def test_eager_writes_the_same(request_for):
    """Kernel by kernel, without a graph, the text is the same."""
    graph, eager = generate(request_for()), generate(request_for(eager=True))
    assert eager.token_ids == graph.token_ids
    assert eager.rungs == {"replay": 0, "patch": 0, "update": 0, "instantiate": 0, "eager": TOKENS + 1}
    assert eager.launches_per_token >= graph.nodes_per_token / 2
    assert eager.nodes_per_token == 0


def test_texts_side_by_side(request_for):
    """Each text is the one that its prompt and seed give alone."""
    prompts = ("Once upon", "A", "The fox and")
    together = generate(request_for(prompt=prompts, temperature=0.8, seed=3, verify=True))
    assert together.verified
    assert together.tokens == len(prompts) * TOKENS
    for index, prompt in enumerate(prompts):
        alone = generate(request_for(prompt=prompt, temperature=0.8, seed=3 + index))
        assert together.choices[index].text == alone.text
    several = generate(request_for(batch=2, temperature=0.8, seed=3))
    assert several.choices[0].text == together.text
    assert several.choices[1].text == generate(request_for(temperature=0.8, seed=4)).text


def test_many_texts_are_written_in_groups(request_for):
    """More than are written side by side come in groups, by one graph, and each text is what it is alone."""
    prompts, said = [f"{'ab' * i}." for i in range(11)], []
    request = request_for(prompt=tuple(prompts), tokens=6, temperature=0.8, seed=2**32 - 3)
    report = generate(request, progress=lambda *counts: said.append(counts))
    assert [counts for counts in said if counts[2] == "texts"] == [(0, 11, "texts"), (6, 11, "texts")]
    assert [choice.index for choice in report.choices] == list(range(11))
    assert [choice.prompt for choice in report.choices] == prompts
    assert report.tokens == 11 * 6
    assert (report.launches_per_token, report.only_replay_after) == (1, 1)
    for choice, prompt in zip(report.choices, prompts):
        seed = (2**32 - 3 + choice.index) % 2**32
        alone = generate(request_for(prompt=prompt, tokens=6, temperature=0.8, seed=seed))
        assert (choice.text, choice.token_ids) == (alone.text, alone.token_ids)
        assert (choice.finish_reason, choice.prompt_tokens) == ("length", len(prompt))


def test_an_interrupt_ends_the_groups(request_for):
    """The texts of later groups are not begun."""
    answers = iter([False] * 20 + [True] * 9)
    report = generate(request_for(prompt="Once", batch=9, tokens=50), stopped=lambda: next(answers))
    assert report.stop == "interrupted"
    assert [choice.finish_reason for choice in report.choices] == ["interrupted"] * 5


def test_every_text_has_tokens_and_an_end(tmp_path, folder, request_for):
    """Each text has its tokens and why it ended: by a stop token, its length, or the model's positions."""
    free = generate(request_for(prompt=("Once upon", "A"), batch=0))
    first, second = (choice.token_ids for choice in free.choices)
    last = next(token for token in second if token not in first)
    config = json.loads((folder / "config.json").read_text())
    stopping = checkpoints.write(tmp_path, **{**config, "eos_token_id": last, "max_position_embeddings": 30})
    report = generate(request_for(model=stopping, prompt=("Once upon", "A"), tokens=90))
    long, short = report.choices
    assert (long.finish_reason, len(long.token_ids)) == ("positions", 30 - 9)
    assert (short.finish_reason, short.token_ids) == ("stop", second[: second.index(last) + 1])
    assert report.as_dict()["choices"][1]["finish_reason"] == "stop"


def test_prompts_as_tokens(folder, tmp_path, capsys):
    """Tokens are numbers with commas between them, or a file of them; they are the prompt that they spell."""
    arguments = ["generate", "--model", str(folder), "--tokens", "5", "--json"]

    def choices(*given):
        assert __main__.main([*arguments, *given]) == 0
        return json.loads(capsys.readouterr().out)["choices"]

    ids = Checkpoint(folder).encode("Once")
    (expected,) = choices("--prompt", "Once")
    (tmp_path / "ids.json").write_text(json.dumps(ids))
    (tmp_path / "ids.txt").write_text("\n".join(map(str, ids)))
    for given in (",".join(map(str, ids)), str(ids), str(tmp_path / "ids.json"), str(tmp_path / "ids.txt")):
        assert choices("--prompt-ids", given) == [expected]
    both = choices("--prompt", "Once", "--prompt-ids", "7", "--prompt-ids", "258")
    assert [choice["prompt"] for choice in both] == ["Once", Checkpoint(folder).tokenizer.decode([7]), "<|b|>"]


@pytest.mark.parametrize("given", ["", "1;2", "1,,2", "1.5", "[1", "-3", "none.txt", "[]", "1,x"])
def test_tokens_that_are_none(given, capsys):
    """What is neither numbers nor a file of them is refused in one line."""
    with pytest.raises(SystemExit):
        __main__.main(["generate", "--prompt-ids", given])
    assert "--prompt-ids" in capsys.readouterr().err.splitlines()[-1]


def test_a_token_that_the_model_lacks(folder, capsys):
    """It is named."""
    for wrong in (259, 10**11):
        assert __main__.main(["generate", "--model", str(folder), "--prompt-ids", f"1,{wrong},3"]) == 1
        assert f"the prompt needs tokens from 0 to 258, it has {wrong}\n" in capsys.readouterr().err


def test_the_bar_comes_late_and_goes(monkeypatch, capsys):
    """A bar is shown on a terminal after two seconds, and nothing is left of it."""
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: True, raising=False)
    now = iter([0.0, 1.9, 2.1])
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(loading_bar.time, "monotonic", lambda: next(now, 3.0))
    monkeypatch.setenv("TERM", "xterm")
    with loading_bar.LoadingBar() as bar:
        bar(1 << 20, 4 << 20)
        assert stderr.getvalue() == ""
        bar(2 << 20, 4 << 20)
        bar(3 << 20, 4 << 20)
        bar.bar.refresh()
        assert "loading" in stderr.getvalue()
    assert bar.bar is None
    monkeypatch.setattr(stderr, "isatty", lambda: False, raising=False)
    with loading_bar.LoadingBar() as bar:
        bar.begun = -10
        bar(1, 2)
        assert bar.bar is None


def test_command_prints_every_text(folder):
    """The first text is printed as it comes, the others follow it."""
    out, _ = run("generate", "--model", folder, "--prompt", "Eins ", "--prompt", "Zwei ", "--tokens", 6)
    assert out.startswith("Eins ")
    assert "\n\nZwei " in out


def test_a_stop_token_ends_the_text(tmp_path, folder, request_for):
    """The token that ends a text is counted and not shown."""
    free = generate(request_for())
    last = free.token_ids[10]
    at = free.token_ids.index(last)
    config = json.loads((folder / "config.json").read_text())
    stopping = checkpoints.write(tmp_path, **{**config, "eos_token_id": last})
    report = generate(request_for(model=stopping))
    assert report.token_ids == free.token_ids[: at + 1]
    assert report.stop == "eos"
    assert free.text.startswith(report.text)


def test_an_interrupt_ends_the_text(request_for):
    """`stopped` is asked before each step, and ends the text with what there is."""
    answers = iter([False] * 20 + [True])
    report = generate(request_for(), stopped=lambda: next(answers))
    assert report.stop == "interrupted"
    # Asked before two chunks, and once more before the first step; what had been drawn is shown.
    assert report.tokens == 20 - 3 + 1


def test_an_interrupt_ends_the_prompt(request_for):
    """`stopped` is asked between two chunks as well; then there is no text."""
    answers, taken = iter([False, True]), []
    report = generate(request_for(), stopped=lambda: next(answers), progress=lambda *counts: taken.append(counts))
    assert (report.stop, report.tokens, report.text) == ("interrupted", 0, "")
    assert taken == [(8, 9, "tokens")]


def test_a_text_ends_where_the_model_was_trained_for_no_more(tmp_path):
    """Tokens beyond the model's positions are not written, which the report says; a prompt must leave a place."""
    folder = checkpoints.write(tmp_path, eos_token_id=None, max_position_embeddings=24)
    report = generate(Request(model=folder, prompt="Once upon", tokens=100))
    assert (report.tokens, report.stop) == (15, "positions")
    with pytest.raises(ValueError, match="a prompt of 24 tokens leaves no place among the 24 positions"):
        generate(Request(model=folder, prompt="x" * 24))


@pytest.mark.parametrize("options", [{}, {"kv_blocks": 16}, {"verify": True}])
def test_a_text_beside_one_that_has_no_position_left(tmp_path, options):
    """It is written to its own end, as if it were alone."""
    made = checkpoints.write(tmp_path, eos_token_id=None, max_position_embeddings=40)
    prompts = [*range(1, 37)], (5, 6, 7), (8, 9)
    together = generate(Request(model=made, prompt_ids=tuple(map(tuple, prompts)), tokens=20, **options))
    assert [choice.finish_reason for choice in together.choices] == ["positions", "length", "length"]
    assert [len(choice.token_ids) for choice in together.choices] == [4, 20, 20]
    assert (together.stop, together.tokens) == ("positions", 44)
    for choice, prompt in zip(together.choices, prompts):
        alone = generate(Request(model=made, prompt_ids=(tuple(prompt),), tokens=20))
        assert (choice.token_ids, choice.text) == (alone.token_ids, alone.text)


def test_prompts_from_files(folder, tmp_path):
    """A prompt may be a file, or what comes in."""
    (tmp_path / "prompt.txt").write_text("Once upon")
    arguments = ("generate", "--model", folder, "--max-tokens", 5, "--json")
    expected, found = (
        json.loads(run(*arguments, *prompt)[0])
        for prompt in (("--prompt", "Once upon"), ("--prompt-file", tmp_path / "prompt.txt"))
    )
    assert found["token_ids"] == expected["token_ids"]
    command = [sys.executable, "-m", "hiprt", *map(str, arguments), "--prompt", "-"]
    child = subprocess.run(command, input=b"Once upon", capture_output=True, timeout=280, check=True)
    assert json.loads(child.stdout)["token_ids"] == expected["token_ids"]
    child = subprocess.run(command, input=b"ab\xff", capture_output=True, timeout=280, check=False)
    assert b"error: --prompt -: byte 3 is no valid UTF-8" in child.stderr
    (tmp_path / "prompt.txt").write_bytes(b"ab\xff")
    assert "byte 3 is no valid UTF-8" in run(*arguments, "--prompt-file", tmp_path / "prompt.txt", status=2)[1]
    assert "No such file" in run(*arguments, "--prompt-file", tmp_path / "none", status=2)[1]


def test_a_prompt_that_is_no_text():
    """An argument that is no UTF-8 is an error of one line, before anything is loaded."""
    with pytest.raises(ValueError, match="character 3 is no valid UTF-8"):
        Request(prompt="ab\udcff")


def test_a_model_does_not_exist():
    """The model is looked for first."""
    with pytest.raises(CheckpointError):
        generate(Request(model="no such model"))


def test_without_graphs_there_is_nothing_to_verify(request_for):
    """HIPRT_GRAPH=0 runs every step eagerly, which is counted; verifying that is refused."""
    with flags.override(graph=False):
        report = generate(request_for())
        assert report.rungs["eager"] == TOKENS + 2
        assert report.only_replay_after == TOKENS - 1
        with pytest.raises(ValueError, match="HIPRT_GRAPH=0"):
            generate(request_for(verify=True))


def test_verification_finds_one_bit(request_for, monkeypatch, capsys):
    """A single changed bit in one logit is found, named and ends the run with status 1."""
    honest = Decoder.step_eager

    def disturbed(self):
        honest(self)
        if self.position == 12:
            logits = self.logits.numpy(self.stream)
            logits.view(np.uint16)[0, 7] ^= 1
            self.logits.set(logits, self.stream)

    monkeypatch.setattr(Decoder, "step_eager", disturbed)
    report = generate(request_for(verify=True))
    assert report.verified is False
    assert report.stop == "mismatch"
    found = re.fullmatch(r"token 11: logit 7 is (\S+) in the graph and (\S+) run eagerly", report.mismatch)
    assert found
    assert float(found[1]) != float(found[2])
    request = request_for()
    arguments = ["generate", "--model", str(request.model), "--prompt", request.prompt, "--tokens", "9", "--verify"]
    assert __main__.main([*arguments, "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["verified"] is False
    assert "token 11: logit 7" in err


def test_a_lost_rank_is_no_mismatch(request_for, monkeypatch):
    """Logits that differ once a rank is gone raise its error: they say nothing of the graph."""
    honest, is_gone = Decoder.step_eager, []

    def left(self):
        honest(self)
        if self.position == 12:
            self.logits.set(0 * self.logits.numpy(self.stream), self.stream)
            is_gone.append(True)

    def check(self):
        if is_gone:
            raise RankError("rank 0 of 2 has ended without a word", 0)

    monkeypatch.setattr(Decoder, "step_eager", left)
    monkeypatch.setattr(Transformer, "check", check)
    with pytest.raises(RankError, match="rank 0 of 2"):
        generate(request_for(verify=True))


def test_ctrl_c_prints_the_table(request_for, monkeypatch, capsys):
    """The first Ctrl-C ends the text, the table follows, and the earlier handler is back."""
    before = signal.getsignal(signal.SIGINT)
    honest = command.Printer.write

    def interrupted(self, piece):
        is_first = self.prompt is not None
        honest(self, piece)
        if is_first:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command.Printer, "write", interrupted)
    request = request_for()
    assert __main__.main(["generate", "--model", str(request.model), "--prompt", request.prompt]) == 130
    out, _ = capsys.readouterr()
    assert out.startswith("Once upon")
    assert re.search(r"^tokens +9 of the prompt, \d generated \(interrupted\)$", out, re.MULTILINE)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_the_first_step_ends_at_once():
    """Before the first step is over, Ctrl-C raises at once; later the first one asks, and the second one raises."""
    interrupt = command.Interrupt()
    interrupt.poll()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    interrupt.poll()
    interrupt()
    assert interrupt.poll()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_errors_are_one_line(monkeypatch, capsys, folder):
    """hiprt's errors are one line on stderr and status 1; --debug raises them."""

    def fail(*_, **__):
        raise HipError(1, "hipErrorInvalidValue", "hipGraphLaunch", "line one\nline two")

    monkeypatch.setattr(generation, "generate", fail)
    assert __main__.main(["generate", "--model", str(folder)]) == 1
    _, err = capsys.readouterr()
    assert err == "hiprt: hipGraphLaunch: hipErrorInvalidValue (1): line one line two\n"
    with pytest.raises(HipError):
        __main__.main(["generate", "--model", str(folder), "--debug"])


def test_command_as_json(folder):
    """``--json`` prints one object with every key; the run is verified, and replays after the first steps."""
    out, err = run("generate", "--model", folder, "--tokens", TOKENS, "--verify", "--json")
    report = json.loads(out)
    assert report.keys() >= KEYS
    assert err == ""
    assert report["verified"] is True
    assert report["launches_per_token"] == 1
    assert report["only_replay_after"] <= 4
    assert report["rungs"].keys() == {"replay", "patch", "update", "instantiate", "eager"}
    assert report["tokens"] == TOKENS
    assert report["provider"] == "cpu" or os.environ.get("HIPRT_PROVIDER") != "cpu"


def test_command_as_text(folder):
    """The command prints the prompt, its text, then a plain table."""
    out, _ = run("generate", "--model", folder, "--prompt", "Grüße ", "--tokens", 12)
    assert out.startswith("Grüße ")
    text, _, table = out.rpartition("\n\n")
    assert text
    rows = dict(re.match(r"(.+?)  +(.+)", line).groups() for line in table.splitlines())
    assert rows.keys() >= {"provider", "tok/s", "first token", "nodes per token", "rungs"}
    assert rows["launches per token"] == "1"


def test_command_repeats_a_seed(folder):
    """At a temperature above 0 the same seed writes the same text, another seed another text."""
    draw = ("generate", "--model", folder, "--tokens", 20, "--temperature", 1.2, "--json", "--seed")
    texts = [json.loads(run(*draw, seed)[0])["token_ids"] for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_command_writes_at_once(request_for, monkeypatch):
    """Every piece is flushed as it is written."""
    events = []

    class Terminal:
        encoding = "utf-8"

        def write(self, piece):
            events.append(piece)

        def flush(self):
            events.append("flush")

        def isatty(self):
            return False

    monkeypatch.setattr(sys, "stdout", Terminal())
    request = request_for()
    __main__.main(["generate", "--model", str(request.model), "--prompt", "Once", "--tokens", "8"])
    written = [event for event in events if event]
    flushes = [index for index, event in enumerate(written) if event == "flush"]
    assert len(flushes) >= 3
    assert written[0].startswith("Once")
    assert flushes[0] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["generate", "--model", "/no/such/model"], 1, "hiprt: /no/such/model does not exist: give the directory"),
        (["generate", "--tokens", "0"], 2, "tokens=0: must be at least 1"),
        (["generate", "--tokens", "many"], 2, "invalid int value"),
        (["generate", "--eager", "--verify"], 2, "do not ask for eager as well"),
        (
            ["generate", "--model", "someone/Some-4bit"],
            1,
            "`hf download someone/Some-4bit` prints the directory to give",
        ),
    ],
)
def test_command_refuses(arguments, status, words):
    """The command says in a line what cannot be done, without a traceback."""
    out, err = run(*arguments, status=status)
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_command_ends_quietly_when_its_reader_does(folder):
    """`hiprt generate | head` leaves no traceback."""
    command = [sys.executable, "-m", "hiprt", "generate", "--model", str(folder), "--tokens", "300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        err = child.stderr.read()
    assert child.returncode == 1
    assert err == b""


@pytest.mark.parametrize("closed", ["<&- >&-", "2>&-"])
def test_the_command_needs_no_standard_streams(folder, closed):
    """As a service may start it."""
    command = f"exec {shlex.quote(sys.executable)} -m hiprt generate --model {shlex.quote(str(folder))} --tokens 1"
    child = subprocess.run(
        ["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, timeout=280, check=False
    )
    assert (child.returncode, child.stderr) == (0, "")
    assert ("tok/s" in child.stdout) == (closed == "2>&-")


@pytest.mark.parametrize("rerecord", [False, True])
def test_memory_and_changes_of_both_modes(request_for, rerecord):
    """Whether steps are kept or recorded again, no node changes, and graphs need no more memory than eager steps."""
    report = generate(request_for(rerecord=rerecord, verify=True))
    assert report.verified
    assert report.launches_per_token == 1
    assert report.changed_nodes_per_token == 0
    assert report.graph_peak_bytes <= 1.01 * report.eager_peak_bytes
    assert report.only_replay_after <= 4
    assert rerecord == (report.planned_bytes == 0)
    assert report.lower_bound_bytes <= report.planned_bytes <= 1.05 * report.lower_bound_bytes


def test_rerecord_is_a_way_to_use_graphs(folder):
    """Recording again and eager steps exclude each other."""
    with pytest.raises(ValueError, match="rerecord"):
        Request(folder, rerecord=True, eager=True)
    _, said = run("generate", "--rerecord", "--eager", "--model", folder, status=2)
    assert "rerecord" in said
