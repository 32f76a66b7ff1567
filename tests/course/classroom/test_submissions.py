import json
import zipfile

import pytest

from kmha.course.classroom import submissions
from kmha.course.classroom.submissions import SubmissionsError, places, read
from kmha.course.exercises import notebooks

nbformat = pytest.importorskip("nbformat")

ANSWER = "def twice(array):\n    return 2 * array\n"


def _folder(path, files):
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _notebook(doubling, code=ANSWER):
    notebook = notebooks.student(doubling)
    notebook.cells[2].source = code
    return nbformat.writes(notebook)


def _without_metadata(text):
    notebook = json.loads(text)
    notebook["metadata"] = {}
    return json.dumps(notebook)


def test_submission_is_a_folder_an_archive_or_a_notebook(tmp_path):
    _folder(tmp_path, {"bob/x.py": "", "anna.zip": b"", "cleo.ipynb": "", "note.txt": "", ".x/y": "", "__MACOSX/y": ""})
    (tmp_path / "link").symlink_to(tmp_path / "bob")
    assert list(places(tmp_path)) == ["anna", "bob", "cleo"]


def test_folder_and_archive_with_the_same_name(tmp_path):
    _folder(tmp_path, {"anna/x.py": "", "anna.zip": b"", "anna.ipynb": ""})
    assert {id: path.name for id, path in places(tmp_path).items()} == {
        "anna": "anna",
        "anna.ipynb": "anna.ipynb",
        "anna.zip": "anna.zip",
    }


def test_names_hold_no_escape_sequences(tmp_path):
    (tmp_path / "a\x1b[31mb").mkdir()
    (tmp_path / "a\x1b[32mb").mkdir()
    assert list(places(tmp_path)) == ["a\N{REPLACEMENT CHARACTER}[31mb", "a\N{REPLACEMENT CHARACTER}[32mb"]


