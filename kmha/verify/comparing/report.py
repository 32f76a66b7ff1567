"""The results of a comparison: a row for each feature, the failures, and code that shows the smallest failing case."""

import dataclasses
import math
from typing import Any

from kmha.verify import tolerance
from kmha.verify.comparing.cases import Case

Against = str  # "built-in" or "reference"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The difference of one result in one mode from the built-in layer or the reference.

    Attributes:
        case: Case that was run.
        mode: "eager", "graph" or "xla".
        against: "built-in" or "reference".
        result: "output", "scores", "d query" for the query's gradient, and so on.
        absolute: Largest absolute difference.
        relative: Largest absolute difference divided by the largest element.
        said: Text of an error or of another fault, or "" if there is no fault.
        explained: Name of a known fault of the built-in that the layer shares, if this fault explains the difference.
    """

    case: Case
    mode: str
    against: Against
    result: str
    absolute: float
    relative: float
    said: str = ""
    explained: str = ""

    @property
    def agrees(self) -> bool:
        return self.relative <= tolerance.relative(self.case.dtype)


@dataclasses.dataclass
class FeatureRow:
    """A row of the table, which summarizes all cases with one feature.

    Attributes:
        feature: One of `FEATURES`, a dtype, or `AS_THE_BUILTIN`.
        tolerance: Largest relative difference that counts as agreement.
        cases: Number of cases with the feature.
        raised: Number of cases in which the layer raised an error.
        absolute: Largest absolute difference from the built-in and from the reference.
        relative: Largest relative difference from the built-in and from the reference.
    """

    feature: str
    tolerance: float
    cases: int = 0
    raised: int = 0
    absolute: dict[Against, float] = dataclasses.field(default_factory=dict)
    relative: dict[Against, float] = dataclasses.field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        return all(value <= self.tolerance for value in self.relative.values())

    def add(self, measurements: list[Measurement]) -> None:
        self.cases += 1
        self.raised += any(found.result == "all" for found in measurements)
        for found in measurements:
            if found.result == "all" and found.agrees:
                continue  # both layers raised an error, so nothing was computed
            self.absolute[found.against] = max(self.absolute.get(found.against, 0.0), found.absolute)
            self.relative[found.against] = max(self.relative.get(found.against, 0.0), found.relative)


@dataclasses.dataclass
class Report:
    """The results of a whole comparison. `agrees` is the verdict.

    A feature's row counts the cases in `dtype` alone. Cases in another dtype are counted in the row of that dtype.
    """

    layer: str
    backend: str
    seed: int
    dtype: str
    cases: int = 0
    rows: dict[str, FeatureRow] = dataclasses.field(default_factory=dict)
    failures: list[Measurement] = dataclasses.field(default_factory=list)
    smallest: Case | None = None
    smallest_failures: list[Measurement] = dataclasses.field(default_factory=list)
    interrupted: bool = False

    @property
    def agrees(self) -> bool:
        return not self.failures

    def add(self, case: Case, measurements: list[Measurement]) -> None:
        """Add a case to the rows of its features."""
        self.cases += 1
        self.failures += [found for found in measurements if not found.agrees]
        named = features(case, {found.mode for found in measurements}) if case.dtype == self.dtype else [case.dtype]
        if any(found.explained for found in measurements):
            named = [AS_THE_BUILTIN]
        for feature in named:
            row = self.rows.setdefault(feature, FeatureRow(feature, tolerance.relative(case.dtype)))
            row.tolerance = max(row.tolerance, tolerance.relative(case.dtype))
            row.add([found for found in measurements if found.mode == "xla" or feature != COMPILED])

    def table(self) -> list[FeatureRow]:
        """Return the rows in the order of `FEATURES`, then the other dtypes."""
        order = [*FEATURES, *tolerance.RELATIVE, AS_THE_BUILTIN]
        return sorted(self.rows.values(), key=lambda row: order.index(row.feature.removeprefix("mixed_")))

    def code(self) -> str:
        """Return code that shows the smallest failing case, ready to paste, or "" if nothing failed."""
        if self.smallest is None:
            return ""
        module, _, name = self.layer.rpartition(".")
        imported = f"from {module} import {name}\n" if "<locals>" not in module else ""
        changed = ", ".join(
            f"{field.name}={getattr(self.smallest, field.name)!r}"
            for field in dataclasses.fields(Case)
            if getattr(self.smallest, field.name) != field.default
        )
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.smallest.arguments().items())
        result = next((found.result for found in self.smallest_failures), "output")
        shown = f"[{result!r}]" if result != "all" else ""
        masks = "print('masks', case.masks())\n" if self.smallest.masks() else ""
        return (
            f"import keras\n{imported}from kmha.verify import Case, expect, run\n\n"
            f"case = Case({changed})\n# {name}({arguments})\n"
            f"# {_call(self.smallest)}\n"
            f"{masks}print('reference', expect(case){shown})\n"
            f"print('built-in', run(keras.layers.MultiHeadAttention, case){shown})\n"
            f"print({name!r}, run({name}, case){shown})\n"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as numbers and strings for JSON, with `None` for an infinite difference."""
        fields = ("layer", "backend", "seed", "dtype", "cases", "agrees", "interrupted")
        return {
            **{name: getattr(self, name) for name in fields},
            "rows": [{**_finite(dataclasses.asdict(row)), "agrees": row.agrees} for row in self.table()],
            "failures": [_finite(dataclasses.asdict(found)) for found in self.failures],
            "smallest": None if self.smallest is None else dataclasses.asdict(self.smallest),
            "code": self.code(),
        }


