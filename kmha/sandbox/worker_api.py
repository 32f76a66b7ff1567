"""What the checks can ask for in the sandbox beyond a call: gradients, a batch of unknown size, a saved model.

This module is in the process that runs a learner's code: it holds no expected value.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from kmha.sandbox.encoding import decode, encode, read

_ends: dict[str, Any] = {}


def connect(send: Callable[[bytes], None], replies: BinaryIO) -> None:
    """Has `remote` functions computed by whoever runs the sandbox."""
    _ends.update(send=send, replies=replies)


def remote(name: str) -> Callable[..., Any]:
    """A function that is computed outside the sandbox, where its code cannot be read: by `Exercise.serve`.

    It takes arrays, numbers and text, by place or by name.

    Raises (the function):
        ValueError: what it was given does not fit; the text is that of the error outside.
    """

    def called(*places: Any, **names: Any) -> Any:
        _ends["send"](encode({"name": name, "places": places, "names": names}))
        reply = decode(read(_ends["replies"]) or b"")
        if reply["error"] is not None:
            raise ValueError(reply["error"])
        return reply["result"]

    called.__name__ = called.__qualname__ = "attention"
    return called


def tensors(inputs: Mapping[str, Any], dtype: str | None = None) -> dict[str, Any]:
    """The inputs with every array of floats as a tensor of Keras' backend, float32 unless told otherwise."""
    import keras

    found = {}
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            floats = np.issubdtype(value.dtype, np.floating)
            value = keras.ops.convert_to_tensor(value, dtype=(dtype or "float32") if floats else None)
        found[name] = value
    return found


def gradients(function: Callable[..., Any], inputs: Mapping[str, Any], of: Sequence[str]) -> dict[str, Any]:
    """Of the sum of the squared results with respect to the arguments named, with TensorFlow, in float64."""
    import tensorflow as tf

    given = tensors(inputs, "float64")
    with tf.GradientTape() as tape:
        tape.watch([given[name] for name in of])
        results = tf.nest.flatten(function(**given))
        loss = tf.add_n([tf.reduce_sum(tf.square(tf.cast(result, "float64"))) for result in results])
    found = tape.gradient(loss, {name: given[name] for name in of})
    return {name: each if each is None else np.asarray(each) for name, each in found.items()}


def set_weights(layer: Any, weights: Mapping[str, Any]) -> None:
    """By the paths of attributes, such as "query_kernel", or "mha" with a list of all arrays of a sublayer.

    Raises:
        AttributeError, ValueError: the layer has no such attribute, or another shape there; it says which.
    """
    for path, value in weights.items():
        target = layer
        for name in path.split("."):
            if not hasattr(target, name):
                raise AttributeError(f"{type(target).__name__} has no attribute `{name}`, where weights are to go")
            target = getattr(target, name)
        if hasattr(target, "set_weights"):
            target.set_weights(value)
        elif tuple(target.shape) != tuple(value.shape):
            raise ValueError(f"`{path}` has the shape {tuple(target.shape)}, expected {tuple(value.shape)}")
        else:
            target.assign(value)


def figure(drawn: Any) -> dict[str, Any]:
    """What a matplotlib figure shows: of every axes with an image its array, limits of colour, and the labels."""
    panels = []
    for axes in drawn.axes:
        meshes = [*axes.images, *(each for each in axes.collections if hasattr(each, "get_coordinates"))]
        if not meshes or getattr(axes, "_colorbar", None) is not None:  # the one of a colour bar, wherever it was put
            continue
        array: Any = np.ma.filled(np.ma.asarray(meshes[0].get_array(), float), np.nan)
        if array.ndim == 1:
            height, width = (size - 1 for size in meshes[0].get_coordinates().shape[:2])
            array = array.reshape(height, width)
        panels.append(
            {
                "image": array,
                "limits": [float(limit) for limit in meshes[0].get_clim()],
                "title": axes.get_title(),
                "x": axes.get_xlabel(),
                "y": axes.get_ylabel(),
                "x_ticks": [label.get_text() for label in axes.get_xticklabels()],
                "y_ticks": [label.get_text() for label in axes.get_yticklabels()],
            }
        )
    return {"panels": panels}
