import random
import re

import numpy as np
import pytest

from hiprt.bench.story import corpus, grammar
from hiprt.bench.story.feature_grammar import FeatureGrammar
from hiprt.bench.story.prompts import PROMPTS, score
from hiprt.bench.story.taste import Taste


@pytest.fixture(scope="module")
def stories():
    """Stories of the grammar."""
    return [grammar.generate(seed) for seed in range(300)]


@pytest.fixture(scope="module")
def sentences(stories):
    """All sentences of them."""
    return [sentence for story in stories for sentence in grammar.sentences(story)]


def test_every_generated_sentence_parses_and_every_pronoun_fits(stories, sentences):
    assert len(sentences) > 4000
    assert [fault for story in stories for fault in grammar.check_story(story)] == []
    assert all(" ".join(grammar.sentences(story)) == story for story in stories)


def test_the_same_seed_writes_the_same_story(stories):
    assert grammar.generate(5) == grammar.generate(5) == stories[5]
    assert len(set(stories)) == len(stories)


@pytest.mark.wide(turn=5)
def test_prompts_are_about_characters_that_no_story_has():
    assert len(set(PROMPTS)) == 20
    for prompt in PROMPTS:
        first = grammar.sentences(prompt)[0]
        assert [pair for pair in grammar.HELD_OUT if all(re.search(rf"\b{word}\b", first) for word in pair)]
    introduced = re.compile(
        r"(?:\b(\w+) (?:named|called) (\w+)|\b(\w+) whose name was (\w+)|\b(\w+) was an? [\w ]*?(\w+) who lived|"
        r"\bmet (\w+), an? [\w ]*?(\w+)(?:,| who))"
    )
    pairs = set()
    for seed in range(1000):
        found = [[group for group in match.groups() if group] for match in introduced.finditer(grammar.generate(seed))]
        assert len(found) == 2
        pairs |= {tuple(sorted(pair)) for pair in found}
    assert len(pairs) > 300
    assert not pairs & {tuple(sorted(pair)) for pair in grammar.HELD_OUT}


def test_every_prompt_can_be_finished():
    for prompt in PROMPTS:
        assert grammar.check_story(prompt) == []
        rest = prompt[len(" ".join(grammar.sentences(prompt))) :].strip()
        if rest:
            words = len(re.findall(r"\w+|[^\w\s]", rest))
            assert grammar._GRAMMAR.read("sentence", grammar._words(rest)) == (False, words)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The ducks were very tired.", "The ducks was very tired."),
        ("One of the ducks was tired.", "One of the ducks were tired."),
        ("The fox that lived near the ducks was tired.", "The fox that lived near the ducks were tired."),
        ("Neither the ox nor the elk was tired.", "Neither the ox nor the elk were tired."),
        ("The mouse and the geese were tired.", "The mouse and the geese was tired."),
        ('"Do the foxes have my key?" asked Mia.', '"Does the foxes have my key?" asked Mia.'),
        ('"The fox has taken your key," said Tom.', '"The fox has took your key," said Tom.'),
        ('"The foxes have taken your key," said Tom.', '"The foxes has taken your key," said Tom.'),
        ("Ida was an honest fox who lived in the mill.", "Ida was a honest fox who lived in the mill."),
        ("Ida was a wise owl who lived in the mill.", "Ida was an wise owl who lived in the mill."),
        ("One icy night, Mia found a uniform on the hill.", "One icy night, Mia found an uniform on the hill."),
        ("Mia wanted to sit, but she was very cold.", "Mia wanted to sit, but he was very cold."),
        ("Tom wanted to sit, but he was very cold.", "Tom wanted to sat, but he was very cold."),
        ("Mia had never swum on the roof, but she had often slept there.",
         "Mia had never swam on the roof, but she had often slept there."),
        ("Mia thanked Tom for his help.", "Mia thanked Tom for her help."),
        ("One icy night, she lost her kite on the hill.", "One icy night, she lost his kite on the hill."),
        ('"I will help you," said Tom.', "I will help you, said Tom."),
        ('Tom smiled and said: "I know what we must do."', 'Tom smiled and said: "I know what we must do.'),
        ("Both of the deer were hungry.", "both of the deer were hungry."),
        ("In the end, both Mia and Tom were happy, and so was the fox.",
         "In the end, both Mia and Tom were happy, and so were the fox."),
        ("The foxes were wet.", "The  foxes were wet."),
        ("The foxes were wet.", "The foxes were wet ."),
        ("The foxes were wet.", "The foxes were wet"),
        ("The foxes were wet.", "The foxés were wet."),
    ],
)  # fmt: skip
def test_agreement_spaces_and_capitals(right, wrong):
    assert grammar.fault(right) is None
    assert not grammar.parse(wrong)
    assert wrong in grammar.fault(wrong)


