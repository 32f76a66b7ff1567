import dataclasses
import io
import json
import os
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kmha.course.classroom import downloads, finding, submissions, unpacking
from kmha.course.classroom.submissions import SubmissionsError, collect, read
from kmha.course.exercises import cells, notebooks

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
    found = collect(tmp_path)
    assert list(found.students) == ["anna", "bob", "cleo", "link"]
    assert read("link", found.students["link"], []).notes[0] == "link is left out: it is a link."
    hidden = "it is hidden, or belongs to the operating system"
    assert found.ignored == {
        ".x": hidden,
        "__MACOSX": hidden,
        "note.txt": "it is not a folder, archive, notebook or .py file",
    }


def test_a_link_to_a_name_that_cannot_exist_is_listed(tmp_path):
    """Looking where it leads raised an error, and no one was graded."""
    names = ("zed.zip", "doe_1_2_x.py", "ann_assignsubmission_file_", "bob_x.py", "submission_metadata.yml", ".hidden")
    for name in names:
        (tmp_path / name).symlink_to("a" * 300)
    found = collect(tmp_path)
    assert len(found.students) + len(found.ignored) == len(names)
    assert read("zed.zip", found.students["zed.zip"], []).notes[0] == "zed.zip is left out: it is a link."


def test_a_folder_that_cannot_be_opened_is_a_submission(tmp_path, monkeypatch):
    _folder(tmp_path, {"class/mallory/x.py": ""})
    real = Path.iterdir

    def iterdir(path):
        if path.name == "mallory":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert list(collect(tmp_path / "class").students) == ["mallory"]


def test_folder_and_archive_with_the_same_name(tmp_path):
    _folder(tmp_path, {"anna/x.py": "", "anna.zip": b"", "anna.ipynb": ""})
    assert {id: paths[0].name for id, paths in collect(tmp_path).students.items()} == {
        "anna": "anna",
        "anna.ipynb": "anna.ipynb",
        "anna.zip": "anna.zip",
    }


def test_names_hold_no_escape_sequences(tmp_path):
    (tmp_path / "a\x1b[31mb").mkdir()
    (tmp_path / "a\x1b[32mb").mkdir()
    assert list(collect(tmp_path).students) == ["a\N{REPLACEMENT CHARACTER}[31mb", "a\N{REPLACEMENT CHARACTER}[32mb"]


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no such names")
def test_names_that_are_not_utf_8_stay_apart(tmp_path):
    """Two such names ended the run after all grading, and the names of two students became the same."""
    for name in (b"Dr. M\xfcller", b"Dr. M\xf6ller"):
        (tmp_path / os.fsdecode(name)).touch()
    for name in (b"M\xfcller", b"M\xf6ller"):
        (tmp_path / os.fsdecode(name)).mkdir()
    for name in (b"x.\xff", b"x.\xfe"):
        (tmp_path / os.fsdecode(name)).symlink_to("nowhere")
    found = collect(tmp_path)
    assert [*found.ignored] == [r"Dr. M\udcf6ller", r"Dr. M\udcfcller"]
    assert [*found.students] == [r"M\udcf6ller", r"M\udcfcller", r"x.\udcfe", r"x.\udcff"]


def test_suffixes_hold_no_escape_sequences(tmp_path):
    """The suffix was added to equal names, with its codes for the terminal."""
    for kind in ("\x1b", "\x02", "\udcff"):
        (tmp_path / f"x.{kind}]0;new title\x07").touch()
        (tmp_path / f"y.{kind}]0;new title\x07").symlink_to("nowhere")
    found = collect(tmp_path)
    assert len(found.ignored) == len(found.students) == 3
    assert all(name.isprintable() and name.encode() for name in (*found.ignored, *found.students))


def test_a_folder_that_is_read_as_a_download_is_listed(tmp_path):
    """The only student of a class chose names like those of Canvas, and was not in the report."""
    names = [f"{student}_{number}_1{number}_x.py" for number, student in enumerate(("alice", "bob", "cleo"), 1)]
    found = collect(_folder(tmp_path, {f"mallory/{name}": "" for name in names}))
    assert [*found.students] == ["alice_1", "bob_2", "cleo_3"]
    assert found.ignored == {"mallory/": "it is read as a download of a platform, and its students are graded"}


def test_many_spaces_are_one(tmp_path):
    """In a terminal, a name with as many as it is wide looks like a note on another student."""
    _folder(tmp_path, {f"mallory/x{' ' * 170}bob: Cheating was found.odt": "", f"a{' ' * 170}b/x.py": ""})
    found = collect(tmp_path)
    assert [*found.students] == ["a b", "mallory"]
    assert "x bob: Cheating was found.odt" in read("mallory", found.students["mallory"], []).notes[0]


def test_each_ignored_entry_is_listed(tmp_path):
    (tmp_path / "anna").mkdir()
    for name in ("a\x1b.xyz", "a\x1a.xyz"):
        (tmp_path / name).touch()
    assert len(collect(tmp_path).ignored) == 2


