import json

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
