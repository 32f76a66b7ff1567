"""Try the rows in processes of their own, and judge what each layer did."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from kmha.verify.comparing.ecosystem.row import Row
from kmha.verify.comparing.ecosystem.table import ROWS
from kmha.verify.tolerance import difference, relative

WORKER = "kmha.verify.comparing.ecosystem.worker"
SILENCE = 900.0  # seconds for one layer and row, after which the process is stopped
ABORTED = "the process was aborted"
STEPS = 10  # multiple of the rounding of one call that a few training steps may reach


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a row.

    Attributes:
        row: The row.
        builtin: Why the feature does not work with the built-in layer, or "" if it works.
        ours: The same for kmha's layer.
        difference: Largest difference of the two layers' arrays, relative to the largest element, if both work.
        skipped: Why the row was not tried, or "".
    """

    row: Row
    builtin: str = ""
    ours: str = ""
    difference: float | None = None
    skipped: str = ""

    @property
    def agrees(self) -> bool:
        """Tell whether the arrays are the same up to rounding."""
        return self.difference is not None and self.difference <= STEPS * relative(self.row.dtype)

    @property
    def holds(self) -> bool:
        """Tell whether the feature works with kmha's layer if it does with the built-in, or has a stated reason."""
        return bool(self.skipped or self.builtin or self.row.differs) or (not self.ours and self.agrees)

    @property
    def marks(self) -> tuple[str, str]:
        """The table's marks of the built-in layer and of kmha's."""
        if self.skipped:
            return "–", "–"
        ours = "✗" if self.ours else "✓" if self.builtin or self.agrees else "≠"
        return "✗" if self.builtin else "✓", ours

    @property
    def note(self) -> str:
        """The difference of the numbers, or what is missing, or the reason."""
        if self.difference is not None and not self.row.differs:
            return f"{self.difference:.0e}"
        if self.skipped or self.row.differs:
            return self.skipped or self.row.differs
        if self.builtin == self.ours:
            return self.ours
        said = {"built-in": self.builtin, "kmha": self.ours}
        return "; ".join(f"{name}: {reason}" for name, reason in said.items() if reason)


def try_all(
    backend: str, features: Sequence[str] = (), progress: Callable[[int, Outcome], Any] | None = None
) -> list[Outcome]:
    """Try the rows on a backend of Keras, each with the built-in layer and with kmha's.

    Args:
        backend: Backend of Keras.
        features: Features to try. Empty means all.
        progress: Called with the number of rows done and the last outcome.

    Returns:
        An outcome for each row, in the table's order.
    """
    chosen = [(n, row) for n, row in enumerate(ROWS) if not features or row.feature in features]
    outcomes = {n: Outcome(row, skipped=why) for n, row in chosen if (why := _why_not(row, backend))}
    tried = [n for n, _ in chosen if n not in outcomes]
    found: dict[str, dict[str, Any]] = {}
    alone = [[f"{n}:{layer}"] for n in tried if ROWS[n].apart for layer in ("builtin", "ours")]
    together = [f"{n}:{layer}" for n in tried if not ROWS[n].apart for layer in ("builtin", "ours")]
    for tasks in (together, *alone):
        for task, result in _results(backend, tasks):
            found[task] = result
            number = int(task.split(":")[0])
            if both := [found[key] for key in (f"{number}:builtin", f"{number}:ours") if key in found][1:]:
                outcomes[number] = _outcome(ROWS[number], found[f"{number}:builtin"], both[0])
                if progress:
                    progress(len(outcomes), outcomes[number])
    return [outcomes[n] for n, _ in chosen]


def _why_not(row: Row, backend: str) -> str:
    if backend not in row.backends:
        return f"on {' and '.join(row.backends)}"
    extras = sorted({extra for package, extra in row.needs if find_spec(package) is None})
    return f"needs pip install 'kmha[{','.join(extras)}]'" if extras else ""


def _results(backend: str, tasks: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each task and what it gave. After a task that aborts its process, another process does the rest."""
    remaining = list(tasks)
    while remaining:
        begun = ""
        for message in _messages(backend, remaining):
            begun = message.get("begins", begun)
            if "task" in message:
                remaining.remove(begun)
                yield begun, message
                begun = ""
        if begun:
            remaining.remove(begun)
            yield begun, {"said": ABORTED, "arrays": []}
        elif remaining:
            raise RuntimeError(
                f"the process that tries the rows did not start. Run {sys.executable} -m {WORKER} 0:ours"
            )


def _messages(backend: str, tasks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Start a process for these tasks, and yield what it reports."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-W", "ignore", "-m", WORKER, *tasks]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "encoding": "utf-8"}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        try:
            while line := _line(process):
                yield json.loads(line)
        finally:
            process.kill()


def _line(process: Any) -> str:
    """Return the next line, or "" if the process has ended or is silent for too long."""
    timer = threading.Timer(SILENCE, process.kill)
    timer.start()
    try:
        return str(process.stdout.readline())
    finally:
        timer.cancel()


def _outcome(row: Row, builtin: dict[str, Any], ours: dict[str, Any]) -> Outcome:
    if builtin["said"] or ours["said"]:
        return Outcome(row, builtin["said"], ours["said"])
    pairs = zip(ours["arrays"], builtin["arrays"], strict=True)
    off = [difference(np.array(one), np.array(other))[1] for one, other in pairs]
    return Outcome(row, difference=max(off, default=0.0))