@pytest.mark.parametrize("name", ["empty", "file.txt", "nothing"])
def test_folder_without_submissions(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").touch()
    with pytest.raises(SubmissionsError, match="for each student"):
        collect(tmp_path / name)


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
    for name in ("a1_mine.ipynb", "Copy of a1_doubling.ipynb", "mine.ipynb"):  # the last by its cells
        found = read("anna", _folder(tmp_path / name, {name: text}), [doubling])
        assert (found.answers["a1.twice"], found.notes) == (ANSWER, ())
    other = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")]))
    found = read("anna", _folder(tmp_path / "other", {"mine.ipynb": other}), [doubling])
    assert found.notes[0] == "mine.ipynb is left out: neither its metadata nor its name says which assignment it is."


@pytest.mark.parametrize(
    ("kind", "source", "where"),
    [
        ("code", f"%%python\n{ANSWER}", "a cell that begins with %%python"),
        ("code", f"\n%%writefile notes.txt\n{ANSWER}", "a cell that begins with %%writefile"),
        ("raw", ANSWER, "a raw cell"),
    ],
)
def test_answer_in_a_cell_that_is_not_read_is_noted(tmp_path, doubling, kind, source, where):
    """The notes only said that no answer was found."""
    cell = {"cell_type": kind, "source": source, "metadata": {}, "outputs": []}
    submission = read("anna", _folder(tmp_path, {"a1.ipynb": json.dumps({"cells": [cell]})}), [doubling])
    assert submission.notes[0] == f"a1.ipynb: a1.twice is in {where}, which is not read."
    read_too = {**cell, "cell_type": "code", "source": ANSWER}
    notebook = json.dumps({"cells": [cell, read_too]})
    assert read("anna", _folder(tmp_path, {"a1.ipynb": notebook}), [doubling]).notes == ()


def test_single_notebook_and_an_archive(tmp_path, doubling):
    _folder(tmp_path, {"anna.ipynb": _notebook(doubling)})
    with zipfile.ZipFile(tmp_path / "bob.zip", "w") as archive:
        archive.writestr("work/a1_doubling/twice.py", ANSWER)
    for paths in collect(tmp_path).students.values():
        assert read("x", paths, [doubling]).answers["a1.twice"] == ANSWER


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
    assert (found.answers, found.notes) == ({"a1.again": ANSWER}, ("a1/twice.py is left out: it has more than 0 KiB.",))
    monkeypatch.setattr(submissions, "MAX_TOTAL", 10)
    assert read("anna", tmp_path, [doubling]).answers == {}


def test_files_that_may_be_the_answer_are_limited(tmp_path, doubling, monkeypatch):
    """Each is compared with the starter: 500 files that define all exercises took minutes."""
    calls = []
    monkeypatch.setattr(submissions, "is_starter", lambda code, item: bool(calls.append(code)))
    copies = {f"{number:02}/twice ({number}).py": f"{ANSWER}# {number}\n" for number in range(40)}
    found = read("anna", _folder(tmp_path, copies), [doubling])
    assert found.answers == {"a1.twice": f"{ANSWER}# 39\n"}  # a browser numbers the later versions
    assert len(calls) == submissions.MAX_CANDIDATES
    (tmp_path / "99").mkdir()
    (tmp_path / "99/twice.py").write_text(ANSWER)
    assert read("anna", tmp_path, [doubling]).answers == {"a1.twice": ANSWER}


@pytest.mark.parametrize("terms", [1_000, 1_500, 2_500])
def test_code_that_python_can_parse_but_not_print(tmp_path, doubling, terms):
    """Such a hand-in ended the grading of all."""
    code = f"def twice(array):\n    return {'1+' * terms}1\n"
    assert read("anna", _folder(tmp_path, {"a1/twice.py": code}), [doubling]).answers == {"a1.twice": code}


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


NEAR = [
    *("twice (1).py", "twice-1.py", "twice - Copy.py", "Copy of twice.py", "twice_final.py", "anna_twice.py"),
    *("Twice.py", "TWICE.PY", "twice.py.txt", "twice.txt", "twice.pyw", "twice.PY", "a1-twice.py", "twice (1) (1).py"),
]


@pytest.mark.parametrize("name", NEAR)
def test_misnamed_file_is_taken_with_a_note(tmp_path, doubling, name):
    found = read("anna", _folder(tmp_path, {name: ANSWER}), [doubling])
    note = f"{name} is taken as the answer to a1.twice, because its name contains twice."
    assert (found.answers, found.notes) == ({"a1.twice": ANSWER}, (note,))


def test_file_that_defines_several_exercises(tmp_path, doubling):
    both = ANSWER + "def again(array):\n    return 4 * array\n"
    found = read("anna", _folder(tmp_path, {"homework.py": both}), [doubling])
    assert found.answers == {"a1.twice": both, "a1.again": both}
    assert found.notes[0] == "homework.py is taken as the answer to a1.twice, because it defines twice."


def test_edited_file_with_the_best_name_counts(tmp_path, doubling):
    starter = doubling.items[0].master.starter
    files = {"twice.py": starter, "twice (1).py": "def twice(array): return 1", "twice (2).py": ANSWER, "h.py": ANSWER}
    found = read("anna", _folder(tmp_path, files), [doubling])
    assert found.answers == {"a1.twice": ANSWER}
    assert len(found.notes) == 4
    assert "twice (2).py is taken as the answer to a1.twice, because its name contains twice." in found.notes
    found = read("anna", _folder(tmp_path, {"twice.py": ANSWER + "#"}), [doubling])
    assert found.answers == {"a1.twice": ANSWER + "#"}


def test_what_is_not_read_is_noted(tmp_path, doubling):
    files = {f"{number}.png": "" for number in range(7)}
    files |= {"README.md": "", "helper.py": "x = 1", "twise.py": "x = 1", "test_twice.py": "def test(): pass"}
    found = read("anna", _folder(tmp_path, {**files, "a1/twice.py": ANSWER}), [doubling])
    assert found.notes == (
        "helper.py is left out: no exercise has this name.",
        "test_twice.py is left out: no exercise has this name.",
        "twise.py is left out: no exercise has this name. Is it a1.twice?",
        "Not read, because only .py, .ipynb and archives are: 0.png, 1.png, 2.png, 3.png, 4.png and 2 more.",
    )


def test_broken_code_with_a_near_name_is_taken(tmp_path, doubling):
    assert read("anna", _folder(tmp_path, {"twice (1).py": "def twice(:"}), [doubling]).answers


DOWNLOADS = {
    "moodle folders": {
        "Jane Doe_1234_assignsubmission_file_/a1_doubling/twice.py": ANSWER,
        "Jane Doe_1234_assignsubmission_onlinetext_/onlinetext.html": "",
    },
    "moodle flat": {"Jane Doe_1234_assignsubmission_file_twice.py": ANSWER},
    "canvas": {"doejane_1234_77_twice.py": ANSWER},
    "canvas, late": {"doejane_LATE_1234_77_twice.py": ANSWER},
    "gradescope": {
        "assignment_9_export/submission_1/twice.py": ANSWER,
        "assignment_9_export/submission_metadata.yml": (
            "---\nsubmission_1:\n  :submitters:\n  - :name: \"Jane D\\u00f6e\"\n    :sid: '7'\n    :email: j@x.edu\n"
            "  - :name: 'Bo O''Hara'\n  :created_at: 2026-01-01\n  :history:\n  - :id: 3\n    :submitters:\n"
            "    - :name: Old Name\n"
        ),
    },
    "loose": {"peggy_twice.py": ANSWER, "peggy_a1.ipynb": "{}"},
}
STUDENTS = ["Jane Doe_1234", "Jane Doe_1234", "doejane_1234", "doejane_1234", "Jane D\xf6e, Bo O'Hara", "peggy"]


@pytest.mark.parametrize(("name", "student"), [*zip(DOWNLOADS, STUDENTS, strict=True)])
def test_bulk_downloads(tmp_path, doubling, name, student):
    found = collect(_folder(tmp_path, DOWNLOADS[name]), [doubling])
    assert list(found.students) == [student]
    submission = read(student, found.students[student], [doubling])
    assert submission.answers["a1.twice"] == ANSWER
    wanted = {"canvas, late": "Canvas marks twice.py as late.", "moodle folders": "Not read"}.get(name, "")
    if name != "loose":
        assert len(submission.notes) == bool(wanted)
    assert "".join(submission.notes[:1]).startswith(wanted)


def test_two_versions_in_a_download_of_canvas(tmp_path, doubling):
    files = {"doejane_1_2_twice.py": ANSWER + "# 1", "doejane_1_3_twice-1.py": ANSWER}
    found = collect(_folder(tmp_path, files), [doubling])
    submission = read("doejane_1", found.students["doejane_1"], [doubling])
    assert len(submission.notes) == 1
    assert submission.answers["a1.twice"] == ANSWER + "# 1"


def test_names_that_only_look_like_those_of_canvas(tmp_path, doubling):
    """Seven students became three, and the names of five were nowhere."""
    folders = "group_1_2_final", "group_1_3_final", "2024_11_05_dora", "2024_11_05_emil"
    files = {f"hw_2024_11_{name}_twice.py": ANSWER for name in ("anna", "bob", "carl")}
    files |= {f"{name}/twice.py": ANSWER for name in folders}
    found = collect(_folder(tmp_path, files), [doubling])
    assert {*found.students} == {*folders, "hw_2024_11_anna", "hw_2024_11_bob", "hw_2024_11_carl"}
    for student, paths in found.students.items():
        assert [*read(student, paths, [doubling]).answers] == ["a1.twice"]


@pytest.mark.parametrize(
    "copy", ["doejane_12_120_twice copy.py", "doejane_12_120_twice (1).py", "doejane_12_120_twice/x.py"]
)
def test_copies_in_a_download_of_canvas(tmp_path, doubling, copy):
    """One copy, or one archive that was unpacked beside itself, took the whole class apart."""
    files = ("doejane_12_120_twice.py", "doejane_12_121_again.py", "roejim_13_130_twice.py", copy)
    found = collect(_folder(tmp_path, dict.fromkeys(files, ANSWER)), [doubling]).students
    assert {student: len(paths) for student, paths in found.items()} == {"doejane_12": 3, "roejim_13": 1}


def test_names_as_ruby_writes_them(tmp_path, doubling):
    """Gradescope's list: escapes of YAML that JSON does not have, and names in several lines."""
    written = {
        r'"Jos\xE9 \"X\" \U0001F600 \\xE9 \u00f6 \e"': 'Jos\xe9 "X" \U0001f600 \\xE9 \xf6 \ufffd',
        "A Long\n      Name": "A Long Name",
        "|-\n      Multi\n      Line": "Multi Line",
        '"not closed': '"not closed',
        r'"\UFFFFFFFF \xg"': r"\UFFFFFFFF xg",
    }
    lines = [f"submission_{n}:\n  :submitters:\n  - :name: {name}\n    :sid: 7\n" for n, name in enumerate(written)]
    files = {"submission_metadata.yml": "".join(lines)} | {
        f"submission_{n}/twice.py": ANSWER for n in range(len(lines))
    }
    assert {*collect(_folder(tmp_path, files), [doubling]).students} == {*written.values()}


def _students(path, names, *assignments, text=ANSWER):
    files = {name: text.replace("twice", "again") if "again" in name else text for name in names}
    found = collect(_folder(path, files), assignments).students
    return {student: len(paths) for student, paths in found.items()}


def test_anonymous_download_of_canvas(tmp_path, doubling):
    """Each file became a student, with the points of one exercise."""
    names = ["anon_yJgBk_5678_twice.py", "anon_yJgBk_5679_again.py", "anon_12345_5690_twice.py"]
    names += ["LATE_anon_Zx9aQ_5680_twice.py", "LATE_anon_23456_5681_twice.py", "anon_zzzzz_text.html"]
    students = dict.fromkeys(["anon_12345", "anon_Zx9aQ", "anon_23456", "anon_zzzzz"], 1)
    assert _students(tmp_path, names, doubling) == {"anon_yJgBk": 2} | students
    late = read("anon_Zx9aQ", tmp_path / names[3], [doubling])
    assert (late.notes, *late.answers) == (("Canvas marks twice.py as late.",), "a1.twice")


def test_link_that_was_handed_in(tmp_path, doubling):
    names = ["doejane_12_link.html", "roejim_13_77_twice.py"]
    assert _students(tmp_path, names, doubling) == {"doejane_12": 1, "roejim_13": 1}


@pytest.mark.parametrize("late", ["", "_LATE"])
def test_students_of_canvas_whose_names_end_with_numbers(tmp_path, doubling, late):
    """Such a name took another student's hand-in apart."""
    names = [f"evil_77{late}_500_902_twice.py", f"evil_77{late}_500_903_again.py"]
    names += ["doejane_77_900_twice.py", "doejane_77_901_again.py"]
    assert _students(tmp_path, names, doubling) == {"evil_77_500": 2, "doejane_77": 2}
    found = read("evil_77_500", [tmp_path / name for name in names[:2]], [doubling])
    assert [*found.answers] == ["a1.twice", "a1.again"]
    assert len(found.notes) == 2 * bool(late)


def test_students_of_canvas_with_similar_names(tmp_path, doubling):
    names = [f"student_{number}_{10 + number}_{upload}{number}_{name}.py" for number in (1, 2, 3)
             for upload, name in ((90, "twice"), (91, "again"))]  # fmt: skip
    assert _students(tmp_path, names, doubling) == {"student_1_11": 2, "student_2_12": 2, "student_3_13": 2}


def test_files_that_are_too_long_are_not_read_without_end(tmp_path, doubling, monkeypatch):
    """A zip of 7 MB with 20,000 such files took 14 seconds, and nothing counted them."""
    read_bytes = []
    monkeypatch.setattr(submissions, "MAX_CODE", 1_000)
    monkeypatch.setattr(submissions, "MAX_REFUSED", 10_000)
    with zipfile.ZipFile(tmp_path / "mallory.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a1/twice.py", ANSWER)
        for number in range(200):
            archive.writestr(f"x{number:03}.py", "#" * 5_000)
        archive.writestr("x999.py", "#")
    read_member = unpacking._read_member

    def counted(*arguments):
        read_bytes.append(len(data := read_member(*arguments)))
        return data

    monkeypatch.setattr(unpacking, "_read_member", counted)
    found = read("mallory", tmp_path / "mallory.zip", [doubling])
    assert [*found.answers] == ["a1.twice"]
    assert sum(read_bytes) < 12_000
    assert "x000.py is left out: it has more than 0 KiB." in found.notes
    assert "x010.py is left out: too many files are too long." in found.notes


def test_a_student_of_canvas_whose_name_ends_with_the_own_number(tmp_path, doubling):
    """All files of the class became students of their own if this student handed in half of all files."""
    names = [f"stud{letter}_{20 + place}_{700 + 3 * place + upload}_{name}.py"
             for place, letter in enumerate("abcdefgh")
             for upload, name in enumerate(("twice", "again"))]  # fmt: skip
    own = [f"mallory_12_12_{900 + number}_x{number}.py" for number in range(30)]
    students = {f"stud{letter}_{20 + place}": 2 for place, letter in enumerate("abcdefgh")}
    assert _students(tmp_path, names + own, doubling, text="") == students | {"mallory_12_12": 30}


def test_a_group_that_contradicts_itself_costs_the_others_nothing(tmp_path, doubling):
    names = [f"stud{letter}_{20 + place}_{700 + 3 * place + upload}_{name}.py"
             for place, letter in enumerate("abcdefgh")
             for upload, name in enumerate(("twice", "again"))]  # fmt: skip
    own = [f"mallory_12_900_x{number}.py" for number in range(30)]  # Canvas gives each file a number of its own
    found = _students(tmp_path, names + own, doubling, text="")
    assert {f"stud{letter}_{20 + place}": 2 for place, letter in enumerate("abcdefgh")}.items() <= found.items()


def test_a_file_of_canvas_that_begins_with_a_number_beside_a_name_that_ends_with_one(tmp_path, doubling):
    """The first file became a student of its own, because another student's name ended with this student's number."""
    names = ["bob_20_700_2_twice.py", "bob_20_701_again.py", "mallory_20_12_999_again.py", "anna_30_800_twice.py"]
    assert _students(tmp_path, names, doubling) == {"bob_20": 2, "mallory_20_12": 1, "anna_30": 1}


def test_two_names_of_canvas_that_end_with_numbers(tmp_path, doubling):
    """One file of a student whose name ended with the other's number took all files of the other apart."""
    names = ["student_1_12_345_twice.py", "student_1_12_346_again.py", "eve_12_99_500_twice.py", "anna_30_800_twice.py"]
    assert _students(tmp_path, names, doubling) == {"student_1_12": 2, "eve_12_99": 1, "anna_30": 1}


def test_a_name_of_canvas_that_is_another_students_name_and_number(tmp_path, doubling):
    names = ["bob_20_700_2_twice.py", "bob_20_701_again.py", "bob_20_55_702_twice.py", "bob_20_55_703_again.py"]
    names += ["anna_30_800_twice.py"]
    assert _students(tmp_path, names, doubling) == {"bob_20": 2, "bob_20_55": 2, "anna_30": 1}


def test_names_in_the_only_submission_of_an_autograder(tmp_path, doubling):
    """With two files named like Moodle's, the submission became two students', and the autograder found none."""
    names = ["x_1_assignsubmission_file_twice.py", "y_2_assignsubmission_file_again.py"]
    for folder, students in (("submission", {"submission"}), ("download", {"x_1", "y_2"})):
        found = _folder(tmp_path / folder, {f"{folder}/{name}": ANSWER for name in names})
        assert {*collect(found, [doubling]).students} == students


def test_files_of_canvas_whose_names_look_like_another_students(tmp_path, doubling):
    """With a name of hers and many others, one student took another's submission apart."""
    names = ["doejane_1234_77_twice.py", "doejane_1234_78_again.py", "roejohn_1235_81_twice.py"]
    names += [f"bob_12_{upload}_{upload + 9000}_hw.py" for upload in (499, 500)]  # a name that begins with a number
    own = ["499_z.py", "500_z.py", "82_twice.py", "83_x_1234_7_twice.py", "84_1234_7_twice.py", "85_1234_77_again.py"]
    own += [f"{100 + each}_y{each}_66_{each}_a.py" for each in range(20)]
    own += [f"{200 + each}_{77 + each % 2}_a.py" for each in range(20)]
    own[:2] = [f"{904 + number}_{name}" for number, name in enumerate(own[:2])]
    names += [f"mallory_66_{name}" for name in own]
    students = {"doejane_1234": 2, "roejohn_1235": 1, "mallory_66": len(own)}
    assert _students(tmp_path, names, doubling, text="") == students | {"bob_12": 2}


def test_files_of_canvas_whose_names_have_numbers(tmp_path, doubling):
    names = ["doejane_12_345_hw_1_2_twice.py", "doejane_12_346_hw_1_2_again.py", "roejim_13_347_hw_1_2_twice.py"]
    assert _students(tmp_path, names, doubling) == {"doejane_12": 2, "roejim_13": 1}


def test_single_names_that_only_look_like_those_of_canvas(tmp_path, doubling):
    """The names of two of these students were nowhere."""
    names = "hw_2024_11_anna_twice.py", "bob_twice.py", "hw_3_1_carl_twice.py"
    assert {*_students(tmp_path, names, doubling)} == {"hw_2024_11_anna", "bob", "hw_3_1_carl"}


@pytest.mark.parametrize(
    "names",
    [
        ["ml_3_10234_anna.zip", "ml_3_10235_bob.zip", "ml_3_10236_carl.zip"],
        ["ml_3_10234_a1.zip", "ml_3_10235_a1.zip"],
        ["ml_3_10234_anna.rar", "ml_3_10235_bob.rar"],
        ["ml_3_10234_anna.ipynb", "ml_3_10235_bob.ipynb"],
        ["ml_3_10234_anna.py", "ml_3_10235_bob.py", *(f"eve_7_{each}_x.py" for each in range(900, 910)), "dora.zip"],
    ],
)
def test_names_that_begin_with_a_course(tmp_path, doubling, names):
    """A whole class became one student, with the first answer."""
    _folder(tmp_path, {name: ANSWER for name in names if name.endswith(".py")})
    _folder(tmp_path, {name: _notebook(doubling) for name in names if name.endswith(".ipynb")})
    for name in names:
        if name.endswith((".zip", ".rar")):
            _archive(tmp_path / name, "a1/twice.py")
    stems = sorted(name.rpartition(".")[0].removesuffix("_a1") for name in names)
    assert [*collect(tmp_path, [doubling]).students] == stems


def _hand_in(path, doubling, names):
    """Hand in answers to different exercises: one student's to `twice`, and the others' to `again`."""
    path.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        exercise = ("again", "twice")[not number]
        text = ANSWER.replace("twice", exercise)
        if name.endswith(".zip"):
            with zipfile.ZipFile(path / name, "w") as archive:
                archive.writestr(f"a1/{exercise}.py", text)
        elif name.endswith(".ipynb"):
            cell = {"cell_type": "code", "source": text, "metadata": {}, "outputs": []}
            (path / name).write_text(json.dumps({"cells": [cell], "metadata": {"kmha": {"assignment": "a1"}}}))
        else:
            _folder(path, {name if Path(name).suffix else f"{name}/{exercise}.py": text})
    return collect(path, [doubling])


GUESS = "It could also be a file of the student ml_3 of Canvas. If so, put the student's files into one folder."


@pytest.mark.parametrize(
    "names",
    [
        ["ml_3_10234_anna.zip", "ml_3_10235_bob.zip"],
        ["ml_3_10234_anna.py", "ml_3_10235_bob.py"],
        ["ml_3_10234_anna.ipynb", "ml_3_10235_bob.ipynb"],
        ["ml_3_10234_anna.zip", "ml_3_10235_bob.py"],
        ["ml_3_10234_anna", "ml_3_10235_bob.zip"],
        ["ml_3_10234_anna_twice.py", "ml_3_10235_bob_again.py"],
        ["ml_3_10234_a1_anna_twice.py", "ml_3_10235_a1_bob_again.py"],
        ["ml_3_10234_Anna_Doe.zip", "ml_3_10235_Bob_Roe.zip"],
        ["ml_3_10234_s1.zip", "ml_3_10235_s2.zip"],
        ["ml_3_10234_4711.zip", "ml_3_10235_4712.zip"],
        ["ml_3_10234_hw.zip", "ml_3_10235_hw.zip"],
        ["ml_3_10234_twice.py", "ml_3_10235_again.py", "ml_3_10236_again.py"],
        ["ml_3_10234_anna.zip", "ml_4_10235_bob.zip", "ml_4_10236_carl.zip"],
        ["ml_3_10234_anna.zip", "ml_4_10235_bob.zip", "ml_5_10236_carl.zip"],
        ["2024_3_10234_anna.zip", "2024_3_10235_bob.zip"],
        ["hw1_20241105_10234_anna.zip", "hw1_20241105_10235_bob.zip"],
    ],
)
@pytest.mark.parametrize("folder", ["", "CS101"])
def test_students_of_a_course_who_answer_different_exercises(tmp_path, doubling, names, folder):
    """They became one student with the points of all."""
    (tmp_path / folder).mkdir(exist_ok=True)
    _hand_in(tmp_path / folder, doubling, names)
    found = collect(tmp_path, [doubling])
    assert sorted(path.name for paths in found.students.values() for path in paths) == sorted(names)
    assert len(found.students) == len(names)
    own = {Path(name).stem.removesuffix("_twice").removesuffix("_again") for name in names}
    assert len(own) < len(names) or {*found.students} == own


def test_students_who_differ_by_a_number(tmp_path, doubling):
    """As copies of one file, they became one student even with answers to the same exercise."""
    for upload in ("11_s1", "11_s2", "11_s3"), ("11_s1", "12_s2", "13_s3"):
        students = [f"hw_2024_{each}" for each in upload]
        found = _hand_in(tmp_path / upload[1], doubling, [f"{student}.zip" for student in students])
        assert ([*found.students], found.notes) == (students, {})


def test_students_of_canvas_with_the_same_name(tmp_path, doubling):
    names = [f"leewei_{number}_{number}{upload}_{name}.py" for number in (1, 2)
             for upload, name in ((90, "twice"), (91, "again"))]  # fmt: skip
    assert _students(tmp_path, names, doubling) == {"leewei_1": 2, "leewei_2": 2}


def test_a_guess_at_whose_file_it_is_is_noted(tmp_path, doubling):
    found = _hand_in(tmp_path, doubling, ["ml_3_10234_anna.zip", "ml_3_10235_bob.zip"])
    assert found.notes == dict.fromkeys(found.students, (GUESS,))
    answers = ["ml_3_10236_carl.zip", "ml_3_10237_dora.zip"]  # both answer the same, so they are two
    assert _hand_in(tmp_path, doubling, answers).notes == {}


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (["ml_3_10234_twice.py", "ml_3_10235_again.py"], True),  # a course, or the only student of Canvas
        (["ml_3_10234_twice.py", "ml_3_10235_bob_again.py"], True),
        (["ml_3_10234_again.py", "ml_3_10235_again-1.py"], False),
        (["ml_3_10234_anna.zip", "ml_3_10235_bob.zip", "roejim_13_130_twice.py"], True),
        (["ml_3_10234_hw.zip", "ml_3_10235_hw.zip", "roejim_13_130_twice.py"], True),
        (["ml_3_10234_s1.zip", "ml_3_10235_s2.zip", "roejim_13_130_twice.py"], True),
        (["ml_3_10234_hw.zip", "ml_3_10235_report.pdf", "roejim_13_130_twice.py"], False),
        (["ml_3_10234_twice.py", "ml_3_10235_again.py", "roejim_13_130_twice.py"], False),
        (["ml_3_10234_ann_twice.py", "ml_3_10235_ann_again.py", "roejim_13_130_twice.py"], False),
        (["ml_3_10234_twice.py", "ml_3_10235_my_again.py", "roejim_13_130_twice.py"], False),
    ],
)
def test_files_that_may_be_of_several_students_are_noted(tmp_path, doubling, names, noted):
    found = _hand_in(tmp_path, doubling, names)
    assert len(found.students["ml_3"]) == 2
    (note,) = found.notes.get("ml_3", ("",))
    assert note == (
        f"Read as files of one student of Canvas: {names[0]}, {names[1]}. If they are of several, put each student's "
        "files into a folder."
        if noted
        else ""
    )
    assert {*found.notes} <= {"ml_3"}


