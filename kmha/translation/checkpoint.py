"""The state of a training run in one file, with which the run can be resumed, and the attention that it recorded."""

import dataclasses
import io
import json
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from kmha.atomic_files import write_bytes

JOURNAL = "journal"

PAIR = "pair"
ROUNDING = 0.01  # amount by which a softmax in bfloat16 can exceed 1
UNREADABLE = OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile

HistoryRow = dict[str, float]


class CheckpointError(ValueError):
    """Raised if a state cannot be read, or belongs to another model."""


@dataclasses.dataclass
class Journal:
    """The state of a run besides its variables."""

    step: int = 0  # number of batches so far, which is also the position in the data
    seconds: float = 0.0  # seconds of all sessions up to the last check
    rows: list[HistoryRow] = dataclasses.field(default_factory=list)  # one row for each check
    samples: list[str] = dataclasses.field(default_factory=list)  # translations of a few sentences for each check
    best_step: int = 0  # step of the check with the best score
    best: float | None = None  # value of the best score; higher is better
    waited: int = 0  # number of checks since the best check
    check: float = 0.0  # duration of the longest check in seconds
    backend: str = "tensorflow"  # backend of Keras, which determines the random numbers
    ended: str = ""  # reason for the end: steps, patience, minutes or diverged; empty while training continues


def save(path: Path, task: Any, journal: Journal) -> None:
    """Write weights, optimizer and seeds of `task`, and the journal, and replace the previous state.

    The random state is complete: dropout uses `keras.random.SeedGenerator`, whose state is among `task.variables`, and
    the data depend only on seed and step. If the process is killed while it writes, the previous state remains.
    """
    journal.backend = keras.backend.backend()
    arrays = {name: keras.ops.convert_to_numpy(variable) for name, variable in _variables(task)}
    arrays[JOURNAL] = _json(dataclasses.asdict(journal))
    _write(path, arrays)


def load(path: Path, task: Any) -> Journal:
    """Load the state that `save` wrote into `task`, whose optimizer must be built, and return the journal.

    Raises:
        CheckpointError: The file is broken, or belongs to another model or backend.
    """
    try:
        arrays = _read(path)
        journal = Journal(**json.loads(arrays.pop(JOURNAL).tobytes()))
    except UNREADABLE as error:
        raise CheckpointError(f"{path} cannot be read ({error}). Start again with --restart.") from None
    backend = keras.backend.backend()
    if journal.backend != backend:
        raise CheckpointError(
            f"{path} is the state of a run on {journal.backend}, and Keras computes with {backend}. Set "
            f"KERAS_BACKEND={journal.backend} to resume the run, or start again with --restart."
        )
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
    """Yield the variables, named by position, because Keras may number names differently in another process."""
    for kind, variables in (("model", task.variables), ("optimizer", task.optimizer.variables)):
        for number, variable in enumerate(variables):
            yield f"{kind}/{number:04d}", variable


def save_attention(path: Path, pair: tuple[str, str], recorded: Mapping[int, Mapping[str, np.ndarray]]) -> None:
    """Write the scores of a source and its translation, by training step and by name of the layer."""
    arrays = {f"{step}/{name}": scores for step, found in recorded.items() for name, scores in found.items()}
    _write(path, {PAIR: _json(pair), **arrays})


def load_attention(path: Path, pair: tuple[str, str], like: Mapping[str, np.ndarray]) -> dict[int, dict[str, Any]]:
    """Return the scores that `save_attention` wrote, or none if there is no file.

    Args:
        path: The file.
        pair: The source and the translation that it must have.
        like: Scores of the same pair, whose names and shapes the file must have at each step.

    Raises:
        CheckpointError: The file is broken, or has the scores of another pair or model.
    """
    if not path.exists():
        return {}
    found: dict[int, dict[str, Any]] = {}
    try:
        arrays = _read(path)
        before = [str(text) for text in json.loads(arrays.pop(PAIR).tobytes())]
        for name, scores in arrays.items():
            if not ((scores >= 0) & (scores < 1 + ROUNDING)).all():
                raise ValueError(f"{name!r} has scores that are not between 0 and 1")
            step, _, layer = name.partition("/")
            found.setdefault(int(step), {})[layer] = scores
    except UNREADABLE as error:
        raise CheckpointError(f"{path} cannot be read ({error}). Move it away to record attention anew.") from None
    if before != [*pair]:
        raise CheckpointError(f"{path} is of --probe {shlex.join(before)}. Give that again, or move it away.")
    shapes = {name: scores.shape for name, scores in like.items()}
    if any({name: scores.shape for name, scores in one.items()} != shapes for one in found.values()):
        raise CheckpointError(f"{path} is of another model. Move it away to record attention anew.")
    return found


def _json(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), "uint8")


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    write_bytes(path, data.getvalue())


def _read(path: Path) -> dict[str, np.ndarray]:
    # The file is read as bytes, because NumPy would not close a broken file.
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
