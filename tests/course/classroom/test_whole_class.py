"""A class of 200, of whom 30 hand in something that is damaged, misnamed or of another form: nobody is lost."""

import io
import itertools
import os
import re
import tarfile
import zipfile

import pytest

from kmha.course.classroom import grades, grading, pages
from kmha.course.classroom.grading import GradingRun, grade
from kmha.course.classroom.submissions import collect
from kmha.course.exercises import content, notebooks

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("jinja2")

FILE = "a1_k_and_v/cross_kv.py"


def _zip(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members:
            archive.writestr(name, text)


def _tar(path, mode, *members):
    with tarfile.open(path, mode) as archive:
        for name, text in members:
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def _put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _half(path):
    path.write_bytes(path.read_bytes()[:-60])


def _notebook(assignment, *, solved=True, metadata=True):
    notebook = notebooks.solved(assignment) if solved else notebooks.student(assignment)
    if not metadata:
        notebook["metadata"] = {}
        for cell in notebook["cells"]:
            cell["metadata"] = {}
    return nbformat.writes(notebook)


def damaged(folder, right, assignment):
    """Hand in what 30 students hand in. Return for each id whether the answer must be found."""
    two = [(FILE, right), ("notes.txt", "x")]
    _zip(folder / "s00.zip", *two)
    _tar(folder / "s01.tar", "w", *two)
    _tar(folder / "s02.tar.gz", "w:gz", *two)
    _tar(folder / "s03.tgz", "w:gz", *two)
    _tar(folder / "s04.tar.bz2", "w:bz2", *two)
    _put(folder / "s05.7z", b"7z\xbc\xaf\x27\x1c")
    _put(folder / "s06.rar", b"Rar!")
    _tar(folder / "s07.tgz", "w:gz", *two), _half(folder / "s07.tgz")
    _zip(folder / "s08.zip", *two), _half(folder / "s08.zip")
    _put(folder / "s09.zip", "")
    (folder / "elsewhere").mkdir()
    os.symlink(folder / "elsewhere", folder / "s10")
    _put(folder / "s11_cross_kv.py", right)
    _put(folder / "s12" / "cross_kv (1).py", right)
    _put(folder / "s13" / "Cross-KV.PY", right)
    _put(folder / "s14" / "cross_kv.py.txt", right)
    _put(folder / "s15" / "homework.py", right)
    _put(folder / "s16" / "a" / "b" / "c" / "cross_kv.py", right)
    _put(folder / "s17_77_assignsubmission_file_" / "cross_kv.py", right)
    _put(folder / "s17_77_assignsubmission_onlinetext_" / "onlinetext.html", "<p>")
    _put(folder / "s18_LATE_12_34_cross_kv-1.py", right)
    _put(folder / "s19.ipynb", _notebook(assignment))
    _put(folder / "s20" / "Untitled3.ipynb", _notebook(assignment, metadata=False))
    _put(folder / "s21" / "a1.ipynb", "{")
    (folder / "s22").mkdir()
    _put(folder / "s23" / "cross_kv.py", b"\xff\xfe\x00\x01")
    _put(folder / "s24" / "cross_kv.py", "")
    _put(folder / "s25" / "cross_kv.py", "x" * (1 << 20))
    _zip(folder / "s26.zip", ("inner.zip", "PK"))
    _put(folder / "s27" / "cross_kv.pdf", "%PDF")
    os.mkfifo(folder / "pipe")
    _put(folder / "s28" / "cross_kv.py", right.replace("\n", "\r\n"))
    _put(folder / "s29 \x1b[31m\N{RIGHT-TO-LEFT OVERRIDE}" / "cross_kv.py", b"\xef\xbb\xbf" + right.encode())
    found = {f"s{number:02}": number in {0, 1, 2, 3, 4, *range(11, 21), 28, 29} for number in range(30)}
    return found


@pytest.fixture(scope="module")
def whole_class(tmp_path_factory):
    """Return the graded class, the entries of its folder, what 30 students must get, and the pages."""
    whole = content.assignments(content.installed())[0]
    (item,) = (item for item in whole.items if item.name == "cross_kv")
    assignment = content.Assignment("a1", whole.title, item.folder, (item,))
    root = tmp_path_factory.mktemp("class")
    (root / "in").mkdir()
    right = item.master.solution
    expected = damaged(root / "in", right, whole)
    answers = [right, *(each.text(right) for each in item.spec.wrong), item.master.starter, "def cross_kv(:"]
    for number, text in zip(range(30, 200), itertools.cycle(answers), strict=False):
        _put(root / "in" / f"s{number:02}" / FILE, f"# {number}\n{text}")
    collected = collect(root / "in", [assignment])
    run = GradingRun((assignment,), root / "results", seed=3, jobs=2)
    graded = grade(collected.students, run)
    written = dict(pages.pages(graded, run.assignments, grading.file_names(graded), 3, collected.ignored))
    for name, text in written.items():
        _put(root / "out" / name, text)
    return collected, graded, expected, assignment, root


@pytest.mark.slow
def test_nobody_is_lost(whole_class):
    collected, graded, expected, assignment, root = whole_class
    names = {re.match(r"s\d+", name)[0] for name in graded if name.startswith("s")}
    assert names == {f"s{number:02}" for number in range(200)}
    entries = {path.name for path in (root / "in").iterdir()}
    reported = {path.name for paths in collected.students.values() for path in paths} | set(collected.ignored)
    assert entries == reported
    assert set(collected.ignored) == {"pipe"}
    table = grades.as_csv(grades.student_points(graded, [assignment]), [assignment])
    assert len(table.splitlines()) == 1 + len(graded) == 202  # and `elsewhere`
    for start, found in expected.items():
        (record,) = (record for id, record in graded.items() if re.match(rf"{start}(?!\d)", id))
        exercise = record["exercises"]["a1.cross_kv"]
        assert (exercise["points"] == 10) == found, (start, record["notes"], exercise["error"])
        assert found or record["notes"] or exercise["error"], start


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_pages_in_a_browser(whole_class, browser, serious_violations, width, dark):
    """The pages do not scroll sideways, and axe-core finds nothing serious in them."""
    root = whole_class[-1]
    # The pages forbid scripts, and axe is one.
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", bypass_csp=True
    )
    for name in ("index.html", "students/s12.html", "students/s31.html"):
        page = context.new_page()
        page.goto((root / "out" / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        small = (
            "[...document.querySelectorAll('td, th, p, li')].filter(e => parseFloat(getComputedStyle(e).fontSize) < 12)"
        )
        assert page.evaluate(f"{small}.length") == 0
        tallest = "Math.max(0, ...[...document.querySelectorAll('th[scope=col]')].map(e => e.offsetHeight))"
        assert page.evaluate(tallest) < 160, "a header is broken into letters"
        assert serious_violations(page) == [], name
        page.screenshot(path=root / f"{width}-{dark}-{name.replace('/', '-')}.png", full_page=name != "index.html")
    context.close()
