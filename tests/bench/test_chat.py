"""Conversations: caches that are kept from answer to answer, and ``hiprt chat`` in a terminal and behind a pipe."""

import io
import json
import os
import random
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial

import pytest
from helpers import checkpoints
from helpers.chat_templates import SHORT, give
from helpers.families import Family

import hiprt
from hiprt.__main__ import main
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.models.presets import MINIS

SIZE = 6  # tokens of an answer


@pytest.fixture(scope="module", params=list(MINIS))
def model(request, tmp_path_factory):
    """A small model of each family, in float32 so that only the order of sums differs."""
    folder = tmp_path_factory.mktemp("models") / request.param
    return hiprt.load(give(Family(request.param, "float32").write_mlx(folder), SHORT))


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """A model that never ends an answer by itself, with room for many thousand tokens."""
    folder = tmp_path_factory.mktemp("models") / "endless"
    return give(checkpoints.write(folder, eos_token_id=None, max_position_embeddings=100_000), SHORT)


def fresh(chat, question):
    """Return the tokens that a model writes behind a whole conversation, without a cache."""
    text = chat.template.render([*chat.messages, {"role": "user", "content": question}])
    return chat.model.generate(text, tokens=SIZE, chat_template=False)


def at_the_end(left, given):
    """Whether there is nothing left, or an exception where that is given for it."""
    is_end = next(left, None) is None
    if is_end and given:
        raise given
    return is_end


def check_answer(chat, question):
    """Ask, and compare with an answer without a cache."""
    expected = fresh(chat, question)
    assert "".join(chat.ask(question)) == expected.text
    assert chat.report.token_ids == expected.token_ids
    assert chat.report.prompt_tokens == expected.prompt_tokens
    return chat.report


def test_an_answer_is_that_of_the_whole_conversation(model):
    """Only what is new is taken; recurrent layers go on from the end of the question before."""
    chat = model.conversation(system_prompt="Be brief.", tokens=SIZE)
    ends = [0]
    for question in ("Hi", "Why?", "Because of what?"):
        check_answer(chat, question)
        assert ends[-1] <= chat.kept <= len(chat.held)
        assert chat.held == [*chat.encode(chat.messages[:-1], question), *chat.report.token_ids][:-1]
        spoken = chat.template.render(chat.messages[:-1], add_generation_prompt=False)
        ends.append(len(model.checkpoint.encode(spoken, special=False)))
    assert [message["role"] for message in chat.messages] == ["system", *("user", "assistant") * 3]
    assert chat.kept >= ends[2] > 0
    chat.reset()
    assert len(chat.messages) == 1
    check_answer(chat, "Hi")
    assert chat.kept <= 10


def test_a_template_that_leaves_out_thoughts(model):
    """What a template leaves out of earlier answers is left out of the caches, and nothing before it is taken again."""
    forgetful = SHORT.replace("message.content", "message.content.split('</think>')[-1]")
    give(model.checkpoint.path, forgetful + "{%- if add_generation_prompt %}<think>{% endif %}")
    chat = hiprt.load(model.checkpoint.path).conversation(tokens=SIZE)
    check_answer(chat, "Hi")
    chat.messages[-1] = {"role": "assistant", "content": "hm</think>Yes."}
    give(model.checkpoint.path, SHORT)
    end = len("Hi") + 4
    check_answer(chat, "Why?")
    assert end <= chat.kept <= end + 3


def test_what_a_template_may_change(model):
    """Where a conversation is another one from the beginning on, all of it is taken again."""
    chat = model.conversation(tokens=SIZE)
    check_answer(chat, "Hi there")
    chat.messages[0] = {"role": "system", "content": "Hello"}
    check_answer(chat, "Why?")
    assert chat.kept <= 1
    check_answer(chat, "Really?")
    assert chat.kept > 10


@pytest.mark.parametrize("polls", [1, 2, 3, 5])
def test_an_answer_that_is_ended(model, polls):
    """An answer that is ended is part of the conversation; without a token its question is forgotten."""
    chat = model.conversation(tokens=SIZE)
    check_answer(chat, "Hi")
    before, asked = len(chat.messages), iter(range(100))
    pieces = list(chat.ask("Tell me a long story.", lambda: next(asked) >= polls))
    assert chat.report.stop == "interrupted"
    assert "".join(pieces) == chat.report.text
    assert len(chat.messages) == before + 2 * bool(chat.report.token_ids)
    check_answer(chat, "Why?")
    is_forgotten = len(chat.messages) == before + 2
    assert chat.kept > 0 or (is_forgotten and not chat.decoder.state.is_rewindable)


