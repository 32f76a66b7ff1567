"""`assignments/README.md`: all exercises with their points, minutes and questions, made of what they say themselves."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kmha import files
from kmha.course.classroom.verifying import Found
from kmha.course.exercises.content import Assignment, assignments
from kmha.course.exercises.seeds import SEEDS

NAME = "README.md"
_OPENING = """# Assignments

Learn attention by writing it: {assignments} assignments, {exercises} exercises, {points} points, about {hours} hours.
Each exercise answers a question that people have asked in a course's forum or on an issue; each is checked on your own
machine, and what comes back is not only that an answer is wrong but which mistake it makes.

```
pip install 'kmha[course]'
kmha course start
```

makes a folder with a file for each exercise (`--notebooks`: a notebook for each assignment) and says what to do next.
How to add an exercise stands in [ADDING.md](ADDING.md). This page is made by `kmha course verify --write-readme`.
"""
_SEEDS = """
## The seeds

What the assignments grew from, and what “seed” means in the questions above:

"""


def readme(folder: Path) -> str:
    """The text of the page, of the assignments in a folder."""
    every = assignments(folder)
    numbers = {
        "assignments": len(every),
        "exercises": sum(len(each.items) for each in every),
        "points": sum(each.points for each in every),
        "hours": round(sum(each.minutes for each in every) / 60),
    }
    seeds = "".join(f"- {name}: {what}.\n" for name, what in SEEDS.items())
    return _OPENING.format(**numbers) + "".join(_section(assignment) for assignment in every) + _SEEDS + seeds


def write(folder: Path) -> Path:
    """Writes the page, and returns where it is."""
    path = folder / NAME
    files.write_text(path, readme(folder))
    return path


def verify(folder: Path) -> Iterator[Found]:
    """What is wrong across all exercises: files without a place, an id twice, a page that is out of date."""
    every = assignments(folder)
    for assignment in every:
        yield from _files(assignment)
    ids = [item.id for assignment in every for item in assignment.items]
    for id in sorted({id for id in ids if ids.count(id) > 1}):
        yield Found(id, "there are two exercises of this name.")
    numbers = [assignment.id for assignment in every]
    for id in sorted({id for id in numbers if numbers.count(id) > 1}):
        yield Found(id, "there are two assignments of this number.")
    if any(each is not None for each in map(_unreadable, every)):
        return
    path = folder / NAME
    if not path.exists() or path.read_text(encoding="utf-8") != readme(folder):
        yield Found(
            "assignments", f"{path.name} does not say what the exercises say: kmha course verify --write-readme"
        )


def _files(assignment: Assignment) -> Iterator[Found]:
    names = {item.name for item in assignment.items}
    if (missing := _unreadable(assignment)) is not None:
        yield Found(assignment.id, f"it has no {missing}.")
    for path in sorted([*assignment.folder.glob("*.py"), *assignment.folder.glob("checks/*.py")]):
        if path.stem not in names:
            yield Found(assignment.id, f"assignment.toml does not name {path.relative_to(assignment.folder)}.")


def _unreadable(assignment: Assignment) -> str | None:
    """The first file that an assignment should have and has not."""
    wanted: Sequence[str] = [NAME, *(f"{item.name}.py" for item in assignment.items)]
    wanted = [*wanted, *(f"checks/{item.name}.py" for item in assignment.items)]
    return next((name for name in wanted if not (assignment.folder / name).is_file()), None)


def _section(assignment: Assignment) -> str:
    lines = [
        f"\n## [{assignment.id}. {assignment.title}]({assignment.folder.name}/README.md)",
        "",
        f"{assignment.points} points, about {assignment.minutes} minutes.",
        "",
        "| exercise | points | minutes | difficulty | the question that it answers |",
        "| --- | ---: | ---: | :---: | --- |",
    ]
    for item in assignment.items:
        spec = item.spec
        name = f"[{item.name}]({assignment.folder.name}/{item.name}.py): {spec.title}"
        lines.append(f"| {_cell(name)} | {spec.points} | {spec.minutes} | {spec.difficulty} | {_cell(spec.question)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
