import json
import os

import pytest

from kmha import files


def test_written_whole(tmp_path):
    path = tmp_path / "report.json"
    files.write_json(path, {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_utf_8(tmp_path):
    path = tmp_path / "table.md"
    files.write_text(path, "2 × 12 → –\n")
    assert path.read_bytes().decode("utf-8") == "2 × 12 → –\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("before")
    with pytest.raises(TypeError):
        files.write_json(path, {"a": object()})
    with pytest.raises(TypeError):
        files.write_bytes(path, object())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_through_a_link_and_into_a_pipe(tmp_path):
    """Neither is put aside for a file of its name, as /dev/null once was by who may write there."""
    (tmp_path / "elsewhere").mkdir()
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "elsewhere" / "report.json")
    files.write_text(link, "1")
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "report.json").read_text() == "1"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(pipe, "2")
    assert os.read(reader, 9) == b"2"
    os.close(reader)
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "link.json", "pipe"]