def test_any_course_of_a_conversation(model, form_in_turn):
    """Whatever was asked, ended, left or forgotten before, an answer is that of the conversation."""
    for seed in range(2 if form_in_turn == "short" else 8):
        draw = random.Random(seed)
        chat = model.conversation(tokens=SIZE)
        for _ in range(6):
            question = "".join(draw.choices("abc ", k=draw.choice((1, 7, 40))))
            course = draw.choice(("ask", "ask", "end", "leave", "break", "reset"))
            if course == "ask":
                check_answer(chat, question)
            elif course == "reset":
                chat.reset()
            elif course == "leave":
                pieces = chat.ask(question)
                next(pieces, None)
                pieces.close()
            else:
                left = iter(range(draw.randrange(1, 8)))
                given = KeyboardInterrupt if course == "break" else None
                with suppress(KeyboardInterrupt):
                    list(chat.ask(question, partial(at_the_end, left, given)))
        check_answer(chat, "Well?")


def test_two_conversations_do_not_mix(model):
    one, other = model.conversation(tokens=SIZE), model.conversation(tokens=SIZE)
    for question in ("Hi", "Why?"):
        check_answer(one, question)
        check_answer(other, question + "?")


def test_an_answer_that_is_left_late(model):
    """An answer that is left while another one is written, or after it, changes nothing."""
    chat = model.conversation(tokens=SIZE)
    check_answer(chat, "Hi")
    left = chat.ask("Tell me a long story.")
    next(left)
    check_answer(chat, "Why?")
    left.close()
    check_answer(chat, "Really?")
    assert chat.kept > 0


def test_without_a_template_a_conversation_is_one_text(tmp_path):
    """What is written and what is answered follow each other, and the caches hold all of it."""
    loaded = hiprt.load(checkpoints.write(tmp_path, eos_token_id=None))
    chat = loaded.conversation(tokens=4)
    first = "".join(chat.ask("Once"))
    assert first == loaded.generate("Once", tokens=4).text
    text = [*loaded.checkpoint.encode("Once"), *chat.report.token_ids]
    second = "".join(chat.ask(" upon"))
    assert chat.kept == len(text) - 1
    assert chat.report.prompt_tokens == len(text) + 5
    assert second == loaded.generate(prompt_ids=[[*text, *loaded.checkpoint.encode(" upon")]], prompt=(), tokens=4).text
    with pytest.raises(ValueError, match=r"a chat template, which .* does not have"):
        loaded.conversation(system_prompt="Be brief.")


def test_the_context_may_be_full(tmp_path):
    """An answer ends with the model's positions; a question that does not fit is an error that says what to do."""
    folder = give(checkpoints.write(tmp_path, eos_token_id=None, max_position_embeddings=40), SHORT)
    chat = hiprt.load(folder).conversation()
    list(chat.ask("Hi"))
    assert (chat.report.stop, len(chat.held)) == ("positions", 39)
    with pytest.raises(ValueError, match=r"has \d+ tokens, and the model 40 positions: begin a new one \(/reset\)"):
        list(chat.ask("Why?"))
    chat.reset()
    assert list(chat.ask("Hi"))


def test_an_answer_ends_with_any_stop_token(endless, tmp_path):
    """generation_config.json may list several; the one that ended an answer is in the caches."""
    loaded = hiprt.load(endless)
    free = loaded.generate("Hi", tokens=40).token_ids
    last = next(token for token in free if token != free[0])
    length = free.index(last) + 1
    (endless / "generation_config.json").write_text(json.dumps({"eos_token_id": [256, last]}))
    try:
        chat = hiprt.load(endless).conversation()
        list(chat.ask("Hi"))
        assert (chat.report.stop, chat.report.token_ids) == ("eos", free[:length])
        assert chat.held[-1] == last
    finally:
        (endless / "generation_config.json").unlink()


