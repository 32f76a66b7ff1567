"""Convert what a user passes to `kmha.verify.probe` into the inputs of a call."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kmha.verify.probing import masks
from kmha.verify.probing.inputs import Inputs, Place, Slot, is_ids
from kmha.verify.probing.sublayers import describe, is_keras, layers_of, parameters_of

SIZES = 3, 7  # B and T of generated arrays, where the shape leaves them open
OPEN_SIZE = 5  # any other size that the shape leaves open
VOCABULARY = 10  # number of token ids, if no embedding shows it
PAD = 0  # the usual id of padding
NOT_TOKENS = ("segment", "position", "type")  # arguments of integers in which 0 is not padding


def read(
    thing: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], mask: Any, pad_id: int | None, rng: Any
) -> Inputs:
    """Read the inputs of a call.

    Args:
        thing: Layer, model or function under test.
        args: Arrays, nested lists, tuples and dicts of arrays, shapes, or `keras.Input`. May be empty for a model
            that defines its own inputs.
        kwargs: Further arguments, whose arrays become inputs too.
        mask: Padding mask, (B, T) or with axes of size 1 in between, or a dict of padding masks, keyed by input.
        pad_id: Token id of padding. `None` uses what `thing` states, or else 0.
        rng: Random generator for new arrays.

    Raises:
        ValueError: There are no inputs, or a mask does not match the inputs or cannot be passed.
    """
    if "training" in kwargs:
        raise ValueError("probe sets `training` itself: it calls with training=False, and once with training=True.")
    parameters, kwargs = parameters_of(thing), dict(kwargs)
    if mask is not None and not isinstance(mask, Mapping) and (_array(mask).ndim > 2 or not is_keras(thing)):
        kwargs["mask"], mask = _array(mask), None
        if "mask" not in parameters:
            raise ValueError(
                f"{describe(thing)} takes no argument `mask`. Pass the mask by its name there, such as "
                "probe(layer, x, attention_mask=…). A Keras layer also reads a mask (B, T) from the tensor."
            )
    elif mask is not None and "mask" in parameters and len(args) > 1 and not isinstance(mask, Mapping):
        kwargs["mask"] = _array(mask)  # Keras fills in `mask` by itself if there is only one tensor
    inputs = _slots(thing, args or _own_inputs(thing, kwargs), kwargs, parameters, rng)
    _check_masks(inputs)
    return _with_masks(thing, _with_pads(thing, inputs, pad_id), mask)


def _structure(thing: Any) -> Any:
    """Return a model's `keras.Input`, or its list or dict of `keras.Input`s. Return `None` for any other thing."""
    return getattr(getattr(thing, "_functional", None) or thing, "_inputs_struct", None)


def _rename(reader: "_Reader", tree: tuple[Any, ...], structure: Any) -> None:
    """Give each array that a functional model receives the name of the model's input."""
    places, tensors = keras.tree.flatten(tree), keras.tree.flatten(structure)
    if structure is None or isinstance(structure, Mapping) or len(places) != len(tensors):
        return
    for place, tensor in zip(places, tensors, strict=True):
        if isinstance(place, Place) and not tensor.name.startswith("keras_tensor"):
            reader.names[place.index] = [tensor.name]