COMPILED = "compiled by XLA"
AS_THE_BUILTIN = "wrong like the built-in"
FEATURES = (
    "plain",
    "self-attention",
    "separate key",
    "value_dim, output_shape",
    "no biases",
    "gate",
    "attention mask",
    "explicit padding masks",
    "padding masks on tensors",
    "causal mask",
    "sliding window",
    "rows attending to nothing",
    "dropout in training",
    "attention scores",
    "attention_axes, higher rank",
    "blocked attention",
    COMPILED,
)


def features(case: Case, modes: set[str]) -> list[str]:
    """Return the `FEATURES` that a case has, or "plain" alone if the case has no other feature."""
    carried = any(name.startswith("+") for name in case.paddings)
    present = {
        "self-attention": case.self_attention,
        "separate key": case.widths[2] > 0,
        "value_dim, output_shape": case.value_dim is not None or case.output_shape is not None,
        "no biases": not case.use_bias,
        "gate": case.use_gate,
        "attention mask": case.mask != "",
        "explicit padding masks": bool(case.paddings) and not carried,
        "padding masks on tensors": carried,
        "causal mask": case.use_causal_mask,
        "sliding window": case.sliding_window is not None,
        "rows attending to nothing": case.mask != "" and case.empty,
        "dropout in training": case.dropout > 0 and case.training,
        "attention scores": case.return_scores,
        "attention_axes, higher rank": case.rank > 3,
        "blocked attention": case.path != "",
        COMPILED: "xla" in modes,
    }
    return [name for name, has in present.items() if has] or [FEATURES[0]]


def _call(case: Case) -> str:
    """Describe the call of a case: its shapes and flags."""
    parts = [f"{name} {array.shape}" for name, array in case.inputs().items()]
    parts += ["value=query"] if case.self_attention else []
    parts += [f"{name} {mask.shape}" for name, mask in case.masks().items()]
    parts += [f"{name}={value}" for name, value in case.call_flags().items() if value]
    return "called with " + ", ".join(parts)


def _finite(values: Any) -> Any:
    """Replace infinities by `None`, because JSON has no infinity."""
    if isinstance(values, dict):
        return {name: _finite(value) for name, value in values.items()}
    return None if isinstance(values, float) and not math.isfinite(values) else values
