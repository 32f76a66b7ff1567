"""The picture of a diagnosis: a matrix of the differences from the right answer."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from kmha.verify.diagnosing.unknown_mistakes import plainness

if TYPE_CHECKING:
    from kmha.verify.diagnosing.diagnosis import Diagnosis

LARGEST = 24  # maximum number of rows and columns of a picture


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


def difference_map(found: "Diagnosis") -> DifferenceMap | None:
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
            return _drawable(DifferenceMap(title, difference[item, head], columns), result.limit)
    output = np.asarray(result.answer.output)
    if output.shape != state["output"].shape:
        return None
    difference = np.abs(output - state["output"])
    largest = np.nan_to_num(difference).reshape(len(difference), -1).max(axis=1)
    item = int(largest.argmax())
    values = difference[item] if difference.ndim == 3 else difference[item, 0]
    title = f"{result.trial.name}: difference of the output in item {item} (counted from 0)"
    return _drawable(DifferenceMap(title, values, "features"), result.limit)


def _drawable(difference: DifferenceMap, limit: float) -> DifferenceMap | None:
    """Replace NaN and infinity, which have no colour, by 0. Return `None` if only rounding is left to show."""
    values = np.nan_to_num(difference.values, nan=0.0, posinf=0.0)[:LARGEST, :LARGEST]
    return dataclasses.replace(difference, values=values) if values.max() > limit else None
