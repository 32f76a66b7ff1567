"""Report a diagnosis: the distances of each call, notes, a picture of the difference, and the whole report as JSON."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from kmha.verify.chains.blocks import EPSILON
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.conventions import BATCH, HEADS
from kmha.verify.diagnosing.diagnosis import KNOWN, RAISES, UNKNOWN, Diagnosis
from kmha.verify.diagnosing.unknown_mistakes import plainness
from kmha.verify.mistakes import Mistake


@dataclasses.dataclass(frozen=True, eq=False)
class DifferenceMap:
    """A matrix of absolute differences, to be drawn as a picture.

    Attributes:
        title: Title of the picture.
        values: Differences of scores (T, S), or of the output (T, E).
        columns: What the columns are, such as "key positions". The rows are query positions.
    """

    title: str
    values: np.ndarray
    columns: str


def distances(found: Diagnosis) -> list[dict[str, Any]]:
    """Return each call's distances from the right answer, the mistakes found and the nearest others, or its error.

    A distance is `None` if it is infinite, because the shapes or the places of NaN and infinity differ.
    """
    explanations: dict[str, Any] = {"from_right": ()}
    if found.mistakes:
        explanations["from_found"] = found.mistakes
    if found.nearest:
        explanations["from_nearest"] = found.nearest.mistakes
    rows = []
    for result in found.results:
        far = {name: matching.distance(result, mistakes) for name, mistakes in explanations.items()}
        finite = {name: each if np.isfinite(each) else None for name, each in far.items()}
        rows.append({"call": result.trial.name, "raised": result.answer.error or None, **finite})
    return rows


def table_rows(found: Diagnosis) -> list[dict[str, Any]]:
    """Return each call and its distances as texts for a table."""
    return [
        {"call": row["call"], "distances": [_distance_text(row[name], row["raised"]) for name in list(row)[2:]]}
        for row in distances(found)
    ]


def _distance_text(far: float | None, error: str | None) -> str:
    return "raises" if error else "∞" if far is None else "0" if far == 0 else f"{far:.1e}"


def difference_map(found: Diagnosis) -> DifferenceMap | None:
    """Return the differences of the scores, or else of the output, from the right answer in the simplest wrong call."""
    wrong = [result for result in found.results if not result.answer.error and result.wrong]
    wrong = [result for result in wrong if not result.trial.training and result.trial.chain == "attention"]
    if not wrong:
        return None
    result = min(wrong, key=plainness)
    state = result.right
    if result.answer.scores is not None and result.answer.scores.shape == np.shape(state["returned"]):
        difference, columns = np.abs(result.answer.scores - state["returned"]), "key positions"
        if difference.max() > result.limit:
            item, head = np.unravel_index(np.nan_to_num(difference).max(axis=(2, 3)).argmax(), difference.shape[:2])
            title = f"{result.trial.name}: difference of the scores in item {item}, head {head} (counted from 0)"
            return _drawable(DifferenceMap(title, difference[item, head], columns))
    output = np.asarray(result.answer.output)
    if output.shape != state["output"].shape:
        return None
    difference = np.abs(output - state["output"])
    largest = np.nan_to_num(difference).reshape(len(difference), -1).max(axis=1)
    item = int(largest.argmax())
    values = difference[item] if difference.ndim == 3 else difference[item, 0]
    title = f"{result.trial.name}: difference of the output in item {item} (counted from 0)"
    return _drawable(DifferenceMap(title, values, "features"))


def _drawable(difference: DifferenceMap) -> DifferenceMap | None:
    """Replace NaN and infinity, which have no colour, by 0. Return `None` if no difference is left to show."""
    values = np.nan_to_num(difference.values, nan=0.0, posinf=0.0)
    return dataclasses.replace(difference, values=values) if values.max() > 0 else None


def sizes_text(found: Diagnosis) -> str:
    """Return the sizes of the calls as text."""
    if not found.candidate.core:
        return str(found.sizes)
    heads = f", H={found.sizes.heads}" if found.convention.entry == HEADS else ""
    return f"B={found.sizes.batch}, T={found.sizes.rows}, S={found.sizes.columns}{heads}, O={found.sizes.size}"


def call_text(found: Diagnosis) -> str:
    """Describe the parts of the candidate's calling convention that its signature does not show."""
    convention, accepts = found.convention, found.candidate.accepts
    entry = convention.entry if convention.entry != BATCH or not found.candidate.core else "(B, P, O)"
    parts = [f"inputs {entry}".replace("(P, I)", "(P, O)") if found.candidate.core else f"inputs {entry}"]
    meaning = {"attends": "True attends", "hides": "True hides", "adds": "0 attends and -1e9 hides"}
    if accepts.mask:
        parts.append(f"a mask ({convention.mask_shape.replace(',', ', ')}) in which {meaning[found.candidate.meaning]}")
    if accepts.padding:
        parts.append(f"a padding mask ({convention.padding_shape.replace(',', ', ')})")
    return f"kmha called it with {', '.join(parts)}, in {convention.dtype}."


