"""The layout of each weight of kmha's layers over several devices."""

from typing import Any

import keras

_SPLIT = "split"  # stands for the axis of the mesh

# Variables by path, for `re.fullmatch`. An axis with `_SPLIT` is split over the devices. All other axes, and all
# variables that are not listed, are whole on every device.
_HEADS = {  # H comes first
    r"(.*/)?(query|key|value|gate)/(kernel|lora_kernel_a)": (_SPLIT, None, None),  # (H, I, O)
    r"(.*/)?(query|key|value|gate)/bias": (_SPLIT, None),  # (H, O)
    r"(.*/)?attention_output/(kernel|lora_kernel_a)": (_SPLIT, None, None),  # (H, O, E)
    r"(.*/)?(query|key|value|projection)_kernel": (_SPLIT, None, None),  # of `kmha.layers.addons`
}
_FEED_FORWARD = r"(.*/)?(ffn|feed_forward(_\d+)?)/"
_HIDDEN = {
    _FEED_FORWARD + "dense1/(kernel|lora_kernel_b)": (None, _SPLIT),
    _FEED_FORWARD + "dense1/bias": (_SPLIT,),
    _FEED_FORWARD + "dense2/(kernel|lora_kernel_a)": (_SPLIT, None),
}


def head_parallel(mesh: Any, axis: str = "model") -> Any:
    """Return the `LayoutMap` that splits attention over its heads, and feed-forward networks over their hidden layer.

    Each device holds H / n heads, where n is the number of devices along `axis`. It computes its heads alone, and the
    devices then add up their outputs in one all-reduce. In the same way, each device holds 1 / n of the hidden features
    between `dense1` and `dense2` of a `FeedForward` (Shoeybi et al. 2019, arXiv 1909.08053, section 3).

    | weight | shape | layout |
    | --- | --- | --- |
    | kernels of query, key, value, gate | (H, I, O) | ("model", None, None) |
    | their biases | (H, O) | ("model", None) |
    | output kernel | (H, O, E) | ("model", None, None) |
    | kernel of `dense1` | (I, hidden) | (None, "model") |
    | bias of `dense1` | (hidden,) | ("model",) |
    | kernel of `dense2` | (hidden, E) | ("model", None) |

    All other weights are whole on every device. You can add layouts for them. Of the matrices of LoRA, those are split
    that have an axis H or hidden.

    The map finds weights by their paths, such as "encoder/layer1/mha/query/kernel". A layer of other code whose
    sublayers have the same names gets the same layouts.

    Args:
        mesh: A `keras.distribution.DeviceMesh` with at least two axes, one for the batch.
        axis: Name of the mesh axis to split over. On TPUs, Keras' fused attention knows only "model".

    Returns:
        A `keras.distribution.LayoutMap`, for `keras.distribution.ModelParallel`.

    Raises:
        RuntimeError: If the backend is not JAX.
        ValueError: If `mesh` is not a `DeviceMesh`, or does not have these axes.

    Example:

    >>> import keras, kmha
    >>> def model_parallel():  # call this before you make the model
    ...     mesh = keras.distribution.DeviceMesh((1, 8), ("batch", "model"))
    ...     layout_map = kmha.distribution.head_parallel(mesh)
    ...     return keras.distribution.ModelParallel(layout_map=layout_map, batch_dim_name="batch")
    """
    if keras.backend.backend() != "jax":
        raise RuntimeError(
            "head_parallel needs the JAX backend, because Keras splits variables over devices only there. Received: "
            f"the backend {keras.backend.backend()!r}. Set the environment variable KERAS_BACKEND=jax before you "
            "import keras."
        )
    _check_mesh(mesh, axis)
    layout_map = keras.distribution.LayoutMap(mesh)
    for path, axes in {**_HEADS, **_HIDDEN}.items():
        layout_map[path] = tuple(axis if name == _SPLIT else name for name in axes)
    return layout_map


def _check_mesh(mesh: Any, axis: str) -> None:
    if not isinstance(mesh, keras.distribution.DeviceMesh):
        raise ValueError(
            "head_parallel received an invalid value for argument `mesh`, expected a keras.distribution.DeviceMesh. "
            f'Received: mesh={mesh!r}. Try keras.distribution.DeviceMesh((1, 8), ("batch", "model")).'
        )
    names = tuple(mesh.axis_names)
    if axis not in names:
        raise ValueError(
            f"head_parallel splits the heads over the mesh axis {axis!r}, which `mesh` does not have. Received: the "
            f"axes {names}. Pass one of them as `axis`."
        )
    if len(names) == 1:
        size = mesh.shape[0]
        raise ValueError(
            "head_parallel needs a mesh with at least two axes, because `ModelParallel` also splits the batch over one "
            f"of them. Received: the axes {names}. For the same batch on all {size} devices, make "
            f'keras.distribution.DeviceMesh((1, {size}), ("batch", {axis!r})), and pass batch_dim_name="batch".'
        )
