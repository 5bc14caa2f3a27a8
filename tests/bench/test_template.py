"""Chat templates: the texts of published styles, where they are found, and templates that are wrong or hostile."""

import json
import random
import subprocess
import sys
import threading
from functools import partial

import pytest
from helpers import checkpoints
from helpers.chat_templates import CHATML, QWEN3, SHORT, STYLES, give
from helpers.families import Family
from tokenizers import processors

from hiprt.__main__ import main
from hiprt.bench.engine import template as templates
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.template import find_template

ASKED = [{"role": "user", "content": "Grüße! 1 < 2?"}]
TALK = [*ASKED, {"role": "assistant", "content": "Yes.\n"}, {"role": "user", "content": "And 2 < 1?"}]
SYSTEM = [{"role": "system", "content": "Be brief."}, *ASKED]
THOUGHT = [*ASKED, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, TALK[2]]
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "ä": "<é>"}}}
TOOLS = [*ASKED, {"role": "assistant", "content": "", "tool_calls": [CALL]}]

# What apply_chat_template of the library transformers 5.23 gives; the last test compares with the one installed.
TEXTS = [
    (
        "chatml",
        TALK,
        {},
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nGrüße! 1 < 2?<|im_end|>\n"
        "<|im_start|>assistant\nYes.\n<|im_end|>\n<|im_start|>user\nAnd 2 < 1?<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "chatml",
        SYSTEM,
        {"add_generation_prompt": False},
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nGrüße! 1 < 2?<|im_end|>\n",
    ),
    (
        "llama",
        SYSTEM,
        {"date_string": "1 Jan 2026"},
        "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 1 Jan 2026\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nGrüße! 1 < 2?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    (
        "llama",
        TOOLS,
        {"date_string": "1 Jan 2026"},
        "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 1 Jan 2026\n\n<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nGrüße! 1 < 2?<|eot_id|>"
        '{"name": "add", "parameters": {"a": 1, "ä": "<é>"}}<|start_header_id|>assistant<|end_header_id|>\n\n',
    ),
    ("mistral", TALK, {}, "<s>[INST] Grüße! 1 < 2?[/INST] Yes.</s>[INST] And 2 < 1?[/INST]"),
    ("mistral", SYSTEM, {}, "<s>[INST] Be brief.\n\nGrüße! 1 < 2?[/INST]"),
    (
        "gemma",
        TALK,
        {},
        "<s><start_of_turn>user\nGrüße! 1 < 2?<end_of_turn>\n\n<start_of_turn>model\nYes.<end_of_turn>\n\n"
        "<start_of_turn>user\nAnd 2 < 1?<end_of_turn>\n\n<start_of_turn>model\n",
    ),
    (
        "qwen3",
        THOUGHT,
        {},
        "<|im_start|>user\nGrüße! 1 < 2?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n\n"
        "<|im_start|>user\nAnd 2 < 1?<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "qwen3",
        SYSTEM,
        {"enable_thinking": False},
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nGrüße! 1 < 2?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
    (
        "qwen3",
        TOOLS,
        {"enable_thinking": True},
        "<|im_start|>user\nGrüße! 1 < 2?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
        '{"type": "function", "function": {"name": "add", "arguments": {"a": 1, "ä": "<é>"}}}\n'
        "</tool_call><|im_end|>\n\n<|im_start|>assistant\n",
    ),
]


@pytest.fixture
def folder(tmp_path):
    """A directory in which files about a tokenizer can be put."""
    return tmp_path


@pytest.fixture
def render(folder):
    """Return the text of a template for some messages."""

    def rendered(source, messages=ASKED, **variables):
        is_open = variables.pop("add_generation_prompt", True)
        template = find_template(give(folder, source))
        return template.render(messages, variables, add_generation_prompt=is_open)

    return rendered


@pytest.mark.parametrize(("style", "messages", "variables", "text"), TEXTS)
def test_texts_of_published_styles(render, style, messages, variables, text):
    assert render(STYLES[style], messages, **variables) == text


@pytest.mark.parametrize(("style", "messages", "variables"), [case[:3] for case in TEXTS])
def test_texts_are_those_of_transformers(render, style, messages, variables):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=checkpoints.tokenizer(), bos_token="<s>", eos_token="</s>", chat_template=STYLES[style]
    )
    expected = tokenizer.apply_chat_template(messages, tokenize=False, **{"add_generation_prompt": True, **variables})
    assert render(STYLES[style], messages, **variables) == expected


def test_the_time_is_at_hand(render):
    """A template may ask for the date in a form."""
    assert len(render("{{ strftime_now('%Y-%m-%d') }}")) == len("2026-11-22")