def test_student_of_canvas_with_several_kinds_of_files(tmp_path, doubling):
    files = {"doejane_12_345_twice.py": ANSWER, "doejane_12_346_a1.ipynb": _notebook(doubling)}
    files |= {"doejane_12_347_a.pdf": "", "doejane_12_348_b.pdf": "", "doejane_12_349_twice-1.py": ANSWER}
    _archive(tmp_path / "doejane_12_350_all.zip", "a1/twice.py")
    assert [*collect(_folder(tmp_path, files), [doubling]).students] == ["doejane_12"]


def test_versions_that_a_student_of_canvas_numbered(tmp_path, doubling):
    names = ["doejane_12_120_twice.py", "doejane_12_121_twice2.py", "roejim_13_130_twice.py"]
    assert _students(tmp_path, names, doubling) == {"doejane_12": 2, "roejim_13": 1}


def test_file_that_came_apart_from_a_download_of_canvas(tmp_path, doubling):
    names = ["doejane_12_120_twice.py", "doejane_12_121_again.py", "bob_twice.py"]
    assert _students(tmp_path, names, doubling) == {"doejane_12": 2, "bob": 1}


def test_groups_of_moodle_without_a_number(tmp_path, doubling):
    names = ["Default group_assignsubmission_file/twice.py", "Default group_assignsubmission_onlinetext/text.html"]
    assert _students(tmp_path, names, doubling) == {"Default group": 2}


