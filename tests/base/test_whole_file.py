"""Files that others find whole."""

import os

import pytest

from hiprt.whole_file import whole_file


def test_it_takes_the_place_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with whole_file(path) as fresh:
        fresh.write_text("now")
        assert path.read_text() == "before"
    assert path.read_text() == "now"
    assert os.listdir(tmp_path) == ["file"]


def test_the_one_before_stays_where_writing_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(TypeError), whole_file(path) as fresh:
        fresh.write_text("half") + None
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_no_file_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with (
            pytest.raises(FileExistsError, match=f"{name} is no file: give the name of one"),
            whole_file(tmp_path / name),
        ):
            pytest.fail("there is something to write")
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]
