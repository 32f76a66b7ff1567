"""The master file of an exercise, from which its starter, its notebook cells and its solution are made.

The master is a Python file in the percent format (https://jupytext.readthedocs.io). It has these cells, in this order:
the text, in Markdown; the code, with the solution between `### BEGIN SOLUTION` and `### END SOLUTION`, the marks of
nbgrader; and three hints, Markdown cells with the tag "hint", each more explicit than the one before. Instead of the
solution, a learner gets a stub, or the comments that follow `### STARTER`, uncommented.
"""

import dataclasses
import re
import textwrap
from collections.abc import Iterator

from kmha.course.errors import CourseError

BEGIN, STARTER, END = "### BEGIN SOLUTION", "### STARTER", "### END SOLUTION"
STUB = '# YOUR CODE HERE\nraise NotImplementedError("write this part")'
_CELL = re.compile(r"^# %%(.*)\n", re.M)
_REGION = re.compile(rf"^(?P<indent>[ \t]*){BEGIN}\n(?P<body>.*?)^[ \t]*{END}[ \t]*(?:\n|\Z)", re.M | re.S)


class MasterError(CourseError, ValueError):
    """A master file does not have the required form."""


@dataclasses.dataclass(frozen=True)
class Master:
    """The content of a master file.

    Attributes:
        text: Markdown that begins with a heading.
        code: Code with the solution between its marks.
        hints: Three hints, in Markdown.
    """

    text: str
    code: str
    hints: tuple[str, ...]

    @property
    def solution(self) -> str:
        """The code with the solutions, without the lines that mark them."""
        return _REGION.sub(lambda found: _parts(found)[0], self.code)

    @property
    def starter(self) -> str:
        """The code with a stub, or the code after `### STARTER`, instead of each solution.

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


def _cells(text: str) -> Iterator[tuple[str, bool, str]]:
    """Yield the kind of each cell, whether it is a hint, and its text.

    jupytext could do this, but its import takes a second at every command of a learner.
    """
    for head, body in zip(*[iter(_CELL.split(text)[1:])] * 2, strict=True):
        if "[markdown]" in head:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            yield "markdown", '"hint"' in head, "\n".join(lines)
        else:
            yield "code", False, body.rstrip("\n")


def _parts(region: re.Match[str]) -> tuple[str, str]:
    """Return the solution and the starter of a region between the marks."""
    solution, given, starter = region["body"].partition(f"{region['indent']}{STARTER}\n")
    if not given:
        return solution, textwrap.indent(STUB, region["indent"]) + "\n"
    return solution, re.sub(r"^([ \t]*)# ?", r"\1", starter, flags=re.M)


def parse(text: str, name: str) -> Master:
    """Parse the text of a master file. Error messages contain `name`.

    Raises:
        MasterError: The file does not have the required cells.
    """
    cells = list(_cells(text))
    hints = tuple(source for _, is_hint, source in cells if is_hint)
    kinds = [kind for kind, is_hint, _ in cells if not is_hint]
    if kinds != ["markdown", "code"]:
        raise MasterError(f"{name}: expected a Markdown cell, a code cell, and hints. Received: {', '.join(kinds)}.")
    text, code = (source for _, is_hint, source in cells if not is_hint)
    if not text.startswith("# "):
        raise MasterError(f"{name}: the text must begin with a heading, `# …`.")
    if len(hints) != 3:
        raise MasterError(f'{name}: expected three cells with the tag "hint". Received: {len(hints)}.')
    if not _REGION.search(code) or code.count(BEGIN) != code.count(END):
        raise MasterError(f"{name}: the code must have a solution between `{BEGIN}` and `{END}`.")
    return Master(text, code + "\n", hints)