@pytest.mark.parametrize("platform", ["moodle flat", "canvas", "loose"])
def test_download_in_a_folder_of_its_own(tmp_path, doubling, platform):
    """Systems unpack an archive into such a folder. It counted as one student."""
    files = {f"CS101/{name}": text for name, text in DOWNLOADS[platform].items()}
    files |= {name.replace("ane", "im").replace("1234", "5678").replace("77", "88"): ANSWER for name in files}
    students = {*collect(_folder(tmp_path, files), [doubling]).students}
    assert (
        students
        == {
            "moodle flat": {"Jane Doe_1234", "Jim Doe_5678"},
            "canvas": {"doejane_1234", "doejim_5678"},
            "loose": {"CS101"},  # the folder of one student, whose files are named so
        }[platform]
    )


def test_one_student_who_hands_in_files_of_a_download(tmp_path, doubling):
    """Gradescope's autograder needs the name of the folder."""
    files = {"submission/doejane_12_345_twice.py": ANSWER, "submission/doejane_12_346_again.py": ANSWER}
    assert {*collect(_folder(tmp_path, files), [doubling]).students} == {"submission"}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a1.ipynb", b'{"cells": [', "it is damaged or incomplete: "),
        ("a1.ipynb", b'{"worksheets": []}', "it has no cells. Open it in Jupyter, and save it again."),
        ("a1.ipynb", b" " * (submissions.MAX_NOTEBOOK + 1), "it has more than 16,384 KiB. Clear its outputs"),
        ("twice.py", b"#" * (submissions.MAX_CODE + 1), "it has more than 256 KiB."),
        ("x" * 200 + "/" + "y" * 200 + "/twice.py", b"#" * (submissions.MAX_CODE + 1), "it has more than 256 KiB."),
    ],
)
def test_notes_say_how_to_mend_it(tmp_path, doubling, name, text, says):
    assert says in read("ann", _folder(tmp_path, {name: text}), [doubling]).notes[0]


