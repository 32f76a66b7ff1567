"""The inputs of a call that is probed, changed in one respect at a time."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.probing import masks

FEW = 2  # the least number of ids among which a token can be changed


class CannotTry(Exception):
    """Why a property could not be tried."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where in the call an array stands: the number of its slot."""

    index: int


@dataclasses.dataclass(frozen=True)
class Slot:
    """One array of the call.

    Attributes:
        names: of the arguments that it is passed as: several if one array is query and value.
        role: "input" for what is changed, "mask", or "other".
        batched: whether its first axis is B.
        framework: whose array it was: "numpy", "tensorflow", "torch" or "jax".
        pad: the token id, or the number, that is padding; `None` if nothing is.
        assumed: whether nothing but the custom says that this id is padding.
        vocabulary: how many token ids there are, as far as is known.
    """

    names: tuple[str, ...]
    role: str = "input"
    batched: bool = True
    framework: str = "numpy"
    pad: float | None = None
    assumed: bool = False
    vocabulary: int = 10

    @property
    def name(self) -> str:
        return self.names[0]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The arrays of a call, and where they stand in it.

    Attributes:
        tree: (positional arguments, keyword arguments), with a `Place` for every array.
        slots: what the arrays are.
        arrays: by slot.
        carried: by slot, the padding mask (B, T) that the tensor carries, True at tokens; `None` if it carries none.
    """

    tree: Any
    slots: tuple[Slot, ...]
    arrays: tuple[np.ndarray, ...]
    carried: tuple[np.ndarray | None, ...]

    @property
    def batch(self) -> int:
        """B."""
        return next((array.shape[0] for slot, array in self.pairs() if slot.batched), 1)

    def pairs(self) -> list[tuple[Slot, np.ndarray]]:
        return list(zip(self.slots, self.arrays, strict=True))

    def lengths(self) -> dict[int, int]:
        """T of the sequences, by slot: of token ids (B, T), and of numbers (B, T, I)."""
        return {
            index: array.shape[1]
            for index, (slot, array) in enumerate(self.pairs())
            if slot.role == "input" and array.ndim >= (2 if is_ids(array) else 3)
        }

    def tokens(self, index: int) -> np.ndarray | None:
        """(B, T), False where a sequence is padded; `None` if nothing tells."""
        array, pad = self.arrays[index], self.slots[index].pad
        known = [self.carried[index]]
        if pad is not None:
            known.append((array != pad).reshape(*array.shape[:2], -1).any(axis=-1))
        for slot, mask in self.pairs():
            if slot.role == "mask" and index in masks.hides(slot.names, mask, self.slots, self.lengths()):
                known.append(masks.columns(mask, slot.batched, self.batch))
        found = [mask for mask in known if mask is not None]
        return np.logical_and.reduce(found) if found else None

    def real(self, length: int) -> np.ndarray:
        """(B, T), False where a sequence of this length is padded."""
        real = np.ones((self.batch, length), bool)
        for index, has in self.lengths().items():
            tokens = self.tokens(index)
            if has == length and tokens is not None:
                real &= tokens
        return real

    def changed(self, index: int, where: np.ndarray, rng: np.random.Generator) -> "Inputs":
        """Other tokens, or other numbers, at the positions `where` (B, T) of a sequence."""
        array = self.arrays[index].copy()
        array[where] = self._others(index, rng)[where]
        return self._with({index: array})

    def reordered(self, order: list[int]) -> "Inputs":
        """The batch's items `order`: all in another order, or some of them."""
        arrays = {index: array[order] for index, (slot, array) in enumerate(self.pairs()) if slot.batched}
        carried = tuple(None if mask is None else mask[order] for mask in self.carried)
        return dataclasses.replace(self._with(arrays), carried=carried)

    def carrying(self, which: list[int]) -> "Inputs":
        """Those sequences with a mask, all tokens, where they have none."""
        carried = list(self.carried)
        for index in which:
            if carried[index] is None:
                carried[index] = np.ones(self.arrays[index].shape[:2], bool)
        return dataclasses.replace(self, carried=tuple(carried))

    def padded(self, which: list[int]) -> "Inputs":
        """The last third of those sequences turned into padding, but for the batch's last item."""
        carried, arrays = list(self.carried), {}
        for index in which:
            array, mask, pad = self.arrays[index], carried[index], self.slots[index].pad
            hidden = np.zeros(array.shape[:2], bool)
            hidden[: max(1, self.batch - 1), -max(1, array.shape[1] // 3) :] = True
            if mask is not None:
                carried[index] = mask & ~hidden
            elif pad is not None:
                arrays[index] = array.copy()
                arrays[index][hidden] = pad
            for number, (slot, other) in enumerate(self.pairs()):
                if slot.role == "mask" and other.shape == hidden.shape:
                    arrays[number] = np.where(hidden, 0, arrays.get(number, other)).astype(other.dtype)
        return dataclasses.replace(self._with(arrays), carried=tuple(carried))

    def lengthened(self, which: list[int], more: int, rng: np.random.Generator) -> "Inputs":
        """`more` padded positions after each of those sequences, and columns of the masks that hide them."""
        arrays, carried, lengths = {}, list(self.carried), self.lengths()
        for index in which:
            mask, pad = carried[index], self.slots[index].pad
            tail = self._others(index, rng)[:, np.arange(more) % lengths[index]]
            if mask is not None:
                carried[index] = np.pad(mask, [(0, 0), (0, more)])
            elif pad is not None:
                tail = np.full_like(tail, pad)
            arrays[index] = np.concatenate([self.arrays[index], tail], axis=1)
        grown = {lengths[index] for index in which}
        for number, (slot, mask) in enumerate(self.pairs()):
            if slot.role == "mask":
                arrays[number] = masks.lengthened(mask, slot.batched, grown, more)
        return dataclasses.replace(self._with(arrays), carried=tuple(carried))

    def filled(self, convert: Callable[[Slot, np.ndarray, np.ndarray | None], Any]) -> Any:
        """(positional arguments, keyword arguments); an array that stands in two places is one tensor in both."""
        return _filled(self.tree, [convert(*each) for each in zip(self.slots, self.arrays, self.carried, strict=True)])

    def _with(self, arrays: Mapping[int, np.ndarray]) -> "Inputs":
        replaced = tuple(arrays.get(index, array) for index, array in enumerate(self.arrays))
        return dataclasses.replace(self, arrays=replaced)

    def _others(self, index: int, rng: np.random.Generator) -> np.ndarray:
        """An array of the same shape with another token, or another number, in every place."""
        array = self.arrays[index]
        if not is_ids(array):
            spread = 2 * float(np.std(array.astype("float64"))) or 1.0
            return (array.astype("float64") + spread * rng.normal(size=array.shape)).astype(array.dtype)
        slot = self.slots[index]
        # Where a mask was given, id 0 may be padding, and no token may become it.
        pad = [] if slot.pad is None and self.carried[index] is None else [slot.pad or 0]
        known = np.setdiff1d(array, np.array(pad, array.dtype))  # ids that the layer is known to take
        if len(known) < FEW:
            known = np.setdiff1d(np.arange(slot.vocabulary), np.array(pad or [0]))
        if len(known) < FEW:
            raise CannotTry(f"no other token id is known to change those of {slot.name} to")
        steps = rng.integers(1, len(known), size=array.shape)
        return known[(np.searchsorted(known, array) + steps) % len(known)].astype(array.dtype)


def is_ids(array: np.ndarray) -> bool:
    """Whether an array holds token ids."""
    return array.dtype.kind in "iu"


def _filled(tree: Any, tensors: list[Any]) -> Any:
    if isinstance(tree, Place):
        return tensors[tree.index]
    if isinstance(tree, Mapping):
        return {name: _filled(item, tensors) for name, item in tree.items()}
    if isinstance(tree, list | tuple):
        items = [_filled(item, tensors) for item in tree]
        return tuple(items) if isinstance(tree, tuple) else items
    return tree
