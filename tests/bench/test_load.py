"""`hiprt.load`: its methods write what the command writes, with the command's options and errors."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import checkpoints
from helpers.chat_templates import SHORT, give
from helpers.families import Family
from helpers.reference_model import ReferenceModel

import hiprt
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.generation import generate
from hiprt.bench.engine.models.presets import MINIS
from hiprt.bench.engine.request import Request
from hiprt.bench.story import CHECKPOINT

TOKENS = [3, 141, 59, 26, 53, 58, 97, 9, 32, 38, 4, 62, 64, 33, 83]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model that never ends a text by itself."""
    return checkpoints.write(tmp_path_factory.mktemp("models") / "tiny", eos_token_id=None)


@pytest.fixture(scope="module")
def model(folder):
    return hiprt.load(folder)


@pytest.mark.parametrize("name", MINIS)
def test_every_family_generates_streams_and_has_logits(tmp_path, name):
    """The logits of each token are those of numpy's forward pass; texts are the command's, in one and in pieces."""
    family = Family(name, "float32")
    folder = family.write_mlx(tmp_path)
    loaded = hiprt.load(folder)
    expected = ReferenceModel(family.config, family.weights).logits(TOKENS)
    found = loaded.logits(TOKENS)
    assert found.shape == expected.shape
    assert np.linalg.norm(found.numpy() - expected) / np.linalg.norm(expected) < 1e-3
    report = generate(Request(model=folder, prompt="Once upon", tokens=8))
    for _ in range(2):
        again = loaded.generate("Once upon", max_tokens=8)
        assert (again.token_ids, again.text, again.stop) == (report.token_ids, report.text, "length")
    assert again.rungs["instantiate"] == 0
    assert "".join(loaded.stream("Once upon", tokens=8)) == report.text


def test_logits_of_more_tokens_than_a_chunk(model):
    """A row does not depend on the tokens behind it, or on how many are taken at once."""
    tokens = [index * 7 % 259 for index in range(530)]
    whole = model.logits(tokens).numpy().astype(np.float32)
    assert whole.shape == (530, 259)
    first = model.logits(tokens[:40]).numpy().astype(np.float32)
    assert np.linalg.norm(whole[:40] - first) / np.linalg.norm(first) < 1e-2
    for wrong in ([], [259], [-1], [0] * 1025):
        with pytest.raises(ValueError, match="logits need from 1 to 1024 tokens from 0 to 258"):
            model.logits(wrong)


def test_options_are_those_of_the_command(model, folder):
    """The command's JSON and the report agree."""
    arguments = "--prompt Once --temp 0.9 --top-k 20 --seed 4 --max-tokens 12 --stop zzz".split()
    command = [sys.executable, "-m", "hiprt", "generate", str(folder), "--json", *arguments]
    expected = json.loads(subprocess.run(command, capture_output=True, timeout=280, check=True).stdout)
    found = model.generate("Once", temp=0.9, top_k=20, seed=4, max_tokens=12, stop="zzz")
    assert found.token_ids == expected["token_ids"]
    assert found.sampling == expected["sampling"]
    assert set(found.as_dict()) == set(expected)


def test_rules_of_draws_may_change_from_text_to_text(model, folder):
    """The steps of the text before are used again only where they draw as they should."""
    for options in (
        {"temperature": 0.8, "seed": 1},
        {"temperature": 0.8, "seed": 2},
        {"temperature": 0.8, "seed": 2, "top_k": 5},
        {"repetition_penalty": 1.5},
        {},
        {"verify": True},
        {"eager": True},
        {"rerecord": True},
        {"batch": 2, "temperature": 0.8},
        {"tokens": 400},
    ):
        options = {"tokens": 8, **options}
        expected = generate(Request(model=folder, prompt="Once", **options))
        found = model.generate("Once", **options)
        assert found.token_ids == expected.token_ids, options
        assert found.tokens == expected.tokens
        assert found.verified == expected.verified
    several = model.generate(["Once", "A"], tokens=4)
    assert several.tokens == 8