def _archive(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, ANSWER)


@pytest.mark.parametrize(
    ("archives", "students"),
    [
        ({"Group_A1.zip": ["a1/twice"], "Group_A2.zip": ["a1/twice"]}, {"Group_A1", "Group_A2"}),
        ({"Group_A1.zip": ["a1/twice"], "Group_A2.zip": ["a1/again"]}, {"Group_A1", "Group_A2"}),
        ({"Group_A1.zip": ["a1/twice"], "Group_A2.zip": None}, {"Group_A1", "Group_A2"}),
        ({"peggy_a1.zip": ["a1/twice"], "peggy_a2.zip": ["a1/twice", "a2/twice"]}, {"peggy"}),
    ],
)
def test_archives_of_groups_stay_several(tmp_path, doubling, archives, students):
    """Group_A1.zip and Group_A2.zip became one student, whose second answer did not count."""
    for name, files in archives.items():
        if files is None:
            (tmp_path / name).write_bytes(b"damaged")
        else:
            _archive(tmp_path / name, *(f"{file}.py" for file in files))
    assert {*collect(tmp_path, [doubling, _other(doubling)]).students} == students


@pytest.mark.parametrize("right", ["lab_a1.tar.gz", "lab_a1.ipynb", "lab_a1.tgz"])
def test_names_that_differ_only_in_the_suffix_are_all_submissions(tmp_path, doubling, right):
    """A zip without an answer took the place of the other file, whose answer counted for no one."""
    _archive(tmp_path / "lab_a1.zip", "README.txt")
    if right.endswith(".ipynb"):
        _folder(tmp_path, {right: _notebook(doubling)})
    else:
        with tarfile.open(tmp_path / right, "w:gz") as archive:
            info = tarfile.TarInfo("twice.py")
            info.size = len(ANSWER)
            archive.addfile(info, io.BytesIO(ANSWER.encode()))
    students = collect(tmp_path, [doubling]).students
    assert {path.name for paths in students.values() for path in paths} == {"lab_a1.zip", right}
    [answered] = [id for id, paths in students.items() if read(id, paths, [doubling]).answers]
    assert students[answered] == (tmp_path / right,)


