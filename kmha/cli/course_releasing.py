"""`kmha course release`: the copy of the course that a class gets."""

from collections.abc import Sequence
from pathlib import Path

import click

from kmha.cli.course_common import bar, command
from kmha.course.classroom import release
from kmha.course.exercises import content
from kmha.course.exercises.content import Assignment
from kmha.course.learner import checking
from kmha.sandbox.pool import Pool


@command
def run(folder: Path, *, chosen: Sequence[str], form: str | None, seed: int | None) -> int:
    """Releases; returns the exit status."""
    assignments = choose(chosen)
    seed = checking.fresh_seed() if seed is None else seed
    forms = (form,) if form else release.FORMS
    count = sum(len(assignment.items) for assignment in assignments)
    with Pool() as pool, bar("solutions", count) as step:
        release.release(folder, assignments, pool, seed=seed, forms=forms, progress=lambda item: step(item.id))
    click.echo(
        f"{folder}: {count} exercises of {', '.join(each.id for each in assignments)}, as {' and '.join(forms)}."
    )
    return 0


def choose(chosen: Sequence[str]) -> tuple[Assignment, ...]:
    """The assignments of that name, with their solutions; all, if none is named."""
    every = content.assignments(content.installed())
    unknown = [name for name in chosen if name not in {each.id for each in every}]
    if unknown:
        told = ", ".join(each.id for each in every)
        raise click.BadParameter(f"there is no {unknown[0]!r}. There are: {told}.", param_hint="'--assignment'")
    return tuple(each for each in every if not chosen or each.id in chosen)
