"""Grade hostile submissions with honest ones: they lose their own points and affect no one else.

The files end in .txt so that nothing but the sandbox ever runs them.
"""

import json
import os
import socket
import stat
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("nbformat")
pytest.importorskip("jinja2")

from kmha.course.classroom import grades, grading, pages
from kmha.course.classroom.grading import GradingRun
from kmha.course.classroom.submissions import collect
from kmha.sandbox import limits

pytestmark = pytest.mark.skipif(bool(limits.missing()), reason="this system cannot keep code from doing harm")

FILES = sorted(Path(__file__).with_name("hostile").glob("*.py.txt"))
HONEST = {
    "honest-right": "def twice(array):\n    return 2 * array\n",
    "honest-also-right": "import numpy as np\n\ndef twice(array):\n    return np.add(array, array)\n",
    "honest-wrong": "def twice(array):\n    return 3 * array\n",
    "honest-error": "def twice(array):\n    return array[1_000]\n",
}
SECONDS = 3.0
NAME = "<script>alert(1)</script>"
# What is right in them is paid: all but that the input is as it was.
RIGHT = {"patched_array_equal": 31}


def _hand_in(folder, answers):
    for id, code in answers.items():
        (folder / id / "a1_doubling").mkdir(parents=True)
        (folder / id / "a1_doubling" / "twice.py").write_text(code)


def _snapshot(*folders):
    """Return every file in the folders, with everything that could be changed about it."""
    found = {}
    for folder in folders:
        for path in sorted([folder, *folder.rglob("*")]):
            if "__pycache__" in path.parts:  # Python's own, of the checks that we load
                continue
            told = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(told.st_mode) else None
            found[path] = (told.st_mode, told.st_uid, told.st_mtime_ns if content is not None else 0, content)
    return found


def _archives(folder, doubling):
    """Write an archive that unpacks to gigabytes, one with paths outside it, and links to the solutions."""
    solution = doubling.folder / "twice.py"
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(f"{number}/twice.py", bytes(20 << 20))
    with zipfile.ZipFile(folder / "traversal.zip", "w") as archive:
        for name in ("../../mark.txt", "/tmp/written-by-a-zip", "../assignments/a1_doubling/twice.py", str(solution)):
            archive.writestr(name, "def twice(array):\n    return array\n")
    link = zipfile.ZipInfo("a1_doubling/twice.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(folder / "linked.zip", "w") as archive:
        archive.writestr(link, str(solution))
    (folder / "link" / "a1_doubling").mkdir(parents=True)
    (folder / "link" / "a1_doubling" / "twice.py").symlink_to(solution)
    (folder / "link-to-all").symlink_to(doubling.folder)
    (folder / "pipe" / "a1_doubling").mkdir(parents=True)
    os.mkfifo(folder / "pipe" / "a1_doubling" / "twice.py")


@pytest.fixture(scope="module")
def graded(tmp_path_factory, doubling):
    """Grade all submissions together; return the records, and other folders before and after."""
    folder = tmp_path_factory.mktemp("class")
    (folder / "in").mkdir()
    (folder / "scratch").mkdir()
    (folder / "others").mkdir()
    mark = folder / "others" / "mark.txt"
    mark.write_text("someone's own")
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder / "scratch"))
        listening.setblocking(False)
        filled = {"PLACE": str(doubling.folder.parent), "MARK": str(mark), "PORT": str(listening.getsockname()[1])}
        answers = dict(HONEST)
        for path in FILES:
            code = path.read_text()
            for name, value in filled.items():
                code = code.replace(name, value)
            answers[path.name.partition(".")[0]] = code
        _hand_in(folder / "in", {NAME.replace("/", "∕"): answers["html"], **answers})
        _archives(folder / "in", doubling)
        before = _snapshot(folder / "in", folder / "others", doubling.folder.parent)
        run = GradingRun((doubling,), folder / "results", seed=13, jobs=2, seconds=SECONDS)
        records = grading.grade(collect(folder / "in").students, run)
        after = _snapshot(folder / "in", folder / "others", doubling.folder.parent)
        with pytest.raises(BlockingIOError):
            listening.accept()
    return records, before, after, folder


def _told(graded, id):
    return graded[0][id]["exercises"]["a1.twice"]


def test_there_are_more_than_twenty():
    assert len(FILES) > 20


@pytest.mark.parametrize("id", [path.name.partition(".")[0] for path in FILES])
def test_none_gains_a_point(graded, id):
    told = _told(graded, id)
    assert told["state"] != "not begun"
    assert not told["failed"]
    assert told["points"] == RIGHT.get(id, 0), told


@pytest.mark.parametrize("id", ["bomb", "traversal", "linked", "link", "pipe"])
def test_archives_and_links_hold_no_answer(graded, id):
    assert _told(graded, id)["state"] == "does not run"  # something was handed in
    assert id == "pipe" or graded[0][id]["notes"]


def test_a_link_to_a_folder_is_not_followed(graded):
    assert _told(graded, "link-to-all")["state"] == "does not run"
    assert graded[0]["link-to-all"]["notes"][0] == "link-to-all is left out: it is a link."


def test_none_changes_a_file_of_anyone_else(graded):
    _, before, after, folder = graded
    assert after == before
    assert not Path("/tmp/written-by-a-learner").exists()
    assert not Path("/tmp/written-by-a-zip").exists()
    assert not Path("/dev/shm/written").exists()
    assert not list(Path("/dev/shm").glob("*kmha-learner*"))
    assert sorted(path.name for path in folder.iterdir()) == ["in", "others", "results", "scratch"]


def test_nothing_is_left_in_the_place_for_scratch_folders(graded):
    assert list((graded[3] / "scratch").iterdir()) == []


def test_none_hangs(graded):
    """All have a record. The timeout of the test ends what hangs."""
    assert graded[0].keys() > {path.name.partition(".")[0] for path in FILES}


def test_none_disturbs_the_grade_of_another(graded, tmp_path, doubling):
    _hand_in(tmp_path / "in", HONEST)
    alone = grading.grade(
        collect(tmp_path / "in").students, GradingRun((doubling,), tmp_path / "results", seed=13, seconds=SECONDS)
    )
    assert {id: graded[0][id] for id in HONEST} == alone
    assert [record["exercises"]["a1.twice"]["points"] for record in alone.values()] == [32, 0, 32, 0]


def test_none_writes_into_the_pages(graded, doubling):
    records = graded[0]
    found = dict(pages.pages(records, [doubling], grading.file_names(records), 13, {}))
    for text in found.values():
        assert "<script" not in text
        assert "49" not in text or "{{ 7 * 7 }}" not in text
    assert any("&lt;script&gt;document.title" in text for text in found.values())
    table = grades.as_csv(grades.student_points(records, [doubling]), [doubling])
    assert len(table.splitlines()) == len(records) + 1
    for record in records.values():
        assert len(json.dumps(grades.gradescope(record))) < 100_000
