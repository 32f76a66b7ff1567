"""`kmha course verify`: a line for every exercise, and what is wrong with it."""

import dataclasses
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from kmha import files
from kmha.cli.common import screen
from kmha.cli.course_common import bar, command
from kmha.cli.course_learning import shown
from kmha.course.classroom import executing, listing, verifying
from kmha.course.classroom.verifying import Found
from kmha.course.exercises import content
from kmha.course.exercises.content import Item
from kmha.course.judging.rendering import count
from kmha.sandbox.pool import Pool

_Each = TypeVar("_Each")


@dataclasses.dataclass(frozen=True)
class Verified:
    """What was found of an exercise; its points and wrong answers are 0 where it cannot be read."""

    id: str
    points: int
    wrong: int
    seconds: float
    found: tuple[Found, ...]


@command
def run(exercises: tuple[str, ...], write_readme: bool, json_file: Path | None, **choice: Any) -> int:
    """Verifies some exercises, or all and what is to hold across them; returns 1 if anything is found.

    Args:
        exercises: by their names; none is all.
        write_readme: to write the page that lists all instead.
        json_file: to write what was found to.
        choice: `jobs`, `seed`, and whether the `notebooks` are run too.
    """
    if any(item.released for item in content.items()):
        raise click.ClickException("this is a released course: there is nothing in it to verify.")
    if write_readme:
        if exercises:
            raise click.UsageError("--write-readme writes of all exercises: name none.")
        screen().print(f"{escape(shown(listing.write(content.root())))} is written.")
        return 0
    named = [item for name in exercises for item in content.find(name)]
    items = list(dict.fromkeys(named)) if exercises else list(content.items())
    out, seed = screen(), choice["seed"]
    every, across = [], []
    longest = max((len(item.id) for item in items), default=0)
    for verified in _progress("exercises", _verified(items, choice["jobs"], seed), len(items)):
        every.append(verified)
        _line(out, verified, longest)
    for found in _across(items, not exercises, choice["notebooks"]):
        across.append(found)
        out.print(Text(f"{found.id}: {found.says}", "red"), soft_wrap=True)
    _total(out, every, len(across), seed)
    if json_file is not None:
        told = {"seed": seed, "exercises": [dataclasses.asdict(each) for each in every]}
        files.write_json(json_file, {**told, "across": [dataclasses.asdict(found) for found in across]})
    return int(bool(across) or any(verified.found for verified in every))


def _across(items: Sequence[Item], everything: bool, run_notebooks: bool) -> Iterator[Found]:
    """What is wrong across the exercises, and with their assignments' notebooks."""
    if everything:
        yield from listing.verify(content.root())
    if run_notebooks:
        chosen = {item.folder for item in items}
        wanted = [each for each in content.assignments(content.root()) if each.folder in chosen]
        for found in _progress("notebooks", map(executing.verify, wanted), len(wanted)):
            yield from found


def _verified(items: Sequence[Item], jobs: int, seed: int) -> Iterator[Verified]:
    """In the order of the exercises, several at once: each worker has sandboxes of its own."""
    own, pools = threading.local(), []

    def work(item: Item) -> Verified:
        if not hasattr(own, "pool"):
            own.pool = Pool()
            pools.append(own.pool)
        return _of(item, own.pool, seed)

    executor = ThreadPoolExecutor(jobs)
    try:
        waiting: list[Future[Verified]] = [executor.submit(work, item) for item in items]
        for future in waiting:
            yield future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for pool in pools:
            pool.stop()  # and with it what still runs in it
            pool.close()


def _of(item: Item, pool: Pool, seed: int) -> Verified:
    begin, points, wrong = time.monotonic(), 0, 0
    try:
        points, wrong = item.spec.points, len(item.spec.wrong)
        found = tuple(verifying.verify(item, pool.of(item.spec.uses), seed))
    except Exception as error:  # its files are code, and may raise anything
        found = (Found(item.id, f"it cannot be read: {type(error).__name__}: {error}"),)
    return Verified(item.id, points, wrong, time.monotonic() - begin, found)


def _progress(what: str, every: Iterable[_Each], total: int) -> Iterator[_Each]:
    with bar(what, total) as step:
        for each in every:
            yield each
            step(what)


def _line(out: Console, verified: Verified, longest: int) -> None:
    numbers = f"{verified.points:4d} points  {verified.wrong:3d} wrong answers  {verified.seconds:6.1f} s"
    said = Text("ok", "green") if not verified.found else Text(f"{len(verified.found)} found", "red")
    out.print(Text.assemble(f"{verified.id:{longest}}  {numbers}  ", said), soft_wrap=True)
    for found in verified.found:
        out.print(Text(f"    {found.says}"), soft_wrap=True)


def _total(out: Console, every: Sequence[Verified], across: int, seed: int) -> None:
    found = across + sum(len(verified.found) for verified in every)
    points, wrong = sum(verified.points for verified in every), sum(verified.wrong for verified in every)
    parts = count(len(every), "exercise"), count(points), count(wrong, "wrong answer")
    verdict = f"{found} found" if found else "all is as it must be"
    out.print(Text(f"\n{', '.join(parts)} (seed {seed}): {verdict}.", "bold red" if found else "bold green"))
