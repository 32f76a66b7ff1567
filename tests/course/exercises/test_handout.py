from pathlib import Path

import pytest

from kmha.cli.course import course as commands
from kmha.course.exercises.handout import FILES, NOTEBOOKS, guide, is_starter, starter_file


@pytest.mark.parametrize(
    ("path", "form", "name"),
    [("mine/a1_doubling/twice.py", FILES, "a1_doubling"), ("mine/a1_doubling.ipynb", NOTEBOOKS, "a1_doubling.ipynb")],
)
def test_guide_lists_the_assignments(doubling, path, form, name):
    found = guide({Path(path): doubling}, form)
    assert f"| [{name}]({name}) | Doubling | 2 | 37 | 5 |\n" in found
    assert "kmha course check a1.twice" in found
    assert ("notebook" in found) == (form == NOTEBOOKS)


def test_commands_in_the_guide_exist(doubling):
    named = [part.split()[0].strip("`") for part in guide({Path("a/b"): doubling}, FILES).split("kmha course ")[1:]]
    assert (
        {"check", "watch", "hint", "list", "progress", "solution", "reset", "start"} == {*named} <= {*commands.commands}
    )


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", True),
        ("# YOUR CODE HERE", "#  where do I begin?\n", True),
        ('raise NotImplementedError("write this part")', "return array", False),
        ("def twice(", "def twice((", False),
        # Python reads this number, but does not write it: it stopped the whole class.
        ('raise NotImplementedError("write this part")', f"return 0x{5000 * 'f'}", False),
    ],
)
def test_is_starter(doubling, old, new, same):
    item = doubling.items[0]
    assert is_starter(starter_file(item).replace(old, new, 1), item) == same