def notes(found: Diagnosis) -> list[str]:
    """Return sentences about all other findings."""
    lines = []
    if found.verdict == KNOWN:
        worst = max(match.distance for match in found.matches[:1])
        made = "these mistakes" if len(found.mistakes) > 1 else "this mistake"
        lines.append(f"Making {made} in the reference reproduces your numbers to within {max(worst, 1e-16):.0e}.")
        others = [" and ".join(match.ids) for match in found.matches[1:]]
        if others:
            lines.append(f"For this candidate, these mistakes would give the same numbers: {'; '.join(others[:6])}.")
    if any("mask-inverted" in match.ids for match in found.matches) and found.candidate.meaning == "attends":
        lines.append("If True (or 1) in your mask is meant to hide, say so with mask='hides' or --mask hides.")
    if found.verdict == UNKNOWN and found.clue:
        lines += [f"First wrong step: {found.clue.step}."] if found.clue.step else []
        lines += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in found.clue.pattern]
    if found.verdict == RAISES:
        return lines
    if found.candidate.chain == "attention":
        lines.append(call_text(found))
        if not found.candidate.core and found.candidate.weights_present(found.results[0].trial) == frozenset():
            lines.append("It has no weights, so kmha compared it with attention without projections.")
        if found.convention.causal:
            lines.append("It is causal without being asked. kmha assumes that this is intended.")
    epsilon = found.results[0].trial.more.get("epsilon", EPSILON)
    if epsilon != EPSILON:
        lines.append(f"kmha assumes that the epsilon of its normalizations, {epsilon:g}, is intended.")
    if found.wrong_layout:
        lines.append(
            f"It also runs with inputs {found.wrong_layout}, and is wrong there. "
            "kmha assumes that it is not meant for them."
        )
    if found.in_float16:
        lines.append(_float16(found.in_float16))
    by_error: dict[str, list[str]] = {}
    for name, error in found.errors.items():
        by_error.setdefault(error, []).append(name)
    return lines + [
        f"It raises an error ({error}) in these calls: {'; '.join(names)}." for error, names in by_error.items()
    ]


def _float16(half: Diagnosis) -> str:
    if half.mistakes:
        mistakes = "; ".join(f"{mistake.id}: {mistake.says}" for mistake in half.mistakes)
        return f"In float16 it is wrong, with {mistakes}"
    return f"In float16 it is wrong in these calls: {'; '.join(half.wrong)}."


def to_dict(found: Diagnosis) -> dict[str, Any]:
    """Return the whole diagnosis as plain data, for JSON."""
    nearest = found.nearest
    return {
        "candidate": found.name,
        "verdict": found.verdict,
        "mistakes": _mistakes(found.mistakes),
        "same_function": [list(match.ids) for match in found.matches[1:]],
        "nearest": nearest
        and {
            "ids": list(nearest.ids),
            "distance": nearest.distance if np.isfinite(nearest.distance) else None,
            "explains": nearest.trials,
        },
        "in_float16": found.in_float16 and _mistakes(found.in_float16.mistakes),
        "calls": distances(found),
        "sizes": dataclasses.asdict(found.sizes),
        "convention": {**dataclasses.asdict(found.convention), "weights": str(found.convention.weights)},
        "seed": found.seed,
        "first_step": (found.clue.step or None) if found.clue else None,
        "pattern": list(found.clue.pattern) if found.clue else [],
        "notes": notes(found),
        "code": found.code(),
    }


def _mistakes(mistakes: Iterable[Mistake]) -> list[dict[str, str]]:
    return [{name: getattr(mistake, name) for name in ("id", "says", "look", "source")} for mistake in mistakes]
