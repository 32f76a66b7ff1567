"""Helpers for the functions that a task calls: tensors, gradients, weights, figures, and functions outside the sandbox.

Untrusted code can read this module: it contains no expected values.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from kmha.sandbox.encoding import LARGEST_REQUEST, decode, encode, read

NEAR = 1e-6  # difference of two places in a figure that nobody sees

_connection: dict[str, Any] = {}


def connect(send: Callable[[bytes], None], replies: BinaryIO) -> None:
    """Connect `remote` functions to the process that runs the sandbox."""
    _connection.update(send=send, replies=replies)


def remote(name: str) -> Callable[..., Any]:
    """Return a function that runs outside the sandbox, where untrusted code cannot read it (`Sandbox.run`, `serve`).

    The function takes arrays, numbers and strings, as positional or keyword arguments. It raises a `ValueError` with
    the message of the error outside.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        message = encode({"name": name, "args": args, "kwargs": kwargs})
        if len(message) > LARGEST_REQUEST:
            raise ValueError(f"{name} takes at most {LARGEST_REQUEST >> 20} MiB. Received: {len(message):,} bytes.")
        _connection["send"](message)
        reply = decode(read(_connection["replies"]) or b"")
        if reply["error"] is not None:
            raise ValueError(reply["error"])
        return reply["result"]

    return function


def tensors(inputs: Mapping[str, Any], dtype: str | None = None) -> dict[str, Any]:
    """Convert each array in the inputs to a tensor of the Keras backend. Floats get `dtype` (default: float32)."""
    import keras

    found = {}
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            floats = np.issubdtype(value.dtype, np.floating)
            value = keras.ops.convert_to_tensor(value, dtype=(dtype or "float32") if floats else None)
        found[name] = value
    return found


def gradients(function: Callable[..., Any], inputs: Mapping[str, Any], of: Sequence[str]) -> dict[str, Any]:
    """Return the gradients of the sum of a function's squared results, computed with TensorFlow in float64.

    `of` names the inputs to differentiate with respect to.
    """
    import tensorflow as tf

    given = tensors(inputs, "float64")
    with tf.GradientTape() as tape:
        tape.watch([given[name] for name in of])
        results = tf.nest.flatten(function(**given))
        loss = tf.add_n([tf.reduce_sum(tf.square(tf.cast(result, "float64"))) for result in results])
    found = tape.gradient(loss, {name: given[name] for name in of})
    return {name: each if each is None else np.asarray(each) for name, each in found.items()}


def set_weights(layer: Any, weights: Mapping[str, Any]) -> None:
    """Set the weights of a layer, and the seeds of the dropouts in it (`seed_dropouts`).

    Args:
        layer: The layer.
        weights: Arrays, keyed by the path of an attribute of the layer, such as "query_kernel". For a sublayer, such as
            "mha", a list of all its arrays.

    Raises:
        AttributeError: The layer does not have the attribute.
        TypeError: The attribute is not a weight.
        ValueError: An array does not have the shape of its attribute.
    """
    for path, value in weights.items():
        target = layer
        for name in path.split("."):
            if not hasattr(target, name):
                raise AttributeError(f"cannot set `{path}`: {type(target).__name__} has no attribute `{name}`.")
            target = getattr(target, name)
        if hasattr(target, "set_weights"):
            target.set_weights(value)
        elif target is not None and tuple(target.shape) != tuple(value.shape):
            raise ValueError(f"`{path}` has the shape {tuple(target.shape)}, expected {tuple(value.shape)}.")
        elif not hasattr(target, "assign"):
            kind = "None" if target is None else f"a {type(target).__name__}"
            raise TypeError(f"`{path}` is {kind}, not a weight.")
        else:
            target.assign(value)
    seed_dropouts(layer)


def seed_dropouts(layer: Any) -> None:
    """Set the seed of each dropout in a layer by its place among them.

    Otherwise it depends on how many random numbers others, such as initializers, drew before the dropout was made.
    """
    parts = layer._flatten_layers() if hasattr(layer, "_flatten_layers") else ()
    found: list[Any] = [getattr(part, "seed_generator", None) for part in parts]
    for number, generator in enumerate(each for each in found if type(each).__name__ == "SeedGenerator"):
        generator.state.assign([1, number])


def new_weights(layers: Sequence[Any], inputs: Any, equation: str, shape: Sequence[int]) -> dict[str, Any]:
    """Return what the weights of new layers are, as `kmha.course.judging.right_weights` compares them.

    Args:
        layers: Layers with a kernel, the second without a bias. If there is a third one, with a dtype policy of its
            own, its dtypes are returned beside those of the first.
        inputs: Array to call the layers with, which makes their weights.
        equation: Equation of the product of inputs and kernel.
        shape: Shape that the kernel should have.
    """
    import keras

    outputs = [layer(keras.ops.convert_to_tensor(inputs)) for layer in layers]
    first, second = (np.asarray(layer.kernel) for layer in layers[:2])
    alone = np.einsum(equation, inputs, second) if first.shape == tuple(shape) else None
    largest = float(np.abs(first).max())
    limit = (6 / (np.prod(first.shape[:-2]) * sum(first.shape[-2:]))) ** 0.5  # as Keras counts
    return {
        "kernel": first.shape,
        "bias": tuple(layers[0].bias.shape),
        "order": [tuple(weight.shape) for weight in layers[0].weights],
        "dtypes": {
            layer.dtype_policy.name: [
                keras.backend.standardize_dtype(each.dtype) for each in (*layer.weights, output) if each is not None
            ]
            for layer, output in list(zip(layers, outputs, strict=True))[::2]
        },
        "trainable": [len(layer.trainable_weights) for layer in layers[:2]],
        "bias at the start": layers[0].bias,
        "without a bias": layers[1].bias,
        "the sum without a bias": outputs[1] is not None
        and alone is not None
        and np.shape(outputs[1]) == alone.shape
        and np.allclose(outputs[1], alone),
        "name": layers[0].name,
        "kernel as from glorot_uniform": 0.5 * limit <= largest <= 1.001 * limit,
        "kernel is far larger": largest > 2.5 * limit,
        "kernel varies at the start": float(np.std(first)) > 0.01,
        "kernel has both signs at the start": float(first.min()) < 0 < float(first.max()),
        "every kernel starts from its own numbers": not np.array_equal(first, second),
    }