def test_where_templates_are_found(folder):
    """chat_template.jinja wins over tokenizer_config.json, which may have one template, or several by name."""
    assert find_template(folder) is None
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({"eos_token": "</s>"}))
    assert find_template(folder) is None
    settings.write_text(
        json.dumps({"chat_template": "one {{ eos_token }}", "eos_token": "</s>", "add_eos_token": True})
    )
    assert find_template(folder).render(ASKED) == "one </s>"
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools[0].name }}"}]
    settings.write_text(json.dumps({"chat_template": named}))
    found = find_template(folder)
    assert (found.render(ASKED), found.render(ASKED, {"tools": [{"name": "add"}]})) == ("plain", "add")
    (folder / "chat_template.jinja").write_text("file {{ additional_special_tokens }}")
    settings.write_text(json.dumps({"chat_template": "one", "additional_special_tokens": ["<a>", {"content": "<b>"}]}))
    assert find_template(folder).render(ASKED, {"tools": [1]}) == "file ['<a>', '<b>']"


@pytest.mark.parametrize("value", [7, ["a"], [{"name": "default"}], [{"name": "default", "template": 1}], {"a": "b"}])
def test_what_is_no_template(folder, value):
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    with pytest.raises(CheckpointError, match=r"tokenizer_config.json: chat_template is .*, neither a text nor a list"):
        find_template(folder)


def test_no_template_is_the_default(folder):
    named = [{"name": "rag", "template": "a"}, {"name": "tool_use", "template": "b"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    with pytest.raises(CheckpointError, match="no template named default, only rag, tool_use"):
        find_template(folder).render(ASKED)


def test_a_file_that_is_no_text(folder):
    (folder / "chat_template.jinja").write_bytes(b"ab\xff")
    with pytest.raises(CheckpointError, match=r"chat_template.jinja cannot be read .*0xff"):
        find_template(folder)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("a\n{{ raise_exception('System role not supported') }}", 2, "System role not supported"),
        ("a\nb\n{% for %}", 3, "Expected an expression"),
        ("{{ later }}\n{% if messages[0].tool.name %}{% endif %}", 2, "has no attribute 'tool'"),
        ("{% macro f() %}\n{{ 1 / 0 }}{% endmacro %}\n{{ f() }}", 2, "ZeroDivisionError"),
        ("{{ ''.__class__.__mro__ }}", 1, "unsafe"),
        ("\n{% set _ = messages.append(1) %}", 2, "unsafe"),
        ("{% include 'x' %}", 1, "loader"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", 1, "RecursionError"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", None, "RecursionError"),
        ("{{ '\\ud800' }}", None, "half a character"),
    ],
)
def test_an_error_names_the_template_and_the_line(render, source, line, words):
    with pytest.raises(CheckpointError) as caught:
        render(source)
    said = str(caught.value)
    place = "chat_template.jinja: " if line is None else f"chat_template.jinja, line {line}: "
    assert place in said
    assert words in said
    assert said.endswith("change the messages, or leave the template out (--no-chat-template)")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "more than 0.2 seconds"),
        ("{% for i in range(99999) %}{{ 'a' * 9999999 }}{% endfor %}", "(too much memory|more than 0.2 seconds)"),
        ("{{ 'a' * 10 ** 12 }}", "too much memory"),
        ("{{ '%1000000000000d' % 1 }}", "(too much memory|MemoryError|OverflowError)"),
        ("{{ 'a'|center(10 ** 12) }}", "too much memory"),
        ("{{ 10 ** (10 ** 9) }}", "(too much memory|more than 0.2 seconds)"),
        (
            "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "(too much memory|more than 0.2 seconds)",
        ),
    ],
)
def test_a_hostile_template_is_bounded(render, monkeypatch, source, words):
    monkeypatch.setattr(templates, "SECONDS", 0.2)
    monkeypatch.setattr(templates, "BYTES", 128 << 20)
    with pytest.raises(CheckpointError, match=words):
        render(source)


def test_a_template_goes_on_after_one_that_was_ended(folder, monkeypatch):
    """The process that a template has ended is started again, and texts of several threads do not mix."""
    monkeypatch.setattr(templates, "SECONDS", 0.2)
    loop = "{% for i in range(messages[0].content) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    template = find_template(give(folder, loop + "{{ messages[1] }}"))
    assert template.render([{"content": 0}, 7]) == "7"
    first = template.process.child.pid
    assert template.render([{"content": 0}, 8]) == "8"
    assert template.process.child.pid == first
    with pytest.raises(CheckpointError, match="seconds"):
        template.render([{"content": 99999}, 9])
    texts = {}
    threads = [
        threading.Thread(target=lambda i=i: texts.update({i: template.render([{"content": 0}, i])})) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {i: str(i) for i in range(8)}
    assert template.process.child.pid != first


def test_the_process_ends_with_its_template(folder):
    template = find_template(give(folder, "a"))
    assert template.render([]) == "a"
    child = template.process.child
    assert child.returncode is None
    del template
    assert child.returncode is not None


def test_an_interrupt_leaves_no_answer_behind(folder, monkeypatch):
    """Where Ctrl-C comes while a text is awaited, the next text is that of the next messages."""
    template = find_template(give(folder, "{{ messages[0] }}"))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(templates, "exchange", interrupted)
        with pytest.raises(KeyboardInterrupt):
            template.render([1])
    assert template.render([2]) == "2"


def test_any_template_is_a_text_or_an_error(folder, form_in_turn, monkeypatch):
    """Templates with letters that are left out, doubled or exchanged."""
    monkeypatch.setattr(templates, "SECONDS", 0.5)
    draw, texts, errors = random.Random(0), [], []
    template = find_template(give(folder, ""))
    for _ in range(40 if form_in_turn == "short" else 1000):
        source = list(draw.choice(list(STYLES.values())))
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(source))
            source[at] = draw.choice(["", source[at] * 2, source[draw.randrange(len(source))]])
        template.sources["default"] = "".join(source)
        try:
            texts.append(template.render(TALK))
        except CheckpointError as error:
            errors.append(str(error))
    assert texts
    assert errors
    assert all("chat_template.jinja, line " in error for error in errors)


