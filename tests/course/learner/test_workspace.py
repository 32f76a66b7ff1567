import json
import os

import pytest

from kmha.course.exercises import handout
from kmha.course.exercises.content import assignments
from kmha.course.exercises.handout import FILES, NOTEBOOKS, STATE, starter_file
from kmha.course.learner import workspace
from kmha.course.learner.progress import Record, WorkspaceError


@pytest.fixture
def files(course, tmp_path):
    return workspace.start(tmp_path / "mine", assignments(course))[0]


@pytest.fixture
def notebooks(course, tmp_path):
    pytest.importorskip("nbformat")
    return workspace.start(tmp_path / "mine", assignments(course), NOTEBOOKS)[0]


def test_folder_of_files(course, doubling, tmp_path):
    made, added = workspace.start(tmp_path / "deep" / "mine", assignments(course))
    assert made.form == FILES
    assert [path.relative_to(made.root).as_posix() for path in added] == [
        "README.md",
        "a1_doubling/README.md",
        "a1_doubling/twice.py",
        "a1_doubling/again.py",
    ]
    text = made.path(doubling.items[0]).read_text()
    assert text.startswith(
        "# %% [markdown]\n# # Twice as much\n#\n# Doubles an array of shape (B, T).\n#\n# **Check it**"
    )
    assert "`kmha course check a1.twice`: 32 points, about 2 minutes." in text
    assert text.endswith(doubling.items[0].master.starter)
    readme = (made.root / "README.md").read_text()
    assert "| [a1_doubling](a1_doubling) | Doubling | 2 | 37 | 5 |\n" in readme
    assert "kmha course check a1.twice" in readme
    assert "kmha course solution" in readme
    assert "factor_of_the_solution" not in "".join(path.read_text() for path in added)
    assert (made.root / "a1_doubling" / "README.md").read_text() == doubling.text


def test_start_restores_missing_files_only(course, doubling, files):
    twice, again = doubling.items
    files.path(twice).write_text("mine")
    files.path(again).unlink()
    files.progress.update(twice.id, points=3)
    made, added = workspace.start(files.root, assignments(course))
    assert added == [files.path(again)]
    assert made == files
    assert files.code(twice) == "mine"
    assert files.progress.record(twice.id) == Record(points=3)
    assert workspace.start(files.root, assignments(course))[1] == []


def test_dangling_link_is_kept(course, doubling, tmp_path):
    (tmp_path / "mine" / "a1_doubling").mkdir(parents=True)
    link = tmp_path / "mine" / "a1_doubling" / "twice.py"
    link.symlink_to("nowhere")
    _, added = workspace.start(tmp_path / "mine", assignments(course))
    assert link not in added
    assert os.readlink(link) == "nowhere"


@pytest.mark.parametrize("linked", ["a1_doubling", ".kmha-course.json"])
def test_start_does_not_follow_links_out_of_the_folder(course, doubling, tmp_path, linked):
    """A folder that was unpacked may contain links."""
    (tmp_path / "class").mkdir()
    outside = tmp_path / "outside"
    if linked == "a1_doubling":
        outside.mkdir()
    (tmp_path / "class" / linked).symlink_to(outside)
    with pytest.raises(handout.OutsideError, match="a link leads out of"):
        workspace.start(tmp_path / "class", [doubling])
    assert not outside.exists() or not list(outside.iterdir())


def test_reset_does_not_follow_links_out_of_the_folder(doubling, files, tmp_path):
    item = doubling.items[0]
    outside = tmp_path / "profile.py"
    outside.write_text("mine")
    files.path(item).unlink()
    files.path(item).symlink_to(outside)
    with pytest.raises(WorkspaceError, match="Remove the link"):
        files.reset(item)
    assert outside.read_text() == "mine"
    assert not list(outside.parent.glob("*.bak-*"))


def test_start_keeps_other_files(course, tmp_path):
    for name in ("essay.txt", "README.md"):
        (tmp_path / name).write_text("mine")
    workspace.start(tmp_path, assignments(course))
    for name in ("essay.txt", "README.md"):
        assert (tmp_path / name).read_text() == "mine"


def test_start_refuses_the_other_form(course, files):
    with pytest.raises(WorkspaceError, match=r"is a folder of files\. Start the notebooks in another folder"):
        workspace.start(files.root, assignments(course), NOTEBOOKS)


def test_find_from_inside(files, tmp_path):
    inner = files.root / "a1_doubling"
    assert workspace.find(files.root) == workspace.find(inner) == files
    assert workspace.find(tmp_path) is None


def test_unknown_form(files):
    (files.root / STATE).write_text('{"form": "scrolls"}')
    with pytest.raises(WorkspaceError, match="Received: 'scrolls'"):
        workspace.find(files.root)


