"""The report of resources: as text and back, and what counts as worse."""

from dataclasses import replace

import pytest

from hiprt.kernels.offline.report import Report
from hiprt.kernels.offline.resources import Resources

GOOD = Resources("matvec", "gfx1201", 90, 20, 0, 0, 0, 1024, 16, 6, 8, 2)
OTHER = replace(GOOD, target="gfx942", vgpr=100, waves=4)


def worse(**changes):
    before = Report("clang 1", [GOOD, OTHER])
    return Report("clang 2", [replace(GOOD, **changes), OTHER]).regressions(before)


def test_text_and_back():
    report = Report("clang version 22.1.8", [OTHER, GOOD])
    text = str(report)
    assert text.splitlines()[0] == "# clang version 22.1.8"
    assert Report.parse(text).rows == [GOOD, OTHER]
    assert str(Report.parse(text)) == text


@pytest.mark.parametrize("text", ["", "# clang\n", "# clang\nkernel target\n", "{}", "# clang\nkernel\n# x\n"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="hiprt compile"):
        Report.parse(text)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"vgpr_spills": 3, "scratch": 12},
            "matvec on gfx1201 spills: 3 vector and 0 scalar registers, 12 bytes of scratch",
        ),
        ({"sgpr_spills": 1}, "matvec on gfx1201 spills: 0 vector and 1 scalar"),
        ({"wide_loads": 5}, "matvec on gfx1201 has 5 128-bit loads; before it had 6"),
        ({"dots": 0}, "matvec on gfx1201 has 0 dot instructions; before it had 8"),
        ({"matrices": 1}, "matvec on gfx1201 has 1 matrix instructions; before it had 2"),
    ],
)
def test_what_is_worse(changes, sentence):
    (found,) = worse(**changes)
    assert found.startswith(sentence)


def test_what_is_missing_is_worse():
    (found,) = Report("clang", [GOOD]).regressions(Report("clang", [GOOD, OTHER]))
    assert found == "matvec on gfx942 is in the earlier report and was not compiled"


def test_better_and_new_is_not_worse():
    assert worse(vgpr=200, sgpr=99, lds=0, waves=1, wide_loads=7, dots=9, matrices=3) == []
    assert Report("clang", [GOOD, OTHER]).regressions(Report("clang", [GOOD])) == []


def test_the_part_for_some_targets():
    assert Report("clang", [GOOD, OTHER]).of(["gfx942"]).rows == [OTHER]


def test_prompts_go_by_matrix_instructions(root):
    """Both kernels of prompts for numbers of 16 bits, on every target of the committed report."""
    report = Report.parse((root / "kernels" / "offline" / "amd_report.txt").read_text())
    kernels = (
        "quantized_tiles_float16",
        "quantized_tiles_bfloat16",
        "prefill_attention_float16",
        "prefill_attention_bf",
    )
    rows = [row for row in report.rows if row.kernel.startswith(kernels)]
    assert {row.target for row in rows} == {row.target for row in report.rows}
    for row in rows:
        assert row.matrices >= (4 if row.kernel.startswith("quantized") else 16), (row.kernel, row.target)
        assert row.spills == 0
