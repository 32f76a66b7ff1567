"""How far `kmha train` is, as it shows it."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kmha.translation.start import Listener

LINE = 150  # characters of a sample that are shown; the log has them all


class Display(Listener):
    """Says how far a run is: with a bar on a terminal, in lines elsewhere.

    Args:
        screen: standard error.
        total: steps.
    """

    def __init__(self, screen: Console, total: int) -> None:
        self._screen, self._total = screen, total
        columns = TextColumn("step"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
        self._bar = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._task = self._bar.add_task("", total=total, completed=0)
        self.checked = 0  # the step to go on from, once it is known
        self.done = 0
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self._screen.print(text, markup=False)

    def from_where(self) -> str:
        """Where the same command goes on."""
        return f" from step {self.checked:,}" if self.checked else ""

    def note(self, text: str) -> None:
        """As `start.Listener.note`."""
        self.say(text)

    def resumed(self, step: int) -> None:
        """As `start.Listener.resumed`."""
        self.checked = self.done = step
        self.say(f"resuming at step {step:,} of {self._total:,}")

    def step(self, step: int, loss: float) -> None:
        """As `start.Listener.step`."""
        now = time.monotonic()
        self._first = self._first or (now, step)
        self.done = step
        if self._screen.is_terminal:
            text = f"loss {loss:.3f} · {self._left(now, step)}"
            self._bar.update(self._task, completed=step, description=text)

    def check(self, row: dict[str, float], samples: str) -> None:
        """As `start.Listener.check`."""
        self.checked = int(row["step"])
        score = f"BLEU {row['bleu']:.1f}" if "bleu" in row else f"exact {row['exact_match']:.1f} %"
        parts = (
            f"step {self.checked:,} of {self._total:,}",
            f"{row['minutes']:.1f} min",
            f"loss {row['loss']:.3f}, validation {row['val_loss']:.3f}",
            f"accuracy {100 * row['token_accuracy']:.1f} %, validation {100 * row['val_token_accuracy']:.1f} %",
            f"perplexity {row['val_perplexity']:.2f}",
            score,
            f"{row['tokens_per_second']:,.0f} tokens/s",
            self._left(time.monotonic(), self.checked),
        )
        self.say(" · ".join(parts))
        for line in samples.split("\n  source", 1)[0].splitlines():
            self.say(line if len(line) <= LINE else f"{line[: LINE - 1]}…")

    def _left(self, now: float, step: int) -> str:
        """How long it will still take, at the pace of this session, checks included."""
        if self._first is None or step == self._first[1]:
            return ""
        pace = (now - self._first[0]) / (step - self._first[1])
        minutes = (self._total - step) * pace / 60
        return f"{minutes:.0f} min left" if minutes >= 1 else f"{60 * minutes:.0f} s left"
