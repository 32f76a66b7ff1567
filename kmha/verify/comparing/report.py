"""What a comparison found: a row for each feature, the failures, and code that shows the smallest one."""

import dataclasses
import math
from typing import Any

from kmha.verify import tolerance
from kmha.verify.comparing.cases import Case

Against = str  # "built-in" or "reference"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One difference: of one result, in one mode, against the built-in layer or the reference.

    Attributes:
        case: what was run.
        mode: "eager", "graph" or "xla".
        against: "built-in" or "reference".
        result: "output", "scores", "d query" for the query's gradient, and so on.
        absolute: the largest absolute difference.
        relative: the same, relative to the largest element.
        said: what an error said, or what else is wrong; "" if nothing.
        explained: where the layer does what the built-in does, and that is wrong: which of the known differences it is.
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
class Row:
    """All cases with one feature.

    Attributes:
        feature: one of `FEATURES`, a dtype, or `AS_THE_BUILTIN`.
        tolerance: the largest relative difference that agrees.
        cases: how many there are.
        raised: in how many the layer raised an error.
        absolute: the largest absolute difference, against the built-in and the reference.
        relative: the largest relative one.
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
                continue  # both raised: nothing was computed
            self.absolute[found.against] = max(self.absolute.get(found.against, 0.0), found.absolute)
            self.relative[found.against] = max(self.relative.get(found.against, 0.0), found.relative)


@dataclasses.dataclass
class Report:
    """The whole comparison; `agrees` is its verdict.

    The rows of features hold the cases in `dtype`; those in another have a row for it.
    """

    layer: str
    backend: str
    seed: int
    dtype: str
    cases: int = 0
    rows: dict[str, Row] = dataclasses.field(default_factory=dict)
    failures: list[Measurement] = dataclasses.field(default_factory=list)
    smallest: Case | None = None
    smallest_failures: list[Measurement] = dataclasses.field(default_factory=list)
    interrupted: bool = False

    @property
    def agrees(self) -> bool:
        return not self.failures

    def add(self, case: Case, measurements: list[Measurement]) -> None:
        """Adds a case to the rows of its features."""
        self.cases += 1
        self.failures += [found for found in measurements if not found.agrees]
        named = features(case, {found.mode for found in measurements}) if case.dtype == self.dtype else [case.dtype]
        if any(found.explained for found in measurements):
            named = [AS_THE_BUILTIN]
        for feature in named:
            row = self.rows.setdefault(feature, Row(feature, tolerance.relative(case.dtype)))
            row.tolerance = max(row.tolerance, tolerance.relative(case.dtype))
            row.add([found for found in measurements if found.mode == "xla" or feature != COMPILED])

    def table(self) -> list[Row]:
        """The rows in the order of `FEATURES`, then the other dtypes."""
        order = [*FEATURES, *tolerance.RELATIVE, AS_THE_BUILTIN]
        return sorted(self.rows.values(), key=lambda row: order.index(row.feature.removeprefix("mixed_")))

    def code(self) -> str:
        """Code to paste that shows the smallest failing case; "" if nothing failed."""
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
        """Everything as numbers and strings, for JSON; a difference that is infinite is `None`."""
        return {
            "layer": self.layer,
            "backend": self.backend,
            "seed": self.seed,
            "dtype": self.dtype,
            "cases": self.cases,
            "agrees": self.agrees,
            "interrupted": self.interrupted,
            "rows": [{**_finite(dataclasses.asdict(row)), "agrees": row.agrees} for row in self.table()],
            "failures": [_finite(dataclasses.asdict(found)) for found in self.failures],
            "smallest": None if self.smallest is None else dataclasses.asdict(self.smallest),
            "code": self.code(),
        }


COMPILED = "compiled by XLA"
AS_THE_BUILTIN = "as the built-in, where it errs"
FEATURES = (
    "plain",
    "self-attention",
    "key of its own",
    "value_dim, output_shape",
    "no biases",
    "gate",
    "attention mask",
    "padding masks, given",
    "padding masks, carried",
    "causal mask",
    "sliding window",
    "rows attending to nothing",
    "dropout in training",
    "attention scores",
    "attention_axes, higher rank",
    "in blocks",
    COMPILED,
)


def features(case: Case, modes: set[str]) -> list[str]:
    """Which of `FEATURES` a case has; "plain" if it has no other."""
    carried = any(name.startswith("+") for name in case.paddings)
    present = {
        "self-attention": case.self_attention,
        "key of its own": case.widths[2] > 0,
        "value_dim, output_shape": case.value_dim is not None or case.output_shape is not None,
        "no biases": not case.use_bias,
        "gate": case.use_gate,
        "attention mask": case.mask != "",
        "padding masks, given": bool(case.paddings) and not carried,
        "padding masks, carried": carried,
        "causal mask": case.use_causal_mask,
        "sliding window": case.sliding_window is not None,
        "rows attending to nothing": case.mask != "" and case.empty,
        "dropout in training": case.dropout > 0 and case.training,
        "attention scores": case.return_scores,
        "attention_axes, higher rank": case.rank > 3,
        "in blocks": case.path != "",
        COMPILED: "xla" in modes,
    }
    return [name for name, has in present.items() if has] or [FEATURES[0]]


def _call(case: Case) -> str:
    """The call of a case in words: shapes and flags."""
    parts = [f"{name} {array.shape}" for name, array in case.inputs().items()]
    parts += ["value=query"] if case.self_attention else []
    parts += [f"{name} {mask.shape}" for name, mask in case.masks().items()]
    parts += [f"{name}={value}" for name, value in case.call_flags().items() if value]
    return "called with " + ", ".join(parts)


def _finite(values: Any) -> Any:
    """`values` with infinities as `None`, which JSON has."""
    if isinstance(values, dict):
        return {name: _finite(value) for name, value in values.items()}
    return None if isinstance(values, float) and not math.isfinite(values) else values
