"""The README of a learner's folder: what is in it, in which order, and the commands."""

from collections.abc import Mapping
from pathlib import Path

from kmha.course.exercises.content import Assignment

_FILES = """Each folder is an assignment: its README.md says what it is about, and every other file is an
exercise. Read the text at its top, and write what is missing below."""
_NOTEBOOKS = """Each notebook is an assignment. Read the text above an exercise, write what is missing, and check it by
running the cell below it, or with the commands."""
_TEXT = """# Learn attention by writing it

{what} Begin with the first:

| | about | exercises | points | minutes |
| --- | --- | ---: | ---: | ---: |
{rows}

In this folder:

```
kmha course check      # check the first exercise that is not passed yet; or name one: kmha course check {first}
kmha course watch      # check an answer whenever it is saved
kmha course hint       # a hint when you are stuck; there are three for each exercise
kmha course list       # the exercises in their order, and which are passed
kmha course progress   # how far you are
kmha course solution   # compare: the solution of the exercise that was passed last, or of the one that is named
```

`kmha course reset {first}` begins one again and keeps a copy of what you wrote. `kmha course start` puts back
files that are missing, and overwrites none.
"""


def text(places: Mapping[Path, Assignment], *, notebooks: bool) -> str:
    """Markdown.

    Args:
        places: the assignments in their order, by a file of each in the learner's folder.
        notebooks: whether that file is the whole assignment, not one of a folder.
    """
    rows = []
    for path, each in places.items():
        name = path.name if notebooks else path.parent.name
        rows.append(f"| [{name}]({name}) | {each.title} | {len(each.items)} | {each.points} | {each.minutes} |")
    first = next((each.items[0].id for each in places.values()), "a1")
    return _TEXT.format(what=_NOTEBOOKS if notebooks else _FILES, rows="\n".join(rows), first=first)
