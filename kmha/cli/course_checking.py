"""`kmha course check`: runs answers and prints what came of them."""

from pathlib import Path

from rich.console import Console

from kmha import files
from kmha.cli import course_common, course_report
from kmha.cli.common import screen
from kmha.cli.course_common import command
from kmha.course.judging import rendering
from kmha.course.learner import checking
from kmha.course.learner.checking import CheckResult
from kmha.sandbox.pool import Pool


@command
def run(exercise: str | None, seed: int | None, json_file: Path | None) -> int:
    """Checks what is named, or the first exercise that is not passed; returns 1 if anything is not."""
    folder = course_common.workspace()
    items = [course_common.meant(None, folder)] if exercise is None else list(course_common.named(exercise, folder))
    out = screen()
    course_report.unprotected(out, folder)
    every = []
    with Pool() as pool:
        for item in items:
            with Console(stderr=True).status(f"checking {item.id}"):
                checked = checking.check(item, folder, pool, seed)
            every.append(checked)
            course_report.show(out, checked, folder)
            if len(items) > 1:
                out.print()
    if json_file is not None:
        files.write_json(json_file, [as_dict(checked) for checked in every])
    if len(items) > 1:
        course_report.total(out, every)
    course_report.advise(out, _foremost(every), folder)
    return int(not all(checked.grade.passed for checked in every))


def as_dict(checked: CheckResult) -> dict[str, object]:
    """As JSON has it."""
    return {**rendering.as_dict(checked.grade), "seed": checked.seed, "seconds": round(checked.seconds, 3)}


def _foremost(every: list[CheckResult]) -> CheckResult:
    """The first that is not passed: what to do next is about that."""
    return next((checked for checked in every if not checked.grade.passed), every[-1])
