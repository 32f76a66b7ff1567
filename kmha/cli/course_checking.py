"""`kmha course check` and `kmha course watch`: check answers and print the results."""

import contextlib
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from kmha import atomic_files
from kmha.cli import course_common
from kmha.cli.common import screen
from kmha.cli.course_common import command, display_path
from kmha.cli.course_learner import ALL_PASSED, bar_text, earned_points
from kmha.course.exercises import content, extras
from kmha.course.exercises.content import Item
from kmha.course.judging import rendering
from kmha.course.judging.marking import Grade, Outcome, error_text
from kmha.course.learner import checking
from kmha.course.learner.checking import CheckResult
from kmha.course.learner.workspace import Workspace, WorkspaceError
from kmha.sandbox import limits
from kmha.sandbox.sandbox import Pool

DEBOUNCE, STEP = 200, 20  # milliseconds. Changes within DEBOUNCE count as one save by an editor
PRINTED = 12  # lines shown of what an answer printed


@command
def check(exercise: str | None, seed: int | None, json_file: Path | None) -> int:
    """Check the named exercises, or the first exercise that is not passed. Return 1 unless all pass."""
    folder = course_common.workspace()
    if exercise is None:
        items = [course_common.find_item(None, folder)]
    else:
        items = list(course_common.find_items(exercise, folder))
    out = screen()
    _warn_unprotected(out, folder)
    results = []
    with Pool() as pool:
        for item in items:
            with _status(item) as tell:
                result = checking.check(item, folder, pool, seed, tell=tell)
            results.append(result)
            _show(out, result, folder)
            if len(items) > 1:
                out.print()
    if json_file is not None:
        atomic_files.write_json(json_file, [_as_dict(result) for result in results])
    if len(items) > 1:
        _show_total(out, results)
    _advise(out, next((result for result in results if not result.grade.passed), results[-1]), folder)
    return int(not all(result.grade.passed for result in results))


@command
def watch(seed: int | None) -> int:
    """Check answers as they are saved, until interrupted."""
    watchfiles = extras.load("watchfiles")
    folder = course_common.workspace()
    out = screen()
    _warn_unprotected(out, folder)
    with Pool() as pool:
        watcher = Watcher(folder, pool, checking.fresh_seed() if seed is None else seed, out)
        watcher.prepare()
        root = escape(str(folder.root))
        out.print(f"Watching {root}. An answer is checked when its text changes. Press Ctrl-C to stop.")
        for changes in watchfiles.watch(folder.root, debounce=DEBOUNCE, step=STEP, rust_timeout=1000):
            watcher.changed(Path(path) for _, path in changes)
    return 0


class Watcher:
    """Check the exercises whose files change.

    Args:
        folder: The learner's folder.
        pool: Pool of sandboxes.
        seed: Seed of the inputs. It stays the same, so that the results of the solution and of the known wrong answers
            are computed only once. An answer that passes must also pass with another seed.
        out: Console to print on.
    """

    def __init__(self, folder: Workspace, pool: Pool, seed: int, out: Console) -> None:
        self.folder, self.pool, self.seed, self.out = folder, pool, seed, out
        self._texts = dict(self._read(content.items()))

    def prepare(self) -> None:
        """Start the sandbox of the next exercise, so that its imports are done before the first save."""
        item = checking.first_open(self.folder.progress.records())
        if item is not None:
            with Console(stderr=True).status("getting ready"):
                self.pool.get(item.spec.uses).start()

    def changed(self, paths: Iterable[Path]) -> None:
        """Check the exercises in these files whose answers differ from the last answers seen."""
        resolved = {path.resolve() for path in paths}
        items = [item for item in content.items() if self.folder.path(item).resolve() in resolved]
        for item, text in self._read(items):
            if self._texts.get(item) != text:
                self._texts[item] = text
                self._check(item)

    def _check(self, item: Item) -> None:
        self.out.rule(f"[dim]{time.strftime('%H:%M:%S')}[/]")
        try:
            with _status(item) as tell:
                result = checking.check(item, self.folder, self.pool, self.seed, confirm=True, tell=tell)
        except WorkspaceError as error:  # the file may have been moved after the change
            self.out.print(escape(str(error)))
            return
        _show(self.out, result, self.folder)
        _advise(self.out, result, self.folder)

    def _read(self, items: Iterable[Item]) -> Iterable[tuple[Item, str]]:
        for item in items:
            try:
                yield item, self.folder.code(item)
            except WorkspaceError:
                continue


@contextlib.contextmanager
def _status(item: Item) -> Iterator[Callable[[str], None]]:
    """Show on standard error what is being waited for, and yield a function that changes it."""
    with Console(stderr=True).status(f"checking {item.id}") as status:
        yield lambda step: status.update(f"checking {item.id}: {step}")


