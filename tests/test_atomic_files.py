import json
import os

import pytest

from kmha import atomic_files


def test_written_whole(tmp_path):
    path = tmp_path / "report.json"
    atomic_files.write_json(path, {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_utf_8(tmp_path):
    path = tmp_path / "table.md"
    atomic_files.write_text(path, "2 × 12 → –\n")
    assert path.read_bytes().decode("utf-8") == "2 × 12 → –\n"


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def _mode(path):
    return path.stat().st_mode & 0o777


def test_a_new_file_obeys_the_umask(tmp_path, umask):
    path = tmp_path / "grades.json"
    atomic_files.write_json(path, {"ann": 3})
    assert _mode(path) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_replaced_file_keeps_its_mode(tmp_path, umask, mode):
    path, link = tmp_path / "grades.json", tmp_path / "link.json"
    path.write_text("before")
    path.chmod(mode)
    atomic_files.write_text(path, "after")
    assert (path.read_text(), _mode(path)) == ("after", mode)
    link.symlink_to(path)
    atomic_files.write_text(link, "again")
    assert (path.read_text(), _mode(path)) == ("again", mode)


def test_what_replaces_a_private_file_is_private_from_the_start(tmp_path, umask, monkeypatch):
    path = tmp_path / "grades.json"
    path.write_text("before")
    path.chmod(0o600)
    modes = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: modes.append(os.fstat(descriptor).st_mode & 0o777))
    atomic_files.write_text(path, "after")
    assert modes == [0o600]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("before")
    with pytest.raises(TypeError):
        atomic_files.write_json(path, {"a": object()})
    with pytest.raises(TypeError):
        atomic_files.write_bytes(path, object())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_through_a_link_and_into_a_pipe(tmp_path):
    """Neither is put aside for a file of its name, as /dev/null once was by who may write there."""
    (tmp_path / "elsewhere").mkdir()
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "elsewhere" / "report.json")
    atomic_files.write_text(link, "1")
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "report.json").read_text() == "1"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic_files.write_text(pipe, "2")
    assert os.read(reader, 9) == b"2"
    os.close(reader)
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "link.json", "pipe"]


def test_a_folder_beside_has_the_permissions_of_the_folder_that_it_replaces(tmp_path, umask):
    folder = tmp_path / "release"
    new = atomic_files.folder_beside(folder)
    assert (_mode(new), new.parent) == (0o777 & ~umask, tmp_path)
    folder.mkdir(0o700)
    assert _mode(atomic_files.folder_beside(folder)) == 0o700
