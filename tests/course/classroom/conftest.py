"""Exercises with parts of their files replaced."""

import pytest

from kmha.course.exercises import content


@pytest.fixture
def changed(course, tmp_path):
    """Return a function that makes `twice` with parts of its files replaced."""
    number = iter(range(100))

    def make(master=(), checks=()):
        folder = tmp_path / str(next(number)) / "a1_doubling"
        (folder / "checks").mkdir(parents=True)
        (folder / "assignment.toml").write_text('title = "Doubling"\nexercises = ["twice"]\n')
        for path, pieces in (("twice.py", master), ("checks/twice.py", checks)):
            text = (course / "a1_doubling" / path).read_text()
            for old, new in pieces:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
            (folder / path).write_text(text)
        return content.assignments(folder.parent)[0].items[0]

    return make
