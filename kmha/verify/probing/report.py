"""What probes found: a row for each property, as a table and as a dict."""

import dataclasses
import math
from typing import Any

TEXTS = {
    "finite": "the output is finite",
    "repeats": "training=False repeats",
    "causal": "the future does not change the past",
    "padding": "padded tokens change nothing",
    "padding_length": "more padding changes nothing",
    "batch_order": "the batch's order changes nothing",
    "batch_size": "the batch's other items change nothing",
    "rows": "rows of scores sum to one",
    "gradient": "gradient reaches every weight",
}


@dataclasses.dataclass(frozen=True)
class Property:
    """One row.

    Attributes:
        name: a key of `TEXTS`; "causal: NAME" where several inputs could be causal.
        holds: whether it holds; `None` if it could not be tried.
        effect: the largest change, relative to the largest element of the output. Of "rows", the largest distance of a
            sum from one; of "gradient", the smallest gradient of a weight relative to the largest.
        where: the first place that shows it; why it could not be tried; or what else there is to say.
        expected: whether it should hold; `None` if that is for the user to say.
    """

    name: str
    holds: bool | None
    effect: float | None = None
    where: str = ""
    expected: bool | None = True

    @property
    def text(self) -> str:
        """The property in words.

        >>> Property("causal: target", True).text
        'the future does not change the past (target)'
        """
        name, _, of = self.name.partition(": ")
        return TEXTS[name] + (f" ({of})" if of else "")

    @property
    def fails(self) -> bool:
        """Whether it should hold, and does not."""
        return self.expected is True and self.holds is False


@dataclasses.dataclass(frozen=True)
class Probes:
    """What `kmha.verify.probe` found; `print` shows it as a table.

    Attributes:
        subject: what was probed, and on which inputs.
        backend: Keras' backend.
        tolerance: the largest effect that counts as none.
        rows: the properties.
    """

    subject: str
    backend: str
    tolerance: float
    rows: tuple[Property, ...]

    def __getitem__(self, name: str) -> Property:
        """The row of that name.

        Raises:
            KeyError: there is none; the message lists those that there are.
        """
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r}; there are {', '.join(row.name for row in self.rows)}")

    @property
    def passed(self) -> bool:
        """Whether no property fails that should hold; one that could not be tried does not fail."""
        return not any(row.fails for row in self.rows)

    def __str__(self) -> str:
        cells = [("property", "holds", "effect", "where")]
        for row in self.rows:
            holds = {True: "yes", False: "no", None: "not tried"}[row.holds]
            effect = "" if row.effect is None else f"{row.effect:.2g}"
            cells.append((row.text, holds + (" !" if row.fails else ""), effect, row.where))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            f"{one:{widths[0]}}  {two:{widths[1]}}  {three:>{widths[2]}}  {four}".rstrip()
            for one, two, three, four in cells
        ]
        failing = [row.name for row in self.rows if row.fails]
        last = f"! not as it should be: {', '.join(failing)}" if failing else "nothing is other than it should be"
        head = f"{self.subject}; {self.backend}, an effect is above {self.tolerance:g}"
        return "\n".join([head, *lines, last])

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers and strings, for JSON; an effect that is infinite is `None`."""
        rows = [dataclasses.asdict(row) for row in self.rows]
        for row in rows:
            row["effect"] = row["effect"] if row["effect"] is None or math.isfinite(row["effect"]) else None
        return {
            "subject": self.subject,
            "backend": self.backend,
            "tolerance": self.tolerance,
            "passed": self.passed,
            "properties": rows,
        }
