"""What came of a check, on a screen."""

import textwrap

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from kmha.cli.course_learning import bar, points_of, shown
from kmha.course.judging import rendering
from kmha.course.judging.marking import Grade, Outcome, error_text
from kmha.course.learner import checking
from kmha.course.learner.checking import CheckResult
from kmha.course.learner.workspace import Workspace
from kmha.sandbox import limits

PRINTED = 12  # lines of what an answer printed


def show(out: Console, checked: CheckResult, folder: Workspace) -> None:
    """All that there is to say of one exercise."""
    grade = checked.grade
    colour = "green" if grade.passed else "red" if grade.points == 0 else "yellow"
    out.print(f"[bold {colour}]{escape(rendering.headline(checked.item.spec.title, grade))}[/]")
    if checked.is_starter:
        path = escape(shown(folder.path(checked.item)))
        out.print(f"  It is as it was handed out. Read the text and write what is missing in [bold]{path}[/].")
    else:
        _details(out, grade)
    for id in checked.not_passed:
        out.print(f"  It uses your answer to [bold]{id}[/], which is not passed yet: check that one first.")


def advise(out: Console, checked: CheckResult, folder: Workspace) -> None:
    """What to do next."""
    item, records = checked.item, folder.progress.records()
    seed = "" if item.released else f"seed {checked.seed} · "  # there are the same inputs each time
    if not checked.grade.passed:
        left = item.released or checked.record.hints < len(item.master.hints)
        out.print(f"\n[dim]{seed}stuck? kmha course {'hint' if left else 'solution'} {item.id}[/]")
        return
    got, possible = points_of(item.beside, records)
    out.print(f"\n{item.assignment} [green]{bar(got, possible)}[/] {got} of {rendering.count(possible)}")
    if not item.released:
        out.print(f"[dim]{seed}compare it with ours: kmha course solution {item.id}[/]")
    following = checking.next_open(records, item)
    if following is None:
        out.print("[bold green]That was the last one: all exercises are passed.[/]")
        return
    path = escape(shown(folder.path(following)))
    minutes = rendering.count(following.spec.minutes, "minute")
    out.print(f"Next: [bold]{following.id}[/], {escape(following.spec.title)}, about {minutes} ({path})")


def total(out: Console, every: list[CheckResult]) -> None:
    """The sum of several exercises."""
    got, possible = sum(each.grade.points for each in every), sum(each.grade.possible for each in every)
    passed = sum(each.grade.passed for each in every)
    exercises = rendering.count(len(every), "exercise")
    out.print(f"\n[bold]{got} of {rendering.count(possible)}[/]; {passed} of {exercises} passed.")


def unprotected(out: Console, folder: Workspace) -> None:
    """What this system cannot keep the code from: once in a folder."""
    missing = limits.missing()
    if missing and folder.progress.first_time("unprotected"):
        out.print(
            f"[dim]Your code runs in a process of its own; here that does not keep it from {' or '.join(missing)}.[/]"
        )


def _details(out: Console, grade: Grade) -> None:
    if grade.error is None:
        for outcome, wrong in rendering.outcomes(grade):
            _row(out, outcome, wrong)
    else:
        _block(out, f"It could not be checked: {error_text(grade.error)}")
    if grade.named is not None:
        out.print("\n  [bold]The mistake[/]")
        _block(out, grade.named.says)
        if grade.named.source:
            _block(out, f"Known from: {grade.named.source}", style="dim")
    if grade.shown is not None:
        out.print("\n  [bold]The smallest case that shows it[/]")
        for line in rendering.case_text(grade.shown).splitlines():
            out.print(Text(f"  {line}"), soft_wrap=True)
    if grade.printed.strip():
        lines = grade.printed.rstrip().splitlines()
        out.print("\n  [bold]It printed[/]")
        _block(out, "\n".join(lines[:PRINTED]))
        if len(lines) > PRINTED:
            _block(out, f"… {rendering.count(len(lines) - PRINTED, 'line')} more", style="dim")


def _row(out: Console, outcome: Outcome, wrong: str | None) -> None:
    """A check: whether it holds, its points, what it checks, and what is wrong."""
    holds = outcome.says is None
    out.print(Text.assemble("  ", ("✓", "green") if holds else ("✗", "red"), "  "), end="")
    points = f"{outcome.points} of {outcome.check.points}".rjust(8)
    unpaid = " (that counts once something is right)" if holds and not outcome.points else ""
    out.print(Text(f"{points}  {outcome.check.says}{unpaid}"), soft_wrap=True)
    if wrong is not None:
        _block(out, wrong, by=15, style="yellow")


def _block(out: Console, text: str, by: int = 2, style: str = "") -> None:
    """Moved in, and wrapped; without spaces after the lines, which would come along where it is copied."""
    for line in text.splitlines():
        wrapped = textwrap.wrap(line, max(out.width - by, 40), replace_whitespace=False) or [""]
        for each in wrapped:
            out.print(Text(" " * by + each, style), soft_wrap=True)