@pytest.mark.parametrize("seed", range(20))
def test_each_entry_of_a_folder_is_a_submission_or_is_listed(tmp_path, doubling, seed):
    random = np.random.default_rng(seed)
    stems = ("ann", "ann_a1", "ann_twice", "ml_1_2_twice", "ml_1_2_ann_a1", "twice", "a1")
    suffixes = (".zip", ".tar.gz", ".tgz", ".ipynb", ".py", ".txt", ".zip+", "")
    for stem in stems:
        for suffix in suffixes:
            if random.random() < 0.3:
                _folder(tmp_path, {stem + suffix: [ANSWER, "", "PK"][random.integers(3)]})
    (tmp_path / "bob.zip").touch()
    found = collect(tmp_path, [doubling])
    names = [path.name for paths in found.students.values() for path in paths]
    assert sorted([*names, *found.ignored]) == sorted(os.listdir(tmp_path))


def _other(doubling):
    items = tuple(dataclasses.replace(item, assignment="a2") for item in doubling.items)
    return dataclasses.replace(doubling, id="a2", folder=Path("a2_other"), items=items)


def test_files_of_assignments_that_are_not_graded(tmp_path, doubling):
    """Twenty notes said that no exercise has their names, and took the place of the true ones."""
    other = _other(doubling)
    files = {"a1_doubling/twice.py": ANSWER, **{f"a2_other/{name}.py": ANSWER for name in ("twice", "again", "x")}}
    found = read("ann", _folder(tmp_path / "both", files), [doubling], [other])
    assert (found.answers, found.notes) == ({"a1.twice": ANSWER}, ())
    files = {"a2_other/twice.py": ANSWER, "a2.ipynb": _without_metadata(_notebook(doubling))}
    found = read("ann", _folder(tmp_path / "other", files), [doubling], [other])
    assert found.answers == {}
    assert found.notes == (
        "No answer was found, so this submission gets 0 points. Files of assignments that are not graded: 2.",
    )


