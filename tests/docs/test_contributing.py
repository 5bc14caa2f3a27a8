"""CONTRIBUTING names files that exist, for the requests that come most."""

import re

REQUESTS = (
    "add a flag",
    "an elementwise op",
    "a tile size for gfx942",
    "an option of `generate`",
    "a quirk",
    "a HIP function on NVIDIA",
    "a budget rule",
    "a model family",
    "the words of an error",
    "a special case of an AMD architecture",
    "the cache key",
    "a bench column",
    "an atomic for int64",
    "a shuffle on the CPU device",
    "the planner's alignment",
    "a new AMD target",
    "the dump's JSON",
)


def rows(root):
    """Requests and their files."""
    text = (root / "CONTRIBUTING.md").read_text()
    table = text[text.index("| request | file |") :]
    return re.findall(r"^\| ([^|*]+) \| (.*`.*) \|$", table, re.M)


def test_every_file_of_the_table_exists(root):
    """Files and folders, from the root of the checkout."""
    named = [name for _, files in rows(root) for name in re.findall(r"`([\w./]+[/.][\w./]*)`", files)]
    assert len(named) > 50
    missing = [name for name in named if not (root / name).exists()]
    assert not missing


def test_other_files_that_are_named_exist(root):
    """In the text before the table."""
    text = (root / "CONTRIBUTING.md").read_text().split("## Which file")[0]
    named = re.findall(r"`((?:hiprt|graphs|kernels|allocator|metal_compat|bench|tests|docs)/[\w./]*)`", text)
    missing = [name for name in named if not (root / name).exists()]
    assert not missing


def test_the_farthest_requests_have_a_row(root):
    """Each has one, and one file or family of files."""
    requests = [request for request, _ in rows(root)]
    for wanted in REQUESTS:
        assert sum(wanted in request for request in requests) == 1, wanted
