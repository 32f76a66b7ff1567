"""The unchanged call, which is the basis of comparison for every property."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.probing import scores as attention_scores
from kmha.verify.probing.calls import Callee, Outputs
from kmha.verify.probing.inputs import CannotTry, Inputs
from kmha.verify.probing.report import Property
from kmha.verify.wording import error_text

Keep = Callable[[np.ndarray], np.ndarray | None]


@dataclasses.dataclass(frozen=True)
class Effect:
    """The size of a change, relative to the output's largest element, and the first place that shows the change."""

    size: float = 0.0
    where: str = ""


class Baseline:
    """The unchanged call and its outputs, which the outputs of other calls are compared with.

    Args:
        callee: The layer, model or function under test.
        inputs: Inputs of the unchanged call.
        tolerance: Largest effect that counts as no change.
        rng: Random generator for the changes.
        causal: Whether the future must not change the past, or the names of the inputs whose future must not change
            the past. `None` means that the future may change the past.
    """

    def __init__(
        self,
        callee: Callee,
        inputs: Inputs,
        tolerance: float,
        rng: np.random.Generator,
        causal: bool | tuple[str, ...] | None = None,
    ) -> None:
        self.callee, self.inputs, self.tolerance, self.rng, self.causal = callee, inputs, tolerance, rng, causal
        self.results = callee.run(inputs)
        self.scores = attention_scores.among(self.results, inputs)
        self.base = self.outputs(self.results, inputs)
        again = self.run(inputs)
        self.steady = self.effect(again, self.base).size <= tolerance
        self.repeats = True

    def outputs(self, results: Outputs, inputs: Inputs) -> Outputs:
        """Return the results to compare: all results with a batch axis, except scores."""
        batched = {name: x for name, x in results.items() if x.ndim and x.shape[0] == inputs.batch}
        return {name: x for name, x in batched.items() if name not in self.scores and x.dtype.kind in "iufVb"}

    def run(self, inputs: Inputs, **options: Any) -> Outputs:
        return self.outputs(self.callee.run(inputs, **options), inputs)

    def effect(self, changed: Outputs, base: Outputs, keep: Keep | None = None) -> Effect:
        """Return the largest change of any output.

        Args:
            changed: Outputs after a change.
            base: Outputs before the change.
            keep: Function that returns a mask of the positions (B, T) or items (B,) of an output to compare. It
                returns `None` to skip the output.
        """
        worst = Effect()
        for name, old in base.items():
            kept = np.ones(len(old), bool) if keep is None else keep(old)
            if kept is not None:
                found = self._change(name, changed[name], old, kept)
                worst = found if found.size > worst.size else worst
        return worst

    def row(
        self, name: str, attempt: Callable[[], tuple[Effect, str]], expected: bool | None = True, varied: bool = False
    ) -> Property:
        """Try a property, and return the result as a row of the report.

        Args:
            name: Name of the property.
            attempt: Function that returns the effect, and the effect's cause or a remark.
            expected: Whether the property should hold.
            varied: Whether the attempt's calls have other shapes or another order. Dropout then differs even if the
                random state is the same.
        """
        if not (self.steady and (self.repeats or not varied)):
            return Property(name, None, None, "two identical calls give different results", expected)
        try:
            effect, because = attempt()
        except CannotTry as reason:
            return Property(name, None, None, str(reason), expected)
        except Exception as error:  # raised by the layer, which may not accept this change
            return Property(name, None, None, f"the call raised {shortened(error_text(error))}", expected)
        where = f"{effect.where} changes {because}" if effect.where else because
        return Property(name, effect.size <= self.tolerance, effect.size, where, expected)

    def _change(self, name: str, new: np.ndarray, old: np.ndarray, kept: np.ndarray) -> Effect:
        if new.shape != old.shape:
            return Effect(float("inf"), f"the shape of {name}")
        new, old = new.astype("float64"), old.astype("float64")
        largest = float(np.max(np.abs(old), where=np.isfinite(old), initial=0.0)) or 1.0
        same = (new == old) | (np.isnan(new) & np.isnan(old))
        with np.errstate(invalid="ignore"):
            relative = np.where(same, 0.0, np.abs(new - old) / largest)
        relative = np.where(np.isnan(relative), np.inf, relative)
        relative = np.where(kept.reshape(*kept.shape, *[1] * (old.ndim - kept.ndim)), relative, 0.0)
        found = np.argwhere(relative > self.tolerance)
        where = f"{name}[{', '.join(map(str, found[0][:2]))}]" if len(found) else ""
        return Effect(float(relative.max(initial=0.0)), where)


def keep_tokens(inputs: Inputs) -> Callable[[np.ndarray], np.ndarray]:
    """Return a filter that keeps the tokens of outputs with an axis of positions, and all of other outputs."""
    known = set(inputs.lengths().values())

    def keep(x: np.ndarray) -> np.ndarray:
        return inputs.token_mask(x.shape[1]) if x.ndim > 1 and x.shape[1] in known else np.ones(len(x), bool)

    return keep


def keep_positions(inputs: Inputs, which: Callable[[np.ndarray], np.ndarray]) -> Keep:
    """Return a filter that keeps the tokens at positions `which` of outputs with positions, and no other outputs."""

    def keep(x: np.ndarray) -> np.ndarray | None:
        return which(np.arange(x.shape[1])) & inputs.token_mask(x.shape[1]) if x.ndim > 2 else None

    return keep


def shortened(text: str, length: int = 160) -> str:
    """Join the lines of `text`, and truncate the result to `length` characters.

    >>> shortened("too long", 5)
    'too …'
    """
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"
