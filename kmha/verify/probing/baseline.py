"""What the properties are tried on: the call as it was given, and how far another one departs from it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.probing import scores as attention_scores
from kmha.verify.probing.calls import Outputs, Subject
from kmha.verify.probing.inputs import CannotTry, Inputs
from kmha.verify.probing.report import Property
from kmha.verify.wording import error_text

Keep = Callable[[np.ndarray], np.ndarray | None]


@dataclasses.dataclass(frozen=True)
class Effect:
    """How much something changed, relative to the largest element of the output, and the first place that shows it."""

    size: float = 0.0
    where: str = ""


class Baseline:
    """What the properties are tried on.

    Args:
        subject: what is called.
        inputs: with what.
        tolerance: the largest effect that counts as none.
        rng: of the changes.
        causal: whether the future must not change the past: of all inputs, or of those of these names; `None`: it may.
    """

    def __init__(
        self,
        subject: Subject,
        inputs: Inputs,
        tolerance: float,
        rng: np.random.Generator,
        causal: bool | tuple[str, ...] | None = None,
    ) -> None:
        self.subject, self.inputs, self.tolerance, self.rng, self.causal = subject, inputs, tolerance, rng, causal
        self.results = subject.run(inputs)
        self.scores = attention_scores.among(self.results, inputs)
        self.base = self.outputs(self.results, inputs)
        again = self.run(inputs)
        self.steady = self.effect(again, self.base).size <= tolerance
        self.repeats = True

    def outputs(self, results: Outputs, inputs: Inputs) -> Outputs:
        """Those results that are compared: with a batch axis, and no scores."""
        batched = {name: x for name, x in results.items() if x.ndim and x.shape[0] == inputs.batch}
        return {name: x for name, x in batched.items() if name not in self.scores and x.dtype.kind in "iufVb"}

    def run(self, inputs: Inputs, **options: Any) -> Outputs:
        return self.outputs(self.subject.run(inputs, **options), inputs)

    def effect(self, changed: Outputs, base: Outputs, keep: Keep | None = None) -> Effect:
        """The largest change of any output.

        Args:
            changed: the outputs after a change.
            base: those before.
            keep: says for an output which positions (B, T) or items (B,) are compared; `None` for none of it.
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
        """The row of a property.

        Args:
            name: of the property.
            attempt: gives the effect, and what has it, or a remark.
            expected: whether it should hold.
            varied: whether the attempt's calls have other shapes, or another order, so that not even the same random
                state would have them drop the same.
        """
        if not (self.steady and (self.repeats or not varied)):
            return Property(name, None, None, "two calls differ by themselves", expected)
        try:
            effect, because = attempt()
        except CannotTry as reason:
            return Property(name, None, None, str(reason), expected)
        except Exception as error:  # of the layer's own, which need not take what it is given here
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


def real(inputs: Inputs) -> Callable[[np.ndarray], np.ndarray]:
    """Keeps tokens, where an output has an axis of positions, and everything elsewhere."""
    known = set(inputs.lengths().values())

    def keep(x: np.ndarray) -> np.ndarray:
        return inputs.real(x.shape[1]) if x.ndim > 1 and x.shape[1] in known else np.ones(len(x), bool)

    return keep


def positions(inputs: Inputs, which: Callable[[np.ndarray], np.ndarray]) -> Keep:
    """Keeps those tokens whose positions are `which`, of outputs with an axis of positions, and nothing elsewhere."""

    def keep(x: np.ndarray) -> np.ndarray | None:
        return which(np.arange(x.shape[1])) & inputs.real(x.shape[1]) if x.ndim > 2 else None

    return keep


def shortened(text: str, length: int = 160) -> str:
    """One line of at most so many characters.

    >>> shortened("too long", 5)
    'too …'
    """
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"