@pytest.mark.wide
def test_sentences_with_a_word_dropped_doubled_or_replaced_by_nonsense_are_refused(sentences, part):
    rng = random.Random(0)
    for sentence in part(sentences[:2500]):
        words = sentence.split(" ")
        at = rng.randrange(len(words))
        assert not grammar.parse(" ".join([*words[:at], words[at], *words[at:]]))
        assert not grammar.parse(" ".join([*words[:at], "wug", *words[at + 1 :]]))
        assert not grammar.parse(" ".join(words[:-1]))


def test_swapped_neighbours_are_refused_unless_they_are_alike(sentences):
    rng = random.Random(1)
    refused = 0
    for sentence in sentences[:2500]:
        words = sentence.split(" ")
        at = rng.randrange(len(words) - 1)
        words[at : at + 2] = words[at + 1], words[at]
        refused += not grammar.parse(" ".join(words))
    assert refused > 2490


def test_pronouns_refer_to_the_character_last_named():
    assert grammar.check_story("Mia thanked Tom for his help. He was wet, for he had run all day.") == []
    assert len(grammar.check_story("Mia thanked Tom for his help. She was wet, for she had run all day.")) == 2


def test_sentences_are_cut_where_they_end():
    text = 'Mia ran. "Where is it?" asked Tom. Tom said: "I know." What a day! An unfinished'
    assert grammar.sentences(text) == ["Mia ran.", '"Where is it?" asked Tom.', 'Tom said: "I know."', "What a day!"]
    assert grammar.sentences('Tom said: "I know.') == []
    assert grammar.sentences('Tom said: "I know. Mia ran. ') == ['Tom said: "I know.', "Mia ran."]
    assert grammar.sentences("The end.Once more.") == ["The end.", "Once more."]
    assert grammar.sentences("") == []


def test_score_counts_what_was_written_after_the_prompt():
    assert score(lambda prompt: "").sentences == 0
    assert score(lambda prompt: "").rate == 0.0
    result = score(lambda prompt: " The foxes were wet. The foxes was wet. The")
    assert result.sentences == 40
    assert len(result.faults) >= 20
    assert result.rate == 1 - len(result.faults) / 40


def test_feature_grammars_agree_backtrack_and_refuse_mistakes():
    toy = FeatureGrammar(
        "s = <np ?n> <v ?n>\nnp sg = <art ?x> <n ?x>\nnp pl = owls\nart a = a\nart an = an\nn an = owl\n"
        "v sg = sleeps\nv pl = sleep\n | sing"
    )
    written = {" ".join(toy.write("s", (), Taste("", random.Random(seed)))) for seed in range(60)}
    assert written == {"an owl sleeps", "owls sleep", "owls sing"}
    assert all(toy.read("s", sentence.split()) == (True, len(sentence.split())) for sentence in written)
    assert toy.read("s", ["owls", "sleeps"]) == (False, 1)
    assert toy.words() == {"a", "an", "owl", "owls", "sleeps", "sleep", "sing"}
    with pytest.raises(ValueError, match="no rule derives"):
        toy.write("np", ("dual",), Taste("", random.Random(0)))
    with pytest.raises(ValueError, match="no rule defines"):
        FeatureGrammar("s = <np sg>")
    with pytest.raises(ValueError, match="number of features"):
        FeatureGrammar("s = a\ns ?n = b")


def test_habits_start_with_their_owner_and_move_on():
    options = ["a", "b", "c", "d", "e", "f"]
    told = {
        owner: [Taste(owner, random.Random(seed), 1.0).choose("letter", options) for seed in range(5)]
        for owner in ("Mia", "Tom", "Ida", "Leo", "Max")
    }
    assert all(len(set(first)) == 1 for first in told.values())
    assert len({first[0] for first in told.values()}) > 1
    habit = Taste("Mia", random.Random(0), 1.0)
    assert [habit.choose("letter", options) for _ in range(3)] == [told["Mia"][0]] + [
        options[(options.index(told["Mia"][0]) + 2 * step) % 6] for step in (1, 2)
    ]
    free = Taste("Mia", random.Random(0), 0.0)
    assert {free.choose("letter", options) for _ in range(100)} == set(options)


@pytest.mark.wide(turn=1)
def test_strange_names_and_words_are_given_and_never_learnt():
    rows = [corpus.row(seed) for seed in range(60)]
    stories = [story for row in rows for story in row.stories]
    tokenizer = corpus.tokenizer([story.rest for story in stories], 700)
    inputs, targets = corpus.encode(rows, tokenizer, 256)
    assert inputs.shape == targets.shape == (60, 256)
    learnt = targets != corpus.IGNORED
    assert np.array_equal(inputs[:, 1:][learnt[:, :-1]], targets[:, :-1][learnt[:, :-1]])
    assert 0.9 < learnt.mean() < 1
    made_up = [story for story in stories if story.given and not grammar.parse(story.given)]
    assert len(made_up) > 25
    plain = [story for story in stories if not story.given]
    assert not [fault for story in plain for fault in map(grammar.fault, grammar.sentences(story.rest)) if fault]
    assert corpus.row(3) == corpus.row(3)
