"""The master file of an exercise, from which every other form of it is made.

It is a Python file in the percent format (https://jupytext.readthedocs.io). Its cells are, in this order: the text, in
Markdown; the code, with the solution between `### BEGIN SOLUTION` and `### END SOLUTION`, nbgrader's marks; and three
hints, Markdown cells with the tag "hint", each more explicit than the one before. A learner gets a stub in the place of
the solution, or the comments that follow `### STARTER` in it, as code.
"""

import dataclasses
import re
import textwrap
from typing import Any

from kmha.course.errors import CourseError
from kmha.course.exercises import extras

BEGIN, STARTER, END = "### BEGIN SOLUTION", "### STARTER", "### END SOLUTION"
STUB = '# YOUR CODE HERE\nraise NotImplementedError("write this part")'
_REGION = re.compile(rf"^(?P<indent>[ \t]*){BEGIN}\n(?P<body>.*?)^[ \t]*{END}[ \t]*(?:\n|\Z)", re.M | re.S)


class MasterError(CourseError, ValueError):
    """A master file is not as it must be."""


@dataclasses.dataclass(frozen=True)
class Master:
    """An exercise as it is written.

    Attributes:
        text: Markdown, with a heading on its first line.
        code: with the solution between its marks.
        hints: Markdown, three.
    """

    text: str
    code: str
    hints: tuple[str, ...]

    @property
    def solution(self) -> str:
        """The code with the solution, without the marks."""
        return _REGION.sub(lambda found: _parts(found)[0], self.code)

    @property
    def starter(self) -> str:
        """The code with a stub, or what stands after `### STARTER`, in the place of every solution.

        >>> print(Master("", "def f(x):\\n    ### BEGIN SOLUTION\\n    return x\\n    ### END SOLUTION\\n", ()).starter)
        def f(x):
            # YOUR CODE HERE
            raise NotImplementedError("write this part")
        <BLANKLINE>
        """
        return _REGION.sub(lambda found: _parts(found)[1], self.code)

    @property
    def title(self) -> str:
        return self.text.splitlines()[0].lstrip("# ").strip()


def _parts(region: re.Match[str]) -> tuple[str, str]:
    """The solution and the starter of a region."""
    solution, given, starter = region["body"].partition(f"{region['indent']}{STARTER}\n")
    if not given:
        return solution, textwrap.indent(STUB, region["indent"]) + "\n"
    return solution, re.sub(r"^([ \t]*)# ?", r"\1", starter, flags=re.M)


def parse(text: str, name: str) -> Master:
    """The master in a file's text.

    Raises:
        MasterError: it has not the cells that it must have; it says which.
    """
    # It takes most of a second to import.
    cells = extras.load("jupytext").reads(text, fmt="py:percent").cells
    hints = tuple(cell.source for cell in cells if "hint" in cell.metadata.get("tags", ()))
    rest = [cell for cell in cells if "hint" not in cell.metadata.get("tags", ())]
    kinds = [cell.cell_type for cell in rest]
    if kinds != ["markdown", "code"]:
        raise MasterError(f"{name}: expected a Markdown cell, a code cell, and hints. Received: {', '.join(kinds)}.")
    _check(rest[1].source, rest[0].source, hints, name)
    return Master(rest[0].source, rest[1].source + "\n", hints)


def _check(code: str, text: str, hints: tuple[Any, ...], name: str) -> None:
    if not text.startswith("# "):
        raise MasterError(f"{name}: its text must begin with a heading, `# …`.")
    if len(hints) != 3:
        raise MasterError(f'{name}: expected three cells with the tag "hint". Received: {len(hints)}.')
    if not _REGION.search(code) or code.count(BEGIN) != code.count(END):
        raise MasterError(f"{name}: its code must have a solution between `{BEGIN}` and `{END}`.")
