import shutil

import pytest

from kmha.course.classroom import listing
from kmha.course.exercises import content


@pytest.fixture
def copy(course, tmp_path):
    return shutil.copytree(course, tmp_path / "assignments")


def test_readme(course):
    text = listing.readme(course)
    assert "1 assignments, 2 exercises, 37 points, about 0 hours" in text
    assert "\n## [a1. Doubling](a1_doubling/README.md)\n\n37 points, about 5 minutes.\n" in text
    row = "| `a1.twice`: Twice as much | 32 | 2 | 1 | What is twice as much? |\n"
    assert row in text


def test_cell_escapes_pipes_and_newlines():
    assert listing._cell("a | b\n  c") == "a \\| b c"


def test_outdated_page(copy):
    assert [found.message for found in listing.verify(copy)] == [
        "README.md is out of date. Run: kmha course verify --write-readme"
    ]
    assert listing.write(copy) == copy / "README.md"
    assert list(listing.verify(copy)) == []


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("README.md", "it has no README.md."),
        ("again.py", "it has no again.py."),
        ("checks/twice.py", "it has no checks/twice.py."),
    ],
)
def test_missing_files(copy, missing, says):
    (copy / "a1_doubling" / missing).unlink()
    assert [found.message for found in listing.verify(copy)] == [says]


def test_unlisted_files(copy):
    listing.write(copy)
    (copy / "a1_doubling" / "more.py").write_text("")
    (copy / "a1_doubling" / "checks" / "other.py").write_text("")
    found = [(each.id, each.message) for each in listing.verify(copy)]
    assert found == [
        ("a1", "assignment.toml does not list checks/other.py."),
        ("a1", "assignment.toml does not list more.py."),
    ]


def test_duplicate_ids(copy):
    shutil.copytree(copy / "a1_doubling", copy / "a1_doubling_too")
    listing.write(copy)
    content.assignments.cache_clear()
    listing.write(copy)
    says = [(each.id, each.message) for each in listing.verify(copy)]
    assert ("a1.again", "two exercises have this id.") in says
    assert ("a1", "two assignments have this id.") in says