@pytest.mark.timeout(60)
def test_long_names_take_no_time(tmp_path, doubling):
    names = [f"cross_kv y{'_' * 900}x{number}.py" for number in range(200)]
    _archive(tmp_path / "ann.zip", *names, "a1_doubling/twice.py")
    start = time.process_time()
    assert [*read("ann", tmp_path / "ann.zip", [doubling]).answers] == ["a1.twice"]
    assert time.process_time() - start < 3


def test_files_in_utf_16(tmp_path, doubling):
    """PowerShell writes them."""
    assert read("ann", _folder(tmp_path, {"twice.py": ANSWER.encode("utf-16")}), [doubling]).answers == {
        "a1.twice": ANSWER
    }


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32"])
def test_files_that_are_not_utf_8_are_noted(tmp_path, doubling, encoding):
    submission = read("ann", _folder(tmp_path, {"twice.py": ANSWER.encode(encoding)}), [doubling])
    assert submission.notes == (
        "twice.py is not text in UTF-8, so Python cannot read it. Ask for it in that encoding.",
    )


@pytest.mark.timeout(60)
def test_no_code_is_parsed_without_a_limit(tmp_path, doubling):
    """Some texts of 128 KB take Python half a minute."""
    code = "def twice(*a): pass\nx = a" + "\u0301\u0316" * 32_000
    start = time.process_time()
    read("ann", _folder(tmp_path, {"a1_doubling/twice.py": code}), [doubling])
    assert time.process_time() - start < 5
    course = Path(submissions.__file__).parents[1]
    parsing = {path.name for path in course.rglob("*.py") if "ast.parse(" in path.read_text(encoding="utf-8")}
    assert parsing == {"cells.py"}


def test_students_with_similar_names_stay_two(tmp_path, doubling):
    """One hand-in replaced the other."""
    files = {
        "anna_twice.py": ANSWER,
        "anna-twice (1).py": ANSWER,
        "j.smith_twice.py": ANSWER,
        "j_smith_twice.py": ANSWER,
    }
    assert {*collect(_folder(tmp_path / "loose", files), [doubling]).students} == {
        "anna",
        "anna_1",
        "j.smith",
        "j_smith",
    }
    metadata = "".join(
        f'submission_{n}:\n  :submitters:\n  - :name: "Jane{space}Doe"\n'
        for n, space in enumerate(("\u00a0", "\u200b"))
    )
    files = {f"submission_{n}/twice.py": ANSWER for n in range(2)} | {"submission_metadata.yml": metadata}
    assert {*collect(_folder(tmp_path / "scope", files), [doubling]).students} == {"submission_0", "submission_1"}


@pytest.mark.timeout(60)
def test_a_notebook_with_too_many_parts_is_noted(tmp_path, doubling):
    notebook = {**json.loads(_notebook(doubling)), "more": [[]] * 1_000_000}
    _folder(tmp_path, {"anna/a1.ipynb": json.dumps(notebook, separators=(",", ":"))})
    found = read("anna", tmp_path / "anna", [doubling])
    assert not found.answers
    assert found.notes[0] == (
        "a1.ipynb is left out: it has more than 1,000,000 brackets and commas. Clear its outputs, and save it again."
    )


