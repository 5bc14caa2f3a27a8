"""The flag registry."""

import os
import re
import subprocess
import sys

import pytest

from hiprt.errors import HipWarning
from hiprt.flags import Flags, names, spelled, table, warn_unknown


def test_boolean_accepts_only_0_and_1(monkeypatch):
    """A boolean flag is 0 or 1; anything else names variable and value."""
    monkeypatch.setenv("HIPRT_GRAPH", "0")
    assert Flags().graph is False
    monkeypatch.setenv("HIPRT_GRAPH", "yes")
    with pytest.raises(ValueError, match="HIPRT_GRAPH='yes': expected 0 or 1"):
        _ = Flags().graph


def test_integer_has_a_least_value(monkeypatch):
    """Integers below the least, or no integers, are refused."""
    for bad in ("0", "-1", "x", ""):
        monkeypatch.setenv("HIPRT_GRAPH_SLOTS", bad)
        with pytest.raises(ValueError, match="at least 1"):
            _ = Flags().graph_slots


@pytest.mark.parametrize("bad", ["18446744073709551616", "1" * 5000, "2147483648", "\u00b2", "1_0", " 1", "--1"])
def test_integers_fit_what_they_are_handed_to(monkeypatch, bad):
    """C takes no integer of any size, and numbers are written in digits."""
    for name, attribute in (("HIPRT_GRAPH_MAX_NODES", "graph_max_nodes"), ("HIPRT_GRAPH_FANOUT", "graph_fanout")):
        monkeypatch.setenv(name, bad)
        with pytest.raises(ValueError, match=r"at most 2147483647$"):
            getattr(Flags(), attribute)
    monkeypatch.setenv("HIPRT_GRAPH_MAX_BYTES", "9223372036854775807")
    assert Flags().graph_max_bytes == 2**63 - 1


def test_choice_names_what_is_allowed(monkeypatch):
    """A word outside the choice is refused with the list."""
    monkeypatch.setenv("HIPRT_PROVIDER", "cuda")
    with pytest.raises(ValueError, match="auto, rocm, nvidia, cpu, null"):
        _ = Flags().provider


def test_words_are_those_of_a_list(monkeypatch):
    """A rung that does not exist is refused with the list; without it, a typo would run every step eagerly."""
    monkeypatch.setenv("HIPRT_GRAPH_RUNGS", "replay, eager")
    assert Flags().graph_rungs == ("replay", "eager")
    monkeypatch.setenv("HIPRT_GRAPH_RUNGS", "reply,eager")
    with pytest.raises(ValueError, match="'reply' is none of replay, patch, update, instantiate, eager"):
        _ = Flags().graph_rungs


def test_every_value_is_checked_before_a_library_is_opened():
    """Also of what only native code reads, and of what would be read much later."""
    for name in ("HIPRT_CPU_THREADS", "HIPRT_GRAPH_SLOTS"):
        child = subprocess.run(
            [sys.executable, "-c", "import hiprt; hiprt.zeros(1)"],
            env={**os.environ, name: "many"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 1
        assert f"{name}='many': expected an integer of at least" in child.stderr


def test_values_are_shown_as_they_are_set():
    """Tables show what can be put into the environment."""
    assert spelled(True) == "1"
    assert spelled(("replay", "eager")) == "replay,eager"
    assert spelled(()) == ""
    assert "| `HIPRT_GRAPH_RUNGS` | `replay,patch,update,instantiate,eager` |" in table()
    assert "| `HIPRT_CPU_QUIRKS` | unset |" in table()


def test_first_read_is_kept_until_reload(monkeypatch):
    """The environment is read once."""
    flags = Flags()
    assert flags.graph_slots == 4
    monkeypatch.setenv("HIPRT_GRAPH_SLOTS", "7")
    assert flags.graph_slots == 4
    flags.reload()
    assert flags.graph_slots == 7


def test_override_restores_even_after_an_exception():
    """override is undone; an unknown name is an error."""
    flags = Flags()

    def fail():
        with flags.override(graph=False):
            assert flags.graph is False
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert flags.graph is True
    with pytest.raises(AttributeError, match="grph"), flags.override(grph=1):
        pass


def test_unknown_names_warn_with_the_nearest():
    """A typo is caught."""
    with pytest.warns(HipWarning, match="HIPRT_GRAPHS is not a flag of hiprt; did you mean HIPRT_GRAPH"):
        assert warn_unknown({"HIPRT_GRAPHS": "1", "HIPRT_GRAPH": "1", "OTHER": "x"}) == ["HIPRT_GRAPHS"]


def test_import_warns_about_unknown_names():
    """The check runs at import."""
    code = "import warnings; warnings.simplefilter('error'); import hiprt"
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HIPRT_GRAFH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode != 0
    assert "did you mean HIPRT_GRAPH?" in child.stderr


def test_native_code_reads_no_other_variable(root):
    """Every variable the native code reads is registered, and it is read in one file."""
    known = {flag.name for flag in names().values() if flag.native}
    for file in [
        *(root / "hiprt").glob("native/*.c"),
        *(root / "graphs").glob("native/*.c"),
        *(root / "hiprt" / "cpu").rglob("*.cpp"),
    ]:
        text = file.read_text()
        if re.search(r"getenv\(.HIPRT", text):
            assert file.name == "flags.cpp", file
    text = "".join((root / "hiprt" / file).read_text() for file in ("cpu/flags.cpp", "nvidia/hip_rtc.c"))
    for name in known:
        assert f'"{name}"' in text, name
