"""The text of the guarantees: every citation has one, what keeps each and what shows it exist, and tests cite each."""

import ast
import re

import pytest

SOURCES = ("hiprt", "graphs", "allocator", "kernels", "metal_compat", "bench", "tests", "examples", "docs")
SUFFIXES = (".py", ".c", ".cpp", ".h", ".md")
CITATION = re.compile(r"\bG(\d+)\b")
HEADING = re.compile(r"^## G(\d+) (.+)$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.(?:py|c))(?:::(\w+))?`")


@pytest.fixture(scope="session")
def guarantees(root):
    """The text of each guarantee, by number."""
    parts = HEADING.split((root / "graphs" / "GUARANTEES.md").read_text())
    return {int(number): text for number, text in zip(parts[1::3], parts[3::3])}


def cited(root, folders):
    """Yield (file, number) of every citation, once a file."""
    for folder in folders:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SUFFIXES and "checkpoint" not in file.parts:
                for number in {int(found) for found in CITATION.findall(file.read_text())}:
                    yield file.relative_to(root), number


def holds(text):
    """Whether a guarantee is not marked as one that does not hold yet."""
    return "**Does not hold yet.**" not in text


def test_numbers_are_without_gaps(guarantees):
    """A guarantee keeps its number for ever."""
    assert list(guarantees) == list(range(1, len(guarantees) + 1))


def test_every_citation_has_a_text(root, guarantees):
    """In code, tests and documents."""
    found = list(cited(root, SOURCES))
    assert len({file for file, _ in found}) > 30
    assert [(str(file), number) for file, number in found if number not in guarantees] == []


def test_tests_cite_every_guarantee_that_holds(root, guarantees):
    """The text names tests; tests say which guarantee they are for."""
    by_tests = {number for file, number in cited(root, ["tests"]) if file.name.startswith("test_")}
    assert {number for number, text in guarantees.items() if holds(text)} - by_tests == set()


def test_what_keeps_and_shows_a_guarantee_exists(root, guarantees):
    """Each that holds names files that keep it and tests that show it; files, and tests in them, are there."""
    for number, text in guarantees.items():
        names = NAMED.findall(text)
        if holds(text):
            assert re.search(r"^- Kept by `", text, re.MULTILINE), number
            assert any(test for _, test in names), number
        for path, test in names:
            assert (root / path).is_file(), (number, path)
            if test:
                tree = ast.parse((root / path).read_text())
                functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
                assert test in functions, (number, path, test)


def test_the_text_is_shipped(root):
    """It is a part of the installed package, beside the code that cites it."""
    assert '"hiprt.graphs" = ["GUARANTEES.md"]' in (root / "pyproject.toml").read_text()
