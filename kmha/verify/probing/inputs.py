"""The inputs of a call, and copies of them with one thing changed."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.probing import masks

MIN_IDS = 2  # minimum size of the vocabulary for changing a token


class CannotTry(Exception):
    """The reason why a property could not be tried."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A placeholder for an array in the call: the index of the array's slot."""

    index: int


@dataclasses.dataclass(frozen=True)
class Slot:
    """One array of the call.

    Attributes:
        names: Names of the arguments that receive the array, several if one array is query and value.
        role: "input" if probes change the array, "mask", or "other".
        batched: Whether the first axis is B.
        framework: Framework of the array: "numpy", "tensorflow", "torch" or "jax".
        pad: Token id or number that means padding, or `None` if there is no padding.
        assumed: Whether `pad` is the id of padding by convention only.
        vocabulary: Number of token ids, as far as it is known.
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
    """The arrays of a call, and their places among the arguments.

    Attributes:
        tree: (positional arguments, keyword arguments), with a `Place` for every array.
        slots: Descriptions of the arrays.
        arrays: Array of each slot.
        carried: For each slot, the padding mask (B, T) that the tensor carries, True at tokens, or `None`.
    """

    tree: Any
    slots: tuple[Slot, ...]
    arrays: tuple[np.ndarray, ...]
    carried: tuple[np.ndarray | None, ...]

    @property
    def batch(self) -> int:
        """The batch size (B)."""
        return next((array.shape[0] for slot, array in self.pairs() if slot.batched), 1)

    def pairs(self) -> list[tuple[Slot, np.ndarray]]:
        return list(zip(self.slots, self.arrays, strict=True))

    def lengths(self) -> dict[int, int]:
        """Return the length (T) of each sequence of token ids (B, T) or numbers (B, T, I), keyed by slot."""
        return {
            index: array.shape[1]
            for index, (slot, array) in enumerate(self.pairs())
            if slot.role == "input" and array.ndim >= (2 if is_ids(array) else 3)
        }

    def tokens(self, index: int) -> np.ndarray | None:
        """Return a mask (B, T), False where a sequence is padded, or `None` if the padding is unknown."""
        array, pad = self.arrays[index], self.slots[index].pad
        known = [self.carried[index]]
        if pad is not None:
            known.append((array != pad).reshape(*array.shape[:2], -1).any(axis=-1))
        for slot, mask in self.pairs():
            if slot.role == "mask" and index in masks.hides(slot.names, mask, self.slots, self.lengths()):
                known.append(masks.columns(mask, slot.batched, self.batch))
        found = [mask for mask in known if mask is not None]
        return np.logical_and.reduce(found) if found else None

    def token_mask(self, length: int) -> np.ndarray:
        """Return a mask (B, T), False where any sequence of this length is padded."""
        real = np.ones((self.batch, length), bool)
        for index, has in self.lengths().items():
            tokens = self.tokens(index)
            if has == length and tokens is not None:
                real &= tokens
        return real

    def changed(self, index: int, where: np.ndarray, rng: np.random.Generator) -> "Inputs":
        """Return the inputs with other tokens, or numbers, where `where` (B, T) is True in a sequence."""
        array = self.arrays[index].copy()
        array[where] = self._others(index, rng)[where]
        return self._with({index: array})

    def reordered(self, order: list[int]) -> "Inputs":
        """Return the inputs with the items `order` of the batch: all items in another order, or some items."""
        arrays = {index: array[order] for index, (slot, array) in enumerate(self.pairs()) if slot.batched}
        carried = tuple(None if mask is None else mask[order] for mask in self.carried)
        return dataclasses.replace(self._with(arrays), carried=carried)

    def carrying(self, which: list[int]) -> "Inputs":
        """Return the inputs with a mask of all True for each of these sequences that carries no mask."""
        carried = list(self.carried)
        for index in which:
            if carried[index] is None:
                carried[index] = np.ones(self.arrays[index].shape[:2], bool)
        return dataclasses.replace(self, carried=tuple(carried))

    def padded(self, which: list[int]) -> "Inputs":
        """Return the inputs with the last third of these sequences padded, except in the batch's last item."""
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
        """Return the inputs with `more` padded positions at the end of these sequences, and with longer masks."""
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
        """Return the call's (args, kwargs). An array that is passed twice becomes a single tensor."""
        return _filled(self.tree, [convert(*each) for each in zip(self.slots, self.arrays, self.carried, strict=True)])

    def _with(self, arrays: Mapping[int, np.ndarray]) -> "Inputs":
        replaced = tuple(arrays.get(index, array) for index, array in enumerate(self.arrays))
        return dataclasses.replace(self, arrays=replaced)

    def _others(self, index: int, rng: np.random.Generator) -> np.ndarray:
        """Return an array of the same shape as a slot's array, in which every token or number is different."""
        array = self.arrays[index]
        if not is_ids(array):
            spread = 2 * float(np.std(array.astype("float64"))) or 1.0
            return (array.astype("float64") + spread * rng.normal(size=array.shape)).astype(array.dtype)
        slot = self.slots[index]
        # If there is a mask, 0 may be the id of padding, so no token may become 0.
        pad = [] if slot.pad is None and self.carried[index] is None else [slot.pad or 0]
        known = np.setdiff1d(array, np.array(pad, array.dtype))  # ids that the layer is known to accept
        if len(known) < MIN_IDS:
            known = np.setdiff1d(np.arange(slot.vocabulary), np.array(pad or [0]))
        if len(known) < MIN_IDS:
            raise CannotTry(f"the tokens of {slot.name} cannot be changed: no other token id is known")
        steps = rng.integers(1, len(known), size=array.shape)
        return known[(np.searchsorted(known, array) + steps) % len(known)].astype(array.dtype)


def is_ids(array: np.ndarray) -> bool:
    """Return whether an array contains token ids."""
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