@pytest.mark.parametrize("name", ["empty", "file.txt", "nothing"])
def test_folder_without_submissions(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").touch()
    with pytest.raises(SubmissionsError, match="for each student"):
        places(tmp_path / name)


@pytest.mark.parametrize(
    "name", ["a1_doubling/twice.py", "a1/twice.py", "twice.py", "work/a1_mine/twice.py", "somewhere/twice.py"]
)
def test_answer_is_found_by_folder_or_by_name(tmp_path, doubling, name):
    assert read("anna", _folder(tmp_path, {name: ANSWER, "other.py": "1"}), [doubling]).answers == {"a1.twice": ANSWER}


def test_assignment_folder_counts_first(tmp_path, doubling):
    found = read("anna", _folder(tmp_path, {"a0/twice.py": "old", "a1_doubling/twice.py": ANSWER}), [doubling])
    assert found.answers == {"a1.twice": ANSWER}
    assert found.notes == ("a0/twice.py is left out: another file has the answer to a1.twice.",)


@pytest.mark.parametrize("name", ["a1.ipynb", "a1_doubling.ipynb", "renamed.ipynb", "deeper/a1-anna.ipynb"])
def test_notebook_names_its_assignment(tmp_path, doubling, name):
    found = read("anna", _folder(tmp_path, {name: _notebook(doubling)}), [doubling])
    assert found.notes == ()
    assert found.answers["a1.twice"] == ANSWER


def test_notebook_without_metadata_is_found_by_name(tmp_path, doubling):
    text = _without_metadata(_notebook(doubling))
    found = read("anna", _folder(tmp_path, {"a1_mine.ipynb": text, "mine.ipynb": text}), [doubling])
    assert found.answers["a1.twice"] == ANSWER
    assert found.notes == ("mine.ipynb is left out: neither its metadata nor its name says which assignment it is.",)


def test_single_notebook_and_an_archive(tmp_path, doubling):
    _folder(tmp_path, {"anna.ipynb": _notebook(doubling)})
    with zipfile.ZipFile(tmp_path / "bob.zip", "w") as archive:
        archive.writestr("work/a1_doubling/twice.py", ANSWER)
    for path in places(tmp_path).values():
        assert read("x", path, [doubling]).answers["a1.twice"] == ANSWER


def test_edited_answer_counts(tmp_path, doubling):
    starter = doubling.items[0].master.starter
    cases = {
        "notebook": {"a1_doubling/twice.py": starter, "a1.ipynb": _notebook(doubling)},
        "file": {"a1_doubling/twice.py": ANSWER, "a1.ipynb": _notebook(doubling, starter)},
        "both": {"a1_doubling/twice.py": ANSWER, "a1.ipynb": _notebook(doubling, "def twice(x): return x")},
    }
    found = {name: read(name, _folder(tmp_path / name, files), [doubling]) for name, files in cases.items()}
    assert {name: each.answers["a1.twice"] for name, each in found.items()} == dict.fromkeys(cases, ANSWER)
    assert [each.notes for each in found.values()][:2] == [(), ()]
    assert "The file counts" in found["both"].notes[0]


@pytest.mark.parametrize("text", ["", "[", "3", "{}", '{"cells": 3, "metadata": {"kmha": []}}', "[" * 100_000])
def test_invalid_notebook(tmp_path, doubling, text):
    found = read("anna", _folder(tmp_path, {"a1.ipynb": text, "a1/twice.py": ANSWER}), [doubling])
    assert found.answers == {"a1.twice": ANSWER}
    assert len(found.notes) == 1
    assert found.notes[0].startswith("a1.ipynb is left out: ")


def test_size_limits(tmp_path, doubling, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_CODE", 50)
    files = {"a1/twice.py": ANSWER + "#" * 50, "a1/again.py": ANSWER}
    found = read("anna", _folder(tmp_path, files), [doubling])
    assert (found.answers, found.notes) == ({"a1.again": ANSWER}, ("a1/twice.py is left out: it is too large.",))
    monkeypatch.setattr(submissions, "MAX_TOTAL", 10)
    assert read("anna", tmp_path, [doubling]).answers == {}


def test_number_of_notes_is_limited(tmp_path, doubling):
    files = {f"{number}/twice.py": "" for number in range(40)}
    assert len(read("anna", _folder(tmp_path, files), [doubling]).notes) == submissions.MAX_NOTES + 1


def test_text_in_any_encoding(tmp_path, doubling):
    files = {"a1/twice.py": b"\xef\xbb\xbfx = 1\r\n", "a1/again.py": b"# \xff\n"}
    assert read("anna", _folder(tmp_path, files), [doubling]).answers == {
        "a1.twice": "x = 1\n",
        "a1.again": "# \N{REPLACEMENT CHARACTER}\n",
    }


def test_digest_depends_on_the_content(tmp_path, doubling):
    path = _folder(tmp_path, {"a1/twice.py": ANSWER})
    first = read("anna", path, [doubling])
    assert read("anna", path, [doubling]).digest == first.digest
    _folder(tmp_path, {"a1/twice.py": ANSWER + "\n"})
    assert read("anna", path, [doubling]).digest != first.digest


def test_number_of_notebooks_is_limited(tmp_path, doubling, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_NOTEBOOKS", 1)
    other = _notebook(doubling, "def twice(array): return 3 * array")
    found = read("anna", _folder(tmp_path, {"a1.ipynb": _notebook(doubling), "a1_other.ipynb": other}), [doubling])
    assert found.answers["a1.twice"] == ANSWER
    assert found.notes == ("a1_other.ipynb is left out: there are more than 1 notebooks.",)


def test_notebook_with_too_much_code_is_noted(tmp_path, doubling):
    text = _notebook(doubling, ANSWER + ";".join(["x = 1"] * 6_000))
    found = read("anna", _folder(tmp_path, {"a1.ipynb": text}), [doubling])
    assert found.answers == {}
    assert found.notes == (
        "a1.ipynb is left out: it has more than 5,000 statements.",
        "No answer was found, so this submission gets 0 points.",
    )