def _show(out: Console, result: CheckResult, folder: Workspace) -> None:
    """Print the result of one exercise."""
    grade = result.grade
    colour = "green" if grade.passed else "red" if grade.points == 0 else "yellow"
    out.print(f"[bold {colour}]{escape(rendering.headline(result.item.spec.title, grade))}[/]")
    if result.is_starter:
        path = escape(display_path(folder.path(result.item)))
        out.print(
            "  This is still the starter, as it was handed out. Read the text and write the missing code in "
            f"[bold]{path}[/]."
        )
    else:
        _show_details(out, grade)
    if result.not_passed:
        ids, several = ", ".join(result.not_passed), len(result.not_passed) > 1
        first = f"Check {'them' if several else 'that one'} first{', in this order' if several else ''}."
        answers = f"your answer{'s' if several else ''} to {ids}"
        _print_block(out, f"It uses {answers}, which you have not passed yet. {first}")


def _advise(out: Console, result: CheckResult, folder: Workspace) -> None:
    """Print what to do next."""
    item, records = result.item, folder.progress.records()
    seed = "" if item.released else f"seed {result.seed} · "  # the inputs of a released course never change
    if not result.grade.passed:
        hints_left = item.released or result.record.hints < len(item.master.hints)
        out.print(f"\n[dim]{seed}stuck? kmha course {'hint' if hints_left else 'solution'} {item.id}[/]")
        return
    earned, possible = earned_points(item.parent.items, records)
    out.print(f"\n{item.assignment} [green]{bar_text(earned, possible)}[/] {earned} of {rendering.count(possible)}")
    if not item.released:
        out.print(f"[dim]{seed}compare it with our solution: kmha course solution {item.id}[/]")
    following = checking.next_open(records, item)
    if following is None:
        out.print(f"[bold green]That was the last one. {ALL_PASSED}[/]")
        return
    path = escape(display_path(folder.path(following)))
    minutes = rendering.count(following.spec.minutes, "minute")
    out.print(f"Next: [bold]{following.id}[/], {escape(following.spec.title)}, about {minutes} ({path})")


def _show_total(out: Console, results: list[CheckResult]) -> None:
    points, possible = sum(each.grade.points for each in results), sum(each.grade.possible for each in results)
    passed = sum(each.grade.passed for each in results)
    exercises = rendering.count(len(results), "exercise")
    out.print(f"\n[bold]{points} of {rendering.count(possible)}[/]; {passed} of {exercises} passed.")


def _warn_unprotected(out: Console, folder: Workspace) -> None:
    """Warn once per folder about what the sandbox cannot prevent on this system."""
    missing = limits.missing()
    if missing and folder.progress.first_time("unprotected"):
        cannot = f"it cannot keep code from {' or '.join(missing)}"
        out.print(f"[dim]Your code runs in a sandbox. On this system, {cannot}.[/]")


def _show_details(out: Console, grade: Grade) -> None:
    if grade.error is None:
        for outcome, wrong in rendering.outcomes(grade):
            _show_check(out, outcome, wrong)
    else:
        _print_block(out, f"It could not be checked: {error_text(grade.error)}")
    if grade.mistake is not None:
        out.print("\n  [bold]The mistake[/]")
        _print_block(out, grade.mistake.says)
        if grade.mistake.source:
            _print_block(out, f"Known from: {grade.mistake.source}", style="dim")
    if grade.case is not None:
        out.print("\n  [bold]The smallest case that shows it[/]")
        for line in rendering.case_text(grade.case).splitlines():
            out.print(Text(f"  {line}"), soft_wrap=True)
    if grade.printed.strip():
        lines = grade.printed.rstrip().splitlines()
        out.print("\n  [bold]Your code printed[/]")
        _print_block(out, "\n".join(lines[:PRINTED]))
        if len(lines) > PRINTED:
            _print_block(out, f"… {rendering.count(len(lines) - PRINTED, 'line')} more", style="dim")


def _show_check(out: Console, outcome: Outcome, wrong: str | None) -> None:
    """Print one check: its verdict, its points, what it checks, and what is wrong."""
    sign = rendering.sign(outcome)
    out.print(Text.assemble("  ", (sign, {"✓": "green", "✗": "red"}.get(sign, "")), "  "), end="")
    points = f"{outcome.points} of {outcome.check.points}".rjust(8)
    first, *more = textwrap.wrap(rendering.claim(outcome), max(out.width - 15, 40)) or [""]
    out.print(Text(f"{points}  {first}"), soft_wrap=True)
    for line in more:
        out.print(Text(" " * 15 + line), soft_wrap=True)
    if wrong is not None:
        _print_block(out, wrong, indent=15, style="yellow")


def _print_block(out: Console, text: str, indent: int = 2, style: str = "") -> None:
    """Print text indented and wrapped, without trailing spaces, which a user would copy with the text."""
    for line in text.splitlines():
        for each in textwrap.wrap(line, max(out.width - indent, 40), replace_whitespace=False) or [""]:
            out.print(Text(" " * indent + each, style), soft_wrap=True)


def _as_dict(result: CheckResult) -> dict[str, object]:
    return {**rendering.as_dict(result.grade), "seed": result.seed, "seconds": round(result.seconds, 3)}