def test_notebooks_that_take_long_to_read(tmp_path, doubling):
    """Millions of empty cells, and f-strings of thousands of fields, took half a minute each."""
    (tmp_path / "a1.ipynb").write_text(json.dumps({"cells": [{}] * (submissions.MAX_CELLS + 1)}))
    (tmp_path / "five.ipynb").write_text('{"cells": 5}')
    fields = "def twice(array):\n    return f'" + "{1}" * 80_000 + "'"
    (tmp_path / "twice.py").write_text(f"def twice(*a): pass\nif 0:\n import a{'.a' * 120_000}\n")
    (tmp_path / "twice.txt").write_text("def twice(*a): pass\nx = a" + "\u0301\u0316" * 60_000)
    (tmp_path / "fields.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": fields}]}))
    found = submissions.read("ann", tmp_path, [doubling])
    assert any("it has more than 10,000 cells" in note for note in found.notes)


def test_code_that_no_exercise_needs_is_not_parsed(tmp_path, doubling, monkeypatch):
    """Once, each file was parsed for each exercise: 250 files of 250 KiB took an hour."""
    for number in range(30):
        (tmp_path / f"module_{number}.py").write_text("def helper():\n    return 1\n")
    (tmp_path / "twice.py").write_text("def twice(array):\n    return array\n")
    monkeypatch.setattr(finding.cells, "syntax_tree", lambda code: pytest.fail("it was parsed"))
    found = submissions.read("ann", tmp_path, [doubling])
    assert [*found.answers] == ["a1.twice"]


def test_the_code_that_is_parsed_is_limited(tmp_path, doubling, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_PARSED", 1_000)
    for number in range(30):
        (tmp_path / f"module_{number}.py").write_text("def twice(array):\n    return array\n" + "#" * 100)
    found = submissions.read("ann", tmp_path, [doubling])
    assert [*found.answers] == ["a1.twice"]
    assert any("of code" in note for note in found.notes)
    assert any("of code" in note for note in submissions.read("ann", tmp_path, [], [doubling]).notes)


SLOW = "def twice(array):\n    f(a" + "\u0301" * 350 + "\u0334" * 350 + "=1, b c)\n"  # half of the effort of a text


def _parsed(monkeypatch):
    """Return the list of the texts that Python will parse."""
    parse, parsed = cells.ast.parse, []
    monkeypatch.setattr(cells.ast, "parse", lambda code, *more: parsed.append(code) or parse(code, *more))
    return parsed


def test_the_efforts_of_the_files_of_a_submission_are_added(tmp_path, doubling, monkeypatch):
    """A submission of 86 KB with 400 such files took a quarter of an hour to read."""
    files = {f"twice ({number}).py": f"{SLOW}#{number}" for number in range(60)}
    parsed = _parsed(monkeypatch)
    found = read("ann", _folder(tmp_path, files), [doubling])
    assert "a1.twice" in found.answers
    assert any("left out: with the files before it, its code has too many dots, braces" in note for note in found.notes)
    assert sum(map(cells.effort, {*parsed})) <= submissions.MAX_EFFORT


def test_the_efforts_of_the_notebooks_of_a_submission_are_added(tmp_path, doubling, monkeypatch):
    """40 notebooks took three quarters of an hour."""
    for number in range(15):
        code = [{"cell_type": "code", "source": SLOW + f"#{number} {each}"} for each in range(3)]
        (tmp_path / f"a1 ({number}).ipynb").write_text(json.dumps({"cells": code}))
    parsed = _parsed(monkeypatch)
    found = read("ann", tmp_path, [doubling])
    assert any("with the files before it" in note for note in found.notes)
    assert sum(map(cells.effort, {*parsed})) <= submissions.MAX_EFFORT


def test_the_code_of_notebooks_counts_too(tmp_path, doubling, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_PARSED", 1_000)
    for number in range(30):
        source = "def twice(array):\n    return array\n" + "#" * 100
        text = json.dumps({"cells": [{"cell_type": "code", "source": source}]})
        (tmp_path / f"a1 ({number}).ipynb").write_text(text)
    parsed = _parsed(monkeypatch)
    found = read("ann", tmp_path, [doubling])
    assert [*found.answers] == ["a1.twice"]
    assert any("of code" in note for note in found.notes)
    assert len(parsed) < 30


def test_code_of_too_much_effort_takes_none_from_the_others(tmp_path, doubling):
    """It is never parsed. It may be a file of data beside the answers."""
    data = "def twice(array):\n    return a" + "\u0301" * 4_000
    files = {f"twice ({number}).py": data for number in range(19)} | {"twice.py": ANSWER}
    assert read("ann", _folder(tmp_path, files), [doubling]).answers == {"a1.twice": ANSWER}


def test_archives_of_one_student_share_a_limit_before_they_are_graded(tmp_path, doubling, monkeypatch):
    """They are read to tell whose they are. Each had a limit of its own: 8 of 10 MB held up the class for 2 minutes."""
    seen = []
    add = submissions._Reader.add
    monkeypatch.setattr(submissions._Reader, "add", lambda reader, entry: (seen.append(entry), add(reader, entry)))
    monkeypatch.setattr(unpacking, "MAX_MEMBERS", 50)
    for number in range(1, 9):
        with zipfile.ZipFile(tmp_path / f"mallory_77_{900 + number}_a-{number}.zip", "w") as archive:
            for name in range(20):
                archive.writestr(f"x{name}.py", "#")
    for number, upload, name in [(10, 1, "twice"), (10, 2, "again"), (11, 3, "twice"), (11, 4, "again")]:
        (tmp_path / f"{'anna' if number == 10 else 'bob'}_{number}_{upload}_{name}.py").write_text(ANSWER)
    assert {id: len(each) for id, each in collect(tmp_path, [doubling]).students.items()} == {
        "anna_10": 2,
        "bob_11": 2,
        "mallory_77": 8,
    }
    assert len(seen) < 60


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("again_twice", "again_twice"),
        ("twice twice", "twice"),
        ("of_all", "of_all"),
        ("Again2 (Twice) again of all", "of_all"),
        ("onto", "on_to"),
        ("ofall", "of_all"),
    ],
)
def test_exercises_are_found_in_names_as_whole_words(text, name):
    assert downloads.known_name(text, ["twice", "again", "again_twice", "of_all", "on_to"])[0] == name
