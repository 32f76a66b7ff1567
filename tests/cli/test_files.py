import json

import pytest

from kmha.cli import files


def test_written_whole(tmp_path):
    path = tmp_path / "report.json"
    files.write_json(path, {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("before")
    with pytest.raises(TypeError):
        files.write_json(path, {"a": object()})
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
