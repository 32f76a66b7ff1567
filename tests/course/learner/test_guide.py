from pathlib import Path

import pytest

from kmha.cli.course import course as commands
from kmha.course.learner.guide import text


@pytest.mark.parametrize(
    ("path", "notebooks", "name"),
    [("mine/a1_doubling/twice.py", False, "a1_doubling"), ("mine/a1_doubling.ipynb", True, "a1_doubling.ipynb")],
)
def test_the_assignments_are_listed(doubling, path, notebooks, name):
    found = text({Path(path): doubling}, notebooks=notebooks)
    assert f"| [{name}]({name}) | Doubling | 2 | 37 | 5 |\n" in found
    assert "kmha course check a1.twice" in found
    assert ("notebook" in found) == notebooks


def test_the_commands_that_it_names_are_there(doubling):
    named = [
        part.split()[0].strip("`") for part in text({Path("a/b"): doubling}, notebooks=False).split("kmha course ")[1:]
    ]
    assert (
        {"check", "watch", "hint", "list", "progress", "solution", "reset", "start"} == {*named} <= {*commands.commands}
    )