def test_without_jinja2(folder, monkeypatch):
    monkeypatch.setattr(templates, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match="need the package jinja2: `pip install jinja2`"):
        find_template(give(folder, CHATML)).render(ASKED)


def test_only_the_process_imports_jinja2():
    """A model without a template starts as fast as before."""
    code = "import sys, hiprt.bench.engine.command; assert 'jinja2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("family", ["qwen3-mini", "qwen3-moe-mini", "qwen3-next-mini"])
def test_a_prompt_is_a_question(tmp_path, family):
    """Where a checkpoint has a template, generation answers; `chat_template=False` continues the prompt itself."""
    folder = give(Family(family, "bfloat16").write_mlx(tmp_path / family), SHORT, bos_token="<|endoftext|>")
    made = partial(Request, model=folder, tokens=4)
    written = made(prompt="<|b|>s:x<|a|><|b|>u:Hi<|a|><|b|>a:", chat_template=False)
    expected, found = generate(written), generate(made(prompt="Hi", system_prompt="x"))
    assert found.prompt_tokens == expected.prompt_tokens == 11 + 3
    assert found.token_ids == expected.token_ids
    assert found.prompt == "Hi"
    other = generate(made(prompt=("Hi", "You there"), template_values={"unused": 1}))
    assert other.prompt_tokens == (6 + 3) + (13 + 3)


def test_special_tokens_are_those_of_the_template(tmp_path):
    """A tokenizer that begins every text with a token does not begin a template's text with another one."""
    folder = give(checkpoints.write(tmp_path, eos_token_id=None), "{{ bos_token }}{{ messages[0].content }}")
    give(folder, (folder / "chat_template.jinja").read_text(), bos_token="<|a|>")
    tokenizer = checkpoints.tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing("<|a|> $A", special_tokens=[("<|a|>", 257)])
    tokenizer.save(str(folder / "tokenizer.json"))
    assert generate(Request(model=folder, prompt="ab", tokens=1)).prompt_tokens == 3
    assert generate(Request(model=folder, prompt="ab", tokens=1, chat_template=False)).prompt_tokens == 3


def test_a_system_prompt_needs_a_template(tmp_path):
    with pytest.raises(ValueError, match=r"a chat template, which .* does not have"):
        generate(Request(model=checkpoints.write(tmp_path), system_prompt="Be brief."))
    with pytest.raises(ValueError, match="do not leave the template out"):
        Request(system_prompt="Be brief.", chat_template=False)
    with pytest.raises(ValueError, match="system_prompt: character 1 is no valid UTF-8"):
        Request(system_prompt="\udcff")


def test_the_command_answers(tmp_path, capsys):
    """What is printed of an answer is the answer; a continuation is printed with its prompt."""
    folder = str(give(checkpoints.write(tmp_path, eos_token_id=None), QWEN3))
    assert main(["generate", folder, "--prompt", "Why?", "--tokens", "3", "--system-prompt", "Be brief."]) == 0
    assert "Why?" not in capsys.readouterr().out
    assert main(["generate", "--model", folder, "--prompt", "Why?", "--tokens", "3", "--no-chat-template"]) == 0
    assert capsys.readouterr().out.startswith("Why?")
    counts = []
    for config in ("{}", '{"enable_thinking": false}'):
        assert main(["generate", folder, "--tokens", "1", "--json", "--chat-template-config", config]) == 0
        counts.append(json.loads(capsys.readouterr().out)["prompt_tokens"])
    assert counts[1] - counts[0] == len("<think>\n\n</think>\n\n")
    with pytest.raises(SystemExit):
        main(["generate", folder, "--model", folder])
    assert "not allowed with argument" in capsys.readouterr().err
    names = '{"add_generation_prompt": false, "messages": [], "self": 1}'
    assert main(["generate", folder, "--tokens", "1", "--json", "--chat-template-config", names]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_tokens"] == counts[0]
    for wrong in ("[]", "{"):
        with pytest.raises(SystemExit):
            main(["generate", folder, "--chat-template-config", wrong])
        assert "--chat-template-config: invalid JSON object" in capsys.readouterr().err
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('no') }}")
    assert main(["generate", folder]) == 1
    assert "chat_template.jinja, line 1: no" in capsys.readouterr().err