def figure(drawn: Any) -> dict[str, Any]:
    """Return what a matplotlib figure shows: the array, the colors and the labels of all axes with an image.

    `whole` says whether the axes show all of the array, with its columns from left to right, and `down` whether its
    first row is drawn above its last one. Ticks are in the order of their places. Texts that nobody can see
    are left out, and `colors` says whether the colors end where they begin.

    Raises:
        TypeError: It is no figure of matplotlib. An object that only looks like one needs no drawing.
    """
    from matplotlib.figure import Figure

    if type(drawn) is not Figure:
        raise TypeError(f"expected a matplotlib figure. Received: {type(drawn).__name__}.")
    panels = []
    for axes in drawn.axes:
        meshes: list[Any] = [*axes.images, *(each for each in axes.collections if hasattr(each, "get_coordinates"))]
        if not meshes or getattr(axes, "_colorbar", None) is not None:  # the axes of a color bar
            continue
        if not _can_be_seen(axes, meshes[0]):
            continue
        left, right, rows = _borders(meshes[0])
        (first, last), (low, high) = axes.get_xlim(), axes.get_ylim()
        whole = first <= left + NEAR and right <= last + NEAR
        whole = whole and min(low, high) <= min(rows) + NEAR and max(rows) <= max(low, high) + NEAR
        labels, ticks = _labels(axes)
        # The private ones are those that `set_title` writes with loc="left" and loc="right".
        titles = [axes.title, *(getattr(axes, f"_{side}_title") for side in ("left", "right"))]
        cmap = meshes[0].get_cmap()
        cyclic = bool(np.allclose(cmap(0.0), cmap(1.0), atol=0.1))
        array: Any = np.ma.filled(np.ma.asarray(meshes[0].get_array(), float), np.nan)
        if array.ndim == 1:
            height, width = (size - 1 for size in meshes[0].get_coordinates().shape[:2])
            array = array.reshape(height, width)
        panels.append(
            {
                "image": array,
                "limits": [float(limit) for limit in meshes[0].get_clim()],
                "title": next(filter(None, map(_seen, titles)), ""),
                **labels,
                "colors": f"{cmap.name}, {type(meshes[0].norm).__name__}{', cyclic' * cyclic}",
                "whole": bool(whole),
                "down": bool((rows[0] - rows[1]) * (high - low) > 0),
                **{f"{name}_places": [place for place, _ in found] for name, found in ticks.items()},
                **{f"{name}_ticks": [text for _, text in found] for name, found in ticks.items()},
            }
        )
    return {"panels": panels}


def _labels(axes: Any) -> tuple[dict[str, str], dict[str, list[tuple[float, str]]]]:
    """Return the labels of both axes, and their ticks as places with texts, as far as they can be seen."""
    labels, ticks = {}, {}
    for name, axis, ends in (("x", axes.xaxis, axes.get_xlim()), ("y", axes.yaxis, axes.get_ylim())):
        seen = axes.axison and axis.get_visible()
        texts = [_seen(label) for label in axis.get_ticklabels()]
        found = sorted(zip(map(float, axis.get_ticklocs()), texts, strict=False))
        ticks[name] = [each for each in found if seen and min(ends) - NEAR <= each[0] <= max(ends) + NEAR]
        labels[name] = _seen(axis.label) if seen else ""
    return labels, ticks


def _seen(text: Any) -> str:
    """Return what a text of a figure says, or "" if it cannot be seen."""
    alpha = text.get_alpha()
    return str(text.get_text()) if text.get_visible() and (alpha is None or alpha > 0.1) else ""


def _can_be_seen(axes: Any, mesh: Any) -> bool:
    """Return whether an image can be seen: it is not hidden, transparent or tiny, and hardly covered by others."""
    from matplotlib.transforms import Bbox

    alpha, place = mesh.get_alpha(), axes.get_position()
    width, height = axes.figure.get_size_inches() * (place.width, place.height)
    shown = axes.get_visible() and mesh.get_visible() and (alpha is None or np.min(alpha) > 0.1)
    others = [each.get_position() for each in axes.figure.axes if each is not axes and each.images]
    covered = [part for other in others if (part := Bbox.intersection(place, other)) is not None]
    free = all(part.width * part.height < 0.1 * place.width * place.height for part in covered)
    return bool(shown and min(width, height) > 0.2 and free)


def _borders(mesh: Any) -> tuple[float, float, Sequence[float]]:
    """Return where an image or a mesh begins and ends: left and right, and its first and last row."""
    if hasattr(mesh, "get_extent"):
        left, right, bottom, top = mesh.get_extent()
        return left, right, [top, bottom] if mesh.origin == "upper" else [bottom, top]
    left, right = mesh.get_coordinates()[0, [0, -1], 0]
    return left, right, mesh.get_coordinates()[[0, -1], 0, 1]
