"""`kmha course watch`: checks what is saved."""

import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from kmha.cli import course_common, course_report
from kmha.cli.common import screen
from kmha.cli.course_common import command
from kmha.course.exercises import content, extras
from kmha.course.exercises.content import Item
from kmha.course.learner import checking
from kmha.course.learner.workspace import Workspace, WorkspaceError
from kmha.sandbox.pool import Pool

TOGETHER, STEP = 200, 20  # milliseconds: what an editor writes in that time is one save


@command
def run(seed: int | None) -> int:
    """Checks until it is interrupted."""
    watchfiles = extras.load("watchfiles")
    folder = course_common.workspace()
    out = screen()
    course_report.unprotected(out, folder)
    with Pool() as pool:
        watcher = Watcher(folder, pool, checking.fresh_seed() if seed is None else seed, out)
        watcher.prepare()
        out.print(f"Watching {escape(str(folder.root))}: an answer is checked when its text changes. Ctrl-C ends it.")
        for changes in watchfiles.watch(folder.root, debounce=TOGETHER, step=STEP, rust_timeout=1000):
            watcher.changed(Path(path) for _, path in changes)
    return 0


class Watcher:
    """Checks the exercises whose files have changed.

    Args:
        folder: the learner's.
        pool: of sandboxes.
        seed: of the inputs, the same each time, so that what the solution and the wrong answers give is known from the
            first check on. What passes must pass with another one too.
        out: to print on.
    """

    def __init__(self, folder: Workspace, pool: Pool, seed: int, out: Console) -> None:
        self.folder, self.pool, self.seed, self.out = folder, pool, seed, out
        self._texts = dict(self._read(content.items()))

    def prepare(self) -> None:
        """Has imported what the next exercise needs, before it is saved."""
        item = checking.first_open(self.folder.progress.records())
        if item is not None:
            with Console(stderr=True).status("getting ready"):
                self.pool.of(item.spec.uses).start()

    def changed(self, paths: Iterable[Path]) -> None:
        """Checks what is in these files, where it is not as it was when it was last looked at."""
        resolved = {path.resolve() for path in paths}
        items = [item for item in content.items() if self.folder.path(item).resolve() in resolved]
        for item, text in self._read(items):
            if self._texts.get(item) != text:
                self._texts[item] = text
                self._check(item)

    def _check(self, item: Item) -> None:
        self.out.rule(f"[dim]{time.strftime('%H:%M:%S')}[/]")
        try:
            with Console(stderr=True).status(f"checking {item.id}"):
                checked = checking.check(item, self.folder, self.pool, self.seed, confirm=True)
        except WorkspaceError as error:  # it may have been moved away meanwhile
            self.out.print(escape(str(error)))
            return
        course_report.show(self.out, checked, self.folder)
        course_report.advise(self.out, checked, self.folder)

    def _read(self, items: Iterable[Item]) -> Iterable[tuple[Item, str]]:
        for item in items:
            try:
                yield item, self.folder.code(item)
            except WorkspaceError:
                continue
