"""The results of probes: a row for each property, as a table and as a dict."""

import dataclasses
import math
from typing import Any

TEXTS = {
    "finite": "the output is finite",
    "repeats": "two calls with training=False agree",
    "causal": "the future does not change the past",
    "padding": "padded tokens change nothing",
    "padding_length": "more padding changes nothing",
    "batch_order": "the order of the batch changes nothing",
    "batch_size": "the other items of the batch change nothing",
    "rows": "rows of scores sum to one",
    "gradient": "gradient reaches every weight",
}


@dataclasses.dataclass(frozen=True)
class Property:
    """The result of trying one property.

    Attributes:
        name: A key of `TEXTS`, or "causal: NAME" where several inputs could be causal.
        holds: Whether the property holds, or `None` if it could not be tried.
        effect: Largest change, relative to the largest element of the output. For "rows", the largest distance of a sum
            from one. For "gradient", the smallest gradient of a weight relative to the largest gradient.
        where: First place that shows the effect, the reason why the property could not be tried, or a remark.
        expected: Whether the property should hold, or `None` if the user has to judge.
    """

    name: str
    holds: bool | None
    effect: float | None = None
    where: str = ""
    expected: bool | None = True

    @property
    def text(self) -> str:
        """The property as a clause for the table.

        >>> Property("causal: target", True).text
        'the future does not change the past (target)'
        """
        name, _, of = self.name.partition(": ")
        return TEXTS[name] + (f" ({of})" if of else "")

    @property
    def fails(self) -> bool:
        """True if the property should hold but does not."""
        return self.expected is True and self.holds is False


@dataclasses.dataclass(frozen=True)
class Probes:
    """The results of `kmha.verify.probe`, which `print` shows as a table.

    Attributes:
        subject: Description of the layer, model or function that was probed, and of the inputs.
        backend: Name of Keras' backend.
        tolerance: Largest effect that counts as no change.
        rows: Results of the properties.
    """

    subject: str
    backend: str
    tolerance: float
    rows: tuple[Property, ...]

    def __getitem__(self, name: str) -> Property:
        """Return the row of that name.

        Raises:
            KeyError: There is no row of that name.
        """
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"there is no property {name!r}. The properties are {', '.join(row.name for row in self.rows)}")

    @property
    def passed(self) -> bool:
        """True if every property that should hold does hold. A property that could not be tried counts as holding."""
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
        failed = f"! should hold but does not: {', '.join(failing)}"
        last = failed if failing else "every property that should hold does"
        head = f"{self.subject}; {self.backend}; effects up to {self.tolerance:g} count as none"
        return "\n".join([head, *lines, last])

    def to_dict(self) -> dict[str, Any]:
        """Return all results as numbers and strings for JSON, with `None` for an infinite effect."""
        rows = [dataclasses.asdict(row) for row in self.rows]
        for row in rows:
            row["effect"] = row["effect"] if row["effect"] is None or math.isfinite(row["effect"]) else None
        fields = ("subject", "backend", "tolerance", "passed")
        return {**{name: getattr(self, name) for name in fields}, "properties": rows}