def test_a_stream_that_is_left_ends_its_text(model):
    """The next text is as if there had been none; two streams at once do not mix."""
    expected = model.generate("Once", tokens=30).text
    left = model.stream("Another", tokens=300)
    next(left)
    left.close()
    first, second = model.stream("Once", tokens=30), model.stream("Once", tokens=30)
    pieces = [[next(first)], [next(second)]]
    for texts, stream in zip(pieces, (first, second)):
        texts += stream
    assert ["".join(texts) for texts in pieces] == [expected, expected]


def test_texts_of_several_threads(model):
    """Each thread has a decoder of its own, and gets the text that it would get alone."""
    prompts = ["Once", "Another", "A", "The fox"]
    expected = {prompt: model.generate(prompt, tokens=20).text for prompt in prompts}
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            texts = pool.map(lambda prompt: model.generate(prompt, tokens=20).text, prompts)
            assert dict(zip(prompts, texts)) == expected


def test_errors_are_those_of_the_command(tmp_path, model):
    with pytest.raises(CheckpointError, match="does not exist: give the directory"):
        hiprt.load(tmp_path / "none")
    with pytest.raises(ValueError, match="tokens=0: must be at least 1"):
        model.generate("Once", tokens=0)
    with pytest.raises(ValueError, match="a prompt of 1024 tokens leaves no place among the 1024 positions"):
        model.stream("x" * 1024)
    with pytest.raises(TypeError, match="maximum"):
        model.generate("Once", maximum=3)
    for name, value in {"model": "elsewhere", "plain": True, "q_mode": "mxfp4", "tp": 2}.items():
        with pytest.raises(TypeError, match=f"{name} is no option of a text: hiprt.load takes"):
            model.generate("Once", **{name: value})
    with pytest.raises(ValueError, match=r"a chat template, which .* does not have"):
        model.generate("Once", system_prompt="Be brief.")


def test_tokens_of_one_prompt_or_of_several(model):
    expected = model.generate(prompt_ids=((5, 6, 7),), tokens=4)
    for given in ([5, 6, 7], [[5, 6, 7]], np.array([5, 6, 7]), np.array([[5, 6, 7]]), [np.array([5, 6, 7])]):
        assert model.generate(prompt_ids=given, tokens=4).token_ids == expected.token_ids
    assert len(model.generate(prompt_ids=[[5, 6], [7]], tokens=4).choices) == 2
    for wrong in (-1, 259, 2**40):
        with pytest.raises(ValueError, match=f"needs tokens from 0 to 258, it has {wrong}$"):
            model.generate(prompt_ids=[5, wrong], tokens=4)


def test_a_question_in_the_chat_template(tmp_path):
    """As for the command, a prompt is a question where the checkpoint has a template."""
    folder = give(checkpoints.write(tmp_path, eos_token_id=None), SHORT)
    loaded = hiprt.load(folder)
    asked, written = loaded.generate("Hi", tokens=5), loaded.generate("Hi", tokens=5, chat_template=False)
    assert (asked.prompt_tokens, written.prompt_tokens) == (9, 2)
    chat = loaded.conversation(tokens=5)
    assert "".join(chat.ask("Hi")) == asked.text


def test_the_model_of_the_package_in_a_process():
    """Without an argument the small model is loaded; importing hiprt imports nothing for it."""
    code = (
        "import sys, hiprt\n"
        "assert not any(name.startswith(('hiprt.bench', 'hiprt.kernels', 'tokenizers')) for name in sys.modules)\n"
        "model = hiprt.load()\n"
        "print(model.checkpoint.path)\n"
        "print(model.generate(max_tokens=5).text)\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=True)
    path, text = child.stdout.split("\n", 1)
    assert path.endswith(str(CHECKPOINT.relative_to(CHECKPOINT.parents[2])))
    assert text.strip()
