"""The state of a training run in one file: written at every check, it is all that the next start needs."""

import dataclasses
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kmha.files import write_bytes

JOURNAL = "journal"

Row = dict[str, float]


class CheckpointError(ValueError):
    """A state cannot be read, or is of another model."""


@dataclasses.dataclass
class Journal:
    """What a run knows of itself besides its variables.

    Attributes:
        step: how many batches were learnt from; the position in the data too, which is a function of seed and step.
        seconds: of all sessions up to the last check.
        rows: the history, a row for each check.
        samples: what the model made of a few sentences, a text for each check.
        best_step: of the check with the best score.
        best: that score; more is better.
        waited: checks since then.
        check: seconds that the longest check took.
        ended: why training ended: `steps`, `patience` or `minutes`; empty while it goes on.
    """

    step: int = 0
    seconds: float = 0.0
    rows: list[Row] = dataclasses.field(default_factory=list)
    samples: list[str] = dataclasses.field(default_factory=list)
    best_step: int = 0
    best: float | None = None
    waited: int = 0
    check: float = 0.0
    ended: str = ""


def save(path: Path, task: Any, journal: Journal) -> None:
    """Writes weights, optimizer and seeds of `task`, and the journal, in place of what was there before.

    The random state that a step uses is all in variables: dropout draws from `keras.random.SeedGenerator`, whose state
    is among `task.variables`, and the data from (seed, step). A process killed while it writes leaves the state before.
    """
    arrays = {name: np.asarray(variable.numpy()) for name, variable in _variables(task)}
    arrays[JOURNAL] = np.frombuffer(json.dumps(dataclasses.asdict(journal)).encode(), "uint8")
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    write_bytes(path, data.getvalue())


def load(path: Path, task: Any) -> Journal:
    """Gives `task`, whose optimizer is built, the state that `save` wrote; returns the journal.

    Raises:
        CheckpointError: the file is broken, or of another model.
    """
    try:
        # Of bytes, for NumPy leaves a file that is broken open.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        journal = Journal(**json.loads(arrays.pop(JOURNAL).tobytes()))
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} cannot be read ({error}). Start from the beginning with --restart.") from None
    variables = dict(_variables(task))
    shapes = [{name: tuple(one.shape) for name, one in all_of.items()} for all_of in (variables, arrays)]
    if shapes[0] != shapes[1]:
        different = sorted(name for name in {**variables, **arrays} if shapes[0].get(name) != shapes[1].get(name))
        raise CheckpointError(
            f"{path} is of another model: {different[0]} has shape {shapes[1].get(different[0])} there and "
            f"{shapes[0].get(different[0])} here. Start from the beginning with --restart."
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return journal


def _variables(task: Any) -> Iterator[tuple[str, Any]]:
    """By position, for names may be numbered differently in another process."""
    for kind, variables in (("model", task.variables), ("optimizer", task.optimizer.variables)):
        for number, variable in enumerate(variables):
            yield f"{kind}/{number:04d}", variable
