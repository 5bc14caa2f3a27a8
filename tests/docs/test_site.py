"""What the site is built from: the tables that the hook makes, and the list of pages."""

import importlib.util
import re

import pytest

from hiprt import kernels
from hiprt.flags import names


@pytest.fixture(scope="module")
def hooks(root):
    """The module that mkdocs loads."""
    spec = importlib.util.spec_from_file_location("hooks", root / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(root, hooks, name):
    """A page as it is built."""
    return hooks.on_page_markdown((root / "docs" / name).read_text())


def test_every_flag_is_documented(root, hooks):
    """The page has a row for each variable, with its default and meaning."""
    text = page(root, hooks, "flags.md")
    rows = dict(re.findall(r"^\| `(HIPRT_\w+)` \| (.*) \|$", text, re.M))
    assert list(rows) == [flag.name for flag in names().values()]
    for flag in names().values():
        assert rows[flag.name].endswith(flag.help)


def test_every_quirk_is_documented(root, hooks):
    """Name and meaning of each, and the profiles that switch it on, as the library says."""
    text = page(root, hooks, "quirks.md")
    meanings = dict(re.findall(r"^\| `(\w+)` \| ([^|]{10,}) \|", text, re.M))
    assert list(meanings) == hooks.imitated()["quirks"]
    assert len(meanings) > 50
    (head,) = re.findall(r"^\| quirk \| `cuda` \|.*$", text, re.M)
    assert re.findall(r"`([\w.-]+)`", head) == list(hooks.imitated()["profiles"])
    on = dict(re.findall(r"^\| `(\w+)` \| ((?:x? \| )+x? ?\|)$", text, re.M))
    assert len(on) == len(meanings)
    # No profile of a release has the defects of another kind of device, and paranoid has what any release has.
    columns = {name: [mark.strip() for mark in marks.split("|")[:-1]] for name, marks in on.items()}
    assert not any(marks[0] for marks in columns.values())
    assert all(marks[-1] for marks in columns.values() if any(marks))


def test_every_op_is_documented(root, hooks):
    """What `hiprt.kernels` exports has a row or a section; kernels of one's own are described by hand."""
    text = page(root, hooks, "api/kernels.md")
    sections = [name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)", text, re.M)]
    rows = re.findall(r"^\| `(\w+)` \| \S", text, re.M)
    assert sorted(sections + rows) == sorted(kernels.__all__)


def test_a_marker_that_names_nothing_is_an_error(hooks):
    """A page cannot ask for what is not made."""
    with pytest.raises(KeyError):
        hooks.on_page_markdown("<!-- made: nothing -->")


def test_the_menu_lists_every_page(root):
    """No page is built that nobody finds, and none is listed that is not there."""
    listed = set(re.findall(r": ([\w/-]+\.md)$", (root / "mkdocs.yml").read_text(), re.M))
    docs = root / "docs"
    assert listed == {str(file.relative_to(docs)) for file in docs.rglob("*.md")}


def test_links_between_pages_lead_somewhere(root):
    """Files and headings that README, the pages and CONTRIBUTING link to exist."""
    for file in (root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))):
        for target in re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", file.read_text()):
            assert (file.parent / target).exists(), f"{file.name}: {target}"