def test_a_template_that_refuses(tmp_path):
    folder = give(checkpoints.write(tmp_path), "{% if messages|length > 1 %}{{ raise_exception('one') }}{% endif %}x")
    chat = hiprt.load(folder).conversation(tokens=2)
    list(chat.ask("Hi"))
    with pytest.raises(CheckpointError, match="line 1: one"):
        list(chat.ask("Hi"))
    assert len(chat.messages) == 2


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command on lines that come in; return its stdout and stderr."""

    def ran(*arguments, given, status=0):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        try:
            found = main(["chat", *map(str, arguments)])
        except SystemExit as end:
            found = end.code
        out, err = capsys.readouterr()
        assert found == status, err
        return out, err

    return ran


def test_lines_through_a_pipe(run, endless):
    """Each line is a question, each answer ends with a line break; what is no answer goes to the standard error."""
    lines = b"Hi\n\nWhy?\n/help\n/reset\n/what\nHi\n/exit\nnever asked\n"
    out, err = run(endless, "--max-tokens", "5", "--stats", "--system-prompt", "x", given=lines)
    answers = [hiprt.load(endless).generate("Hi", tokens=5, system_prompt="x").text]
    assert out.startswith(answers[0] + "\n")
    assert out.endswith(answers[0] + "\n")
    assert len(re.findall(r"^\[5 tokens, .* of 100000 positions\]$", err, re.MULTILINE)) == 3
    assert "there is no /what: /reset begins" in err
    out, _ = run(endless, "--max-tokens", "5", "--json", "--system-prompt", "x", given=lines)
    said = json.loads(out)
    assert [message["role"] for message in said["messages"]] == ["system", "user", "assistant"]
    assert [answer["text"] for answer in said["answers"]][::2] == answers * 2
    assert [answer["cached_tokens"] > 5 for answer in said["answers"]] == [False, True, False]


def test_the_model_of_the_package_continues():
    """It has no chat template, which one line says."""
    command = [sys.executable, "-m", "hiprt", "chat", "--max-tokens", "5"]
    child = subprocess.run(command, input=b"Once upon", capture_output=True, timeout=280, check=True)
    assert child.stdout.strip()
    assert child.stderr.decode().startswith("The model has no chat template")
    assert child.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [(b"ab\xff\n", "prompt: character 3 is no valid UTF-8"), (b"x" * 200_000 + b"\n", "the model 100000 positions")],
)
def test_what_cannot_be_asked_ends_a_pipe(run, endless, given, words):
    out, err = run(endless, given=given, status=1)
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_wrong_options(run, endless):
    assert "tokens=0: must be at least 1" in run(endless, "--tokens", "0", given=b"", status=2)[1]
    assert "top_p=2" in run(endless, "--top-p", "2", given=b"", status=2)[1]


class Terminal:
    """The command in a pseudo terminal.

    Attributes
    ----------
    shown : str
        What has been shown and not yet waited for.
    """

    def __init__(self, *arguments):
        self.file, other = os.openpty()
        # The shell leads a session without a terminal; the first one that it opens becomes the session's.
        script = 'exec "$@" <"$0" >"$0" 2>&1'
        command = [sys.executable, "-m", "hiprt", "chat", *map(str, arguments)]
        self.child = subprocess.Popen(["sh", "-c", script, os.ttyname(other), *command], start_new_session=True)
        self.other, self.shown = other, ""

    def write(self, text):
        os.write(self.file, text.encode())

    def wait_for(self, text, seconds=120):
        """Read until a text was shown; return what was shown before it."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            assert select.select([self.file], [], [], max(end - time.monotonic(), 0))[0], self.shown
            self.shown += os.read(self.file, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def interrupt_until(self, text, times=20):
        """Press Ctrl-C, as often as needed, until a text is shown.

        Python's input() with readline looks for signals only when one ends its select(): one that comes just before is
        kept until the next key (Modules/readline.c, readline_until_enter_or_signal).
        """
        for _ in range(times):
            self.write("\x03")
            if select.select([self.file], [], [], 5)[0]:
                break
        self.wait_for(text)

    def close(self):
        """Return the exit status of the command, which has been asked to end."""
        try:
            return self.child.wait(timeout=120)
        finally:
            self.child.kill()
            os.close(self.other)
            os.close(self.file)


def test_ctrl_c_ends_an_answer_and_not_the_program(endless):
    """At the prompt it says how to end; Ctrl-D ends with status 0."""
    terminal = Terminal(endless, "--stats")
    terminal.wait_for("Ctrl-C ends an answer.")
    terminal.wait_for("> ")
    for _ in range(2):
        terminal.write("Tell me all\n")
        terminal.wait_for("Tell me all\r\n")
        while len(terminal.shown) < 500:
            terminal.shown += os.read(terminal.file, 65536).decode(errors="replace")
        terminal.write("\x03")
        terminal.wait_for(" tokens of the prompt taken;")
        terminal.wait_for("> ")
    terminal.write("half a line")
    terminal.wait_for("half a line")
    terminal.interrupt_until("/exit or Ctrl-D ends")
    terminal.wait_for("> ")
    terminal.write("\x04")
    assert terminal.close() == 0


def test_an_error_in_a_terminal_does_not_end_the_program(tmp_path):
    folder = give(checkpoints.write(tmp_path, eos_token_id=None, max_position_embeddings=60), SHORT)
    terminal = Terminal(folder)
    terminal.wait_for("> ")
    terminal.write("Hi\n")
    terminal.wait_for("[the model has no positions left: /reset begins a new conversation]")
    terminal.wait_for("> ")
    terminal.write("Why?\n")
    terminal.wait_for("hiprt: the conversation has")
    terminal.wait_for("> ")
    terminal.write("/reset\n")
    terminal.wait_for("> ")
    terminal.write("Hi\n")
    terminal.wait_for("[the model has no positions left")
    terminal.wait_for("> ")
    terminal.write("/exit\n")
    assert terminal.close() == 0
