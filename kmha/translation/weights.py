"""The weights in a model folder: those of the finished model, and those that checks keep until it is."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kmha import files

CHECKPOINTS, STATE, SUFFIX = "checkpoints", "state.npz", ".weights.h5"


class FolderError(ValueError):
    """A folder is no model folder, or not a whole one; the message says what is the matter."""


def save(model: Any, path: Path) -> None:
    """Writes beside and renames: the file is there whole or not at all."""
    beside = path.with_name(f".{os.getpid()}{SUFFIX}")
    try:
        model.save_weights(beside)
        files.replace(path, beside)
    finally:
        beside.unlink(missing_ok=True)


def load(model: Any, path: Path) -> None:
    """Reads what `save` wrote.

    Raises:
        FolderError: the file is broken, or of another model.
    """
    try:
        model.load_weights(path)
    except Exception as error:  # Keras and h5py raise all kinds
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FolderError(f"{path} cannot be read: {first} Copy the folder again, or train.") from None


def kept(path: Path, step: int) -> Path:
    """Where the weights of a check are kept."""
    return path / CHECKPOINTS / f"step-{step:08d}{SUFFIX}"


def kept_steps(path: Path) -> list[int]:
    """The steps whose weights are kept, in order."""
    files = (path / CHECKPOINTS).glob(f"step-*{SUFFIX}")
    numbers = {file.name.removesuffix(SUFFIX).removeprefix("step-") for file in files}
    steps = {int(number) for number in numbers if number.isdecimal()}
    return sorted(step for step in steps if kept(path, step).exists())  # not those that another program has named


def last(steps: Iterable[int], count: int, between: int) -> list[int]:
    """The last of `steps`, at most `count`, for an average: regular checks without a gap, and the last, whatever it is.

    A regular check is one after each `between` steps; the clock may have set others. Where one is missing, those before
    are left out: they are of a model that had learnt far less.

    >>> last([100, 250, 300, 400, 450], count=3, between=100), last([100, 900, 1000], count=3, between=100)
    ([300, 400, 450], [900, 1000])
    """
    *before, end = sorted(steps)
    chosen = [end]
    for step in reversed([step for step in before if step % between == 0]):
        if len(chosen) == count or chosen[0] - step > between:
            break
        chosen.insert(0, step)
    return chosen


def average(model: Any, path: Path, steps: Iterable[int]) -> None:
    """Gives `model` the mean of the weights kept at these steps, summed in float64.

    Raises:
        FolderError: one of them cannot be read.
    """
    sums: list[Any] = []
    steps = list(steps)
    for step in steps:
        load(model, kept(path, step))
        weights = [weight.astype("float64") for weight in model.get_weights()]
        sums = [one + other for one, other in zip(sums, weights, strict=True)] if sums else weights
    model.set_weights([total / len(steps) for total in sums])


def forget(path: Path, after: int = -1) -> None:
    """Removes the weights of checks after a step; of all of them, and the state of the run, if no step is given."""
    if after < 0:
        (path / CHECKPOINTS / STATE).unlink(missing_ok=True)
    for step in kept_steps(path):
        if step > after:
            kept(path, step).unlink()