def _own_inputs(thing: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the `keras.Input`s of a model."""
    structure = _structure(thing)
    if structure is not None:
        return (structure,)
    if any(hasattr(value, "shape") for value in kwargs.values()):
        return ()
    raise ValueError(
        f"the inputs of {describe(thing)} are not known. Give the inputs of a call: arrays, probe(layer, x); "
        "shapes of random numbers, probe(layer, (3, 7, 16)); or specifications, probe(model, "
        'keras.Input((7,), dtype="int32")).'
    )


def _slots(thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any], parameters: dict[str, Any], rng: Any) -> Inputs:
    embeddings = [layer for layer in layers_of(thing) if isinstance(layer, keras.layers.Embedding)]
    reader = _Reader(rng, embeddings)
    names = [*parameters, *(f"inputs[{number}]" for number in range(len(parameters), len(args)))]
    tree = tuple(reader.read(value, name, True) for value, name in zip(args, names, strict=False))
    if names[:2] == ["query", "value"] and len(tree) == 1 and not {"value", "key"} & set(kwargs):
        tree *= 2  # self-attention
        reader.names[0].append("value")
    _rename(reader, tree, _structure(thing))
    named = {name: reader.read(value, name, False) for name, value in kwargs.items()}
    batch = next((array.shape[0] for array in reader.arrays if array.ndim >= 2), None)
    slots = []
    columns = reader.names, reader.frameworks, reader.vocabularies, reader.arrays
    for found, framework, vocabulary, array in zip(*columns, strict=True):
        batched = array.ndim > 0 and array.shape[0] == batch
        role = "input" if array.dtype.kind in "iufV" and array.ndim >= 2 and batched else "other"
        if array.dtype == bool or any(name.endswith("mask") for name in found):
            role, batched = "mask", masks.is_batched(found[0], array, batch)
        slots.append(Slot(tuple(found), role, batched, framework, vocabulary=vocabulary))
    return Inputs((tree, named), tuple(slots), tuple(reader.arrays), (None,) * len(slots))


def _check_masks(inputs: Inputs) -> None:
    sizes = {1, *inputs.lengths().values()}
    for slot, mask in inputs.pairs():
        padding = slot.role == "mask" and mask.ndim == 2 and slot.name not in masks.QUERY_KEY_MASKS
        if padding and len(sizes) > 1 and mask.shape[-1] not in sizes:
            raise ValueError(_no_fit(slot.name, mask, inputs))


def _with_pads(thing: Any, inputs: Inputs, pad_id: int | None) -> Inputs:
    """Return the inputs with the padding value, a token id or a number, written to each slot."""
    found = layers_of(thing)
    zero = any(isinstance(layer, keras.layers.Embedding) and layer.mask_zero for layer in found)
    declared = [layer.pad_id for layer in found if isinstance(getattr(layer, "pad_id", None), int)]
    numbers = [layer.mask_value for layer in found if isinstance(layer, keras.layers.Masking)]
    known = pad_id is not None or zero or bool(declared)
    pad = pad_id if pad_id is not None else [0, *declared][not zero] if known else PAD
    slots = list(inputs.slots)
    for index in inputs.lengths():
        slot, array = slots[index], inputs.arrays[index]
        if is_ids(array) and not any(word in name for word in NOT_TOKENS for name in slot.names):
            if (array != pad).reshape(len(array), -1).any(axis=1).all():
                slots[index] = dataclasses.replace(slot, pad=pad, assumed=not known)
        elif not is_ids(array) and numbers:
            slots[index] = dataclasses.replace(slot, pad=numbers[0])
    return dataclasses.replace(inputs, slots=tuple(slots))


def _with_masks(thing: Any, inputs: Inputs, mask: Any) -> Inputs:
    """Return the inputs with the padding masks carried by the tensors, unless the token ids show the same padding."""
    if mask is None:
        return inputs
    slots, carried, tree = list(inputs.slots), list(inputs.carried), inputs.tree
    names = {name: index for index in inputs.lengths() for name in slots[index].names}
    for name, given in (mask if isinstance(mask, Mapping) else {"": mask}).items():
        array = _array(given)
        if name and name not in names:
            raise ValueError(f"mask: there is no sequence {name!r}. The sequences are: {', '.join(names) or 'none'}.")
        which = [names[name]] if name else list(inputs.lengths())
        which = [index for index in which if inputs.arrays[index].shape[:2] == array.shape]
        if not which:
            raise ValueError(_no_fit(f"mask[{name!r}]" if name else "mask", array, inputs))
        if not np.isin(array, (0, 1)).all():
            raise ValueError(f"mask: expected booleans, True at tokens and False at padding. Received: {array.dtype}.")
        for index in which:
            pad = slots[index].pad
            if pad is None or inputs.arrays[index].ndim > 2 or ((inputs.arrays[index] != pad) != array).any():
                carried[index] = array.astype(bool)
                slots[index] = dataclasses.replace(slots[index], pad=None)
            else:
                slots[index] = dataclasses.replace(slots[index], assumed=False)
    return dataclasses.replace(inputs, slots=tuple(slots), carried=tuple(carried), tree=tree)


def _no_fit(name: str, mask: np.ndarray, inputs: Inputs) -> str:
    sequences = [f"{inputs.slots[index].name} {inputs.arrays[index].shape}" for index in inputs.lengths()]
    return (
        f"{name} must be a padding mask (B, T), True at tokens, with the first two axes of a sequence: "
        f"{', '.join(sequences) or 'there is none'}. Received: {mask.shape}. Pass a mask of queries and keys "
        "in the layer's own argument, such as attention_mask=…"
    )


class _Reader:
    """A reader that takes the arrays out of a nested structure. An array in two places gets one slot with two names."""

    def __init__(self, rng: np.random.Generator, embeddings: list[Any]) -> None:
        self.rng, self.embeddings = rng, embeddings
        self.arrays: list[np.ndarray] = []
        self.names: list[list[str]] = []
        self.frameworks: list[str] = []
        self.vocabularies: list[int] = []
        self._seen: dict[int, int] = {}

    def read(self, value: Any, name: str, positional: bool) -> Any:
        if isinstance(value, Mapping):
            return {key: self.read(item, str(key), positional) for key, item in value.items()}
        if (positional and _is_shape(value)) or hasattr(value, "shape") or _is_nested_list(value):
            return self._slot(value, value.name if isinstance(value, keras.KerasTensor) else name)
        if positional and isinstance(value, list | tuple):
            items = [self.read(item, f"{name}[{number}]", positional) for number, item in enumerate(value)]
            return tuple(items) if isinstance(value, tuple) else items
        return value

    def _slot(self, value: Any, name: str) -> Place:
        # Two equal shapes may be one object, but they stand for two arrays.
        index = len(self.arrays) if _is_shape(value) else self._seen.setdefault(id(value), len(self.arrays))
        if index == len(self.arrays):
            is_open = _is_shape(value) or isinstance(value, keras.KerasTensor)
            framework = type(value).__module__.partition(".")[0].removesuffix("lib")
            self.frameworks.append(framework if framework in ("tensorflow", "torch", "jax") else "numpy")
            self.vocabularies.append(self._vocabulary(value))
            self.arrays.append(self._made(value, name) if is_open else _array(value))
            self.names.append([])
        if name not in self.names[index]:
            self.names[index].append(name)
        return Place(index)

    def _vocabulary(self, value: Any) -> int:
        """Return the vocabulary size of the embedding that receives the token ids, or of the smallest embedding."""
        sizes = [x.input_dim for x in self.embeddings if any(each is value for each in _symbolic_inputs(x))]
        return min(sizes or [layer.input_dim for layer in self.embeddings], default=VOCABULARY)

    def _made(self, value: Any, name: str) -> np.ndarray:
        shape, dtype = value, keras.config.floatx()
        if isinstance(value, keras.KerasTensor):
            shape, dtype = value.shape, keras.backend.standardize_dtype(value.dtype)
        sizes = [*SIZES, *[OPEN_SIZE] * len(shape)]
        shape = [default if size is None else size for size, default in zip(shape, sizes, strict=False)]
        if dtype == "bool" or name.endswith("mask"):
            return np.ones(shape, dtype)
        if "int" in dtype:
            least = 0 if any(word in name for word in NOT_TOKENS) else 1
            return self.rng.integers(least, max(2, self.vocabularies[-1]), size=shape).astype(dtype)
        return self.rng.normal(size=shape).astype(dtype)


def _symbolic_inputs(layer: Any) -> list[Any]:
    """Return the symbolic tensors that a layer of a model of `keras.Input` was called with."""
    return [x for node in layer._inbound_nodes for x in node.input_tensors]


def _is_shape(value: Any) -> bool:
    """Return whether `value` is a tuple of sizes, such as (3, None, 16)."""
    return isinstance(value, tuple) and len(value) > 1 and all(x is None or type(x) is int for x in value)


def _is_nested_list(value: Any) -> bool:
    """Return whether `value` is an array, (B, T) or more, written as lists."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], list) and np.asarray(value).ndim > 1


def _array(value: Any) -> np.ndarray:
    value = value.detach().cpu() if hasattr(value, "detach") else value
    return np.asarray(value)
