"""README's code does what its comments say, and its first two commands are those that CI runs."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.tensorflow
@pytest.mark.parametrize("code", BLOCKS)
def test_code_prints_what_it_says(code):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # noqa: S102 - our own README
    said = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    for line, comment in zip(printed.getvalue().splitlines(), said, strict=True):
        assert comment == line or comment.startswith(line + ", ")


def test_there_is_code():
    assert len(BLOCKS) == 5


def test_the_first_screen_has_the_two_commands():
    first_screen = "\n".join(README.splitlines()[:30])
    assert "pip install -e . && kmha compare\n" in first_screen
    assert "pip install -e '.[test]' && pytest\n" in first_screen


def test_every_difference_is_listed():
    table = README.split("## Where kmha differs")[1].split("\n\n")[2]
    assert len(table.splitlines()) == 2 + 13