def test_other_answers(doubling, files):
    twice, again = doubling.items
    assert [*files.others(again)] == ["twice.py"]
    files.path(twice).unlink()
    assert files.others(again) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing. Run `kmha course start` to restore missing files."),
        (b"x = '\xe9'", "is not valid UTF-8 at byte 5."),
        (b"#" * (5 << 20), "has more than 4 MiB"),
    ],
)
def test_unreadable_file(doubling, files, content, message):
    path = files.path(doubling.items[0])
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WorkspaceError) as error:
        files.code(doubling.items[0])
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


def test_folder_instead_of_a_file(doubling, files):
    path = files.path(doubling.items[0])
    path.unlink()
    path.mkdir()
    with pytest.raises(WorkspaceError, match="cannot be read: it is not a regular file"):
        files.code(doubling.items[0])


@pytest.mark.parametrize(
    ("leads_to", "message"),
    [
        ("../../secret.txt", "a link leads out of"),
        ("/dev/zero", "a link leads out of"),
        ("twice.py", "cannot be read: Too many levels of symbolic links"),
        ("x" * 300, "cannot be read: File name too long"),
        (None, "cannot be read: it is not a regular file"),
    ],
)
def test_what_is_no_file_of_the_folder_is_not_read(doubling, files, leads_to, message):
    """The worker read a file elsewhere. A pipe blocked, and a device took all memory."""
    twice, again = doubling.items
    (files.root.parent / "secret.txt").write_text("secret")
    files.path(twice).unlink()
    if leads_to is None:
        os.mkfifo(files.path(twice))
    else:
        files.path(twice).symlink_to(leads_to)
    with pytest.raises(WorkspaceError, match=message):
        files.code(twice)
    assert files.others(again) == {}


def test_a_link_within_the_folder_is_read(doubling, files):
    twice, again = doubling.items
    files.path(twice).unlink()
    files.path(twice).symlink_to("again.py")
    assert files.code(twice) == files.code(again)


def test_reset_keeps_copies(doubling, files):
    item = doubling.items[0]
    files.progress.update(item.id, points=5, passed=True, hints=2, attempts=4)
    copies = []
    for text in ("first", "second"):
        files.path(item).write_text(text)
        copies.append(files.reset(item))
    assert [copy.name for copy in copies] == ["twice.py.bak-1", "twice.py.bak-2"]
    assert [copy.read_text() for copy in copies] == ["first", "second"]
    assert files.code(item) == starter_file(item)
    assert files.progress.record(item.id) == Record(attempts=4, hints=2)


def test_pristine_file(doubling, files):
    item = doubling.items[0]
    assert files.is_pristine(item)
    files.path(item).write_text(files.code(item) + "# a thought\n")
    assert not files.is_pristine(item)
    files.reset(item)
    assert files.is_pristine(item)


def test_pristine_notebook_cell(doubling, notebooks):
    twice, again = doubling.items
    path = notebooks.path(again)
    assert notebooks.is_pristine(twice)
    assert notebooks.is_pristine(again)
    path.write_text(path.read_text().replace("return array", "return 3 * array"))
    assert [notebooks.is_pristine(twice), notebooks.is_pristine(again)] == [True, False]


def test_reset_of_a_missing_file(doubling, files):
    files.path(doubling.items[0]).unlink()
    with pytest.raises(WorkspaceError, match="is missing"):
        files.reset(doubling.items[0])


def test_folder_of_notebooks(doubling, notebooks):
    path = notebooks.root / "a1_doubling.ipynb"
    assert {each.name for each in notebooks.root.iterdir()} == {STATE, "README.md", path.name}
    assert "| [a1_doubling.ipynb](a1_doubling.ipynb) | Doubling |" in (notebooks.root / "README.md").read_text()
    assert "factor_of_the_solution" not in path.read_text()
    twice, again = doubling.items
    assert notebooks.path(twice) == notebooks.path(again) == path
    assert "def twice(array):" in notebooks.code(twice)
    assert [*notebooks.others(again)] == ["twice.py"]
    assert workspace.find(notebooks.root) == notebooks


def test_reset_in_a_notebook(doubling, notebooks):
    item = doubling.items[0]
    path = notebooks.path(item)
    started, before = path.read_text(), json.loads(path.read_text())
    for cell in before["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = ["def twice(array):\n", "    return 'mine'\n"]
    path.write_text(json.dumps(before))
    copy = notebooks.reset(item)
    assert json.loads(copy.read_text()) == before
    after, first = json.loads(path.read_text())["cells"], json.loads(started)["cells"]
    changed = [index for index, cell in enumerate(after) if cell != before["cells"][index]]
    assert ["".join(after[index]["source"]) for index in changed] == ["".join(first[changed[0]]["source"])]
    assert "NotImplementedError" in "".join(after[changed[0]]["source"])


def test_invalid_notebook(doubling, notebooks):
    item = doubling.items[0]
    notebooks.path(item).write_text("{}")
    for call in (notebooks.code, notebooks.reset):
        with pytest.raises(WorkspaceError, match="it is not a notebook"):
            call(item)
    notebooks.path(item).write_text('{"cells": []}')
    for call in (notebooks.code, notebooks.reset):
        with pytest.raises(WorkspaceError, match="no cell for"):
            call(item)
