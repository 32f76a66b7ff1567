"""What a diagnosis rests on: how far each call's numbers are, where they differ, and all of it as plain data."""

import dataclasses
from typing import Any

import numpy as np

from kmha.verify import matching
from kmha.verify.chain import run
from kmha.verify.diagnosis import KNOWN, RAISES, UNKNOWN, Diagnosis
from kmha.verify.matching import Asked


@dataclasses.dataclass(frozen=True, eq=False)
class Where:
    """A matrix of absolute differences, to be drawn.

    Attributes:
        title: what it is.
        values: (T, S) of scores, or (T, E) of the output.
        rows, columns: what its axes are.
    """

    title: str
    values: np.ndarray
    rows: str
    columns: str


def rows(found: Diagnosis) -> list[dict[str, Any]]:
    """For each call: the distance from right, from what was found, and from the next best."""
    others = [found.mistakes, found.nearest.mistakes if found.nearest else ()]
    explanations = [(), *filter(None, others)]
    return [{"call": one.trial.name, "distances": [_far(one, each) for each in explanations]} for one in found.asked]


def _far(one: Asked, mistakes: Any) -> str:
    if one.answer.raised:
        return "not tried" if one.answer.raised.startswith("ValueError: not tried") else "raises"
    far = matching.distance(one, mistakes)
    return "0" if far == 0 else f"{far:.1e}" if np.isfinite(far) else "∞"


def where(found: Diagnosis) -> Where | None:
    """Where the scores differ from the right ones, or the output if there are none: of the simplest wrong call."""
    wrong = [one for one in found.asked if not one.answer.raised and matching.distance(one) > one.limit]
    wrong = [one for one in wrong if not one.trial.training and one.trial.chain == "attention"]
    if not wrong:
        return None
    one = min(wrong, key=lambda each: (each.trial.dtype != "float64", each.trial.query.size))
    state = run(one.trial)
    if one.answer.scores is not None and one.answer.scores.shape == np.shape(state["returned"]):
        difference, columns = np.abs(one.answer.scores - state["returned"]), "key positions"
        if difference.max() > one.limit:
            item, head = np.unravel_index(np.nan_to_num(difference).max(axis=(2, 3)).argmax(), difference.shape[:2])
            title = f"{one.trial.name}: by how much the scores of item {item}, head {head} differ (counted from 0)"
            return _finite(Where(title, difference[item, head], "query positions", columns))
    output = np.asarray(one.answer.output)
    if output.shape != state["output"].shape:
        return None
    difference = np.abs(output - state["output"])
    largest = np.nan_to_num(difference).reshape(len(difference), -1).max(axis=1)
    item = int(largest.argmax())
    values = difference[item] if difference.ndim == 3 else difference[item, 0]
    title = f"{one.trial.name}: by how much the output of item {item} differs (counted from 0)"
    return _finite(Where(title, values, "query positions", "features"))


def _finite(where: Where) -> Where | None:
    """A picture has no colour for NaN, and needs something to show."""
    values = np.nan_to_num(where.values, nan=0.0, posinf=0.0)
    return dataclasses.replace(where, values=values) if values.max() > 0 else None


def notes(found: Diagnosis) -> list[str]:
    """Sentences on what else was seen."""
    lines = []
    others = [" and ".join(match.ids) for match in found.matches[1:]]
    if found.verdict == KNOWN:
        worst = max(match.distance for match in found.matches[:1])
        lines.append(f"With this made on purpose, the reference gives the same numbers to {max(worst, 1e-16):.0e}.")
        if others:
            lines.append(f"In what it can be called with, these are the same function: {'; '.join(others[:6])}.")
    if found.convention.causal and found.subject.chain == "attention":
        lines.append("It is causal without being asked to be, and is taken to be meant so.")
    if found.verdict == UNKNOWN and found.clue:
        lines.append(f"The first step that departs: {found.clue.step}.")
        lines += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in found.clue.pattern]
    if found.verdict != RAISES:
        by_error: dict[str, list[str]] = {}
        for name, error in found.raised.items():
            by_error.setdefault(error.removeprefix("ValueError: not tried: "), []).append(name)
        lines += [f"Not tried ({error}): {'; '.join(names)}." for error, names in by_error.items()]
    return lines


def to_dict(found: Diagnosis) -> dict[str, Any]:
    """All of it, for JSON."""
    return {
        "candidate": found.name,
        "verdict": found.verdict,
        "mistakes": [
            {"id": mistake.id, "says": mistake.says, "look": mistake.look, "source": mistake.source}
            for mistake in found.mistakes
        ],
        "same_function": [list(match.ids) for match in found.matches[1:]],
        "nearest": found.nearest
        and {"ids": list(found.nearest.ids), "distance": found.nearest.distance, "explains": found.nearest.trials},
        "calls": rows(found),
        "sizes": dataclasses.asdict(found.sizes),
        "seed": found.seed,
        "first_step": found.clue.step if found.clue else None,
        "pattern": list(found.clue.pattern) if found.clue else [],
        "notes": notes(found),
        "code": found.code(),
    }
