"""The state of a training run in one file, from which the run can be resumed."""

import dataclasses
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kmha.atomic_files import write_bytes

JOURNAL = "journal"

HistoryRow = dict[str, float]


class CheckpointError(ValueError):
    """Raised for a state that cannot be read, or that belongs to another model."""


@dataclasses.dataclass
class Journal:
    """The state of a run besides its variables."""

    step: int = 0  # number of batches so far, and so the position in the data, which depends only on seed and step
    seconds: float = 0.0  # of all sessions up to the last check
    rows: list[HistoryRow] = dataclasses.field(default_factory=list)  # one for each check
    samples: list[str] = dataclasses.field(default_factory=list)  # translations of a few sentences for each check
    best_step: int = 0  # of the check with the best score
    best: float | None = None  # that score; higher is better
    waited: int = 0  # number of checks since then
    check: float = 0.0  # seconds of the longest check
    ended: str = ""  # steps, patience, minutes or diverged; empty while training continues


def save(path: Path, task: Any, journal: Journal) -> None:
    """Write weights, optimizer and seeds of `task`, and the journal, over the previous state.

    All random state that a step uses is in variables: dropout draws from `keras.random.SeedGenerator`, whose state is
    among `task.variables`, and the data depend on (seed, step). If the process is killed while it writes, the previous
    state remains.
    """
    arrays = {name: np.asarray(variable.numpy()) for name, variable in _variables(task)}
    arrays[JOURNAL] = np.frombuffer(json.dumps(dataclasses.asdict(journal)).encode(), "uint8")
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    write_bytes(path, data.getvalue())


def load(path: Path, task: Any) -> Journal:
    """Give `task`, whose optimizer is built, the state that `save` wrote, and return the journal.

    Raises:
        CheckpointError: The file is broken, or belongs to another model.
    """
    try:
        # Read from bytes, because NumPy does not close a broken file.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        journal = Journal(**json.loads(arrays.pop(JOURNAL).tobytes()))
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} cannot be read ({error}). Start again with --restart.") from None
    variables = dict(_variables(task))
    expected, received = ({name: tuple(one.shape) for name, one in group.items()} for group in (variables, arrays))
    if expected != received:
        name = min(name for name in {**expected, **received} if expected.get(name) != received.get(name))
        raise CheckpointError(
            f"{path} belongs to another model: {name} has shape {received.get(name)} there and {expected.get(name)} "
            "here. Start again with --restart."
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return journal


def _variables(task: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables, named by position because Keras can number names differently in another process."""
    for kind, variables in (("model", task.variables), ("optimizer", task.optimizer.variables)):
        for number, variable in enumerate(variables):
            yield f"{kind}/{number:04d}", variable
