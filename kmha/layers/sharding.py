"""Checks of the layouts with which `keras.distribution` splits weights over devices."""

import warnings
from typing import Any

import keras


def check_heads(path: str, num_heads: int, width: int, head_size: int) -> None:
    """Warn about a layout that was written for the built-in layer's kernels (I, H, O), and so splits I.

    Args:
        path: Path of a kernel (H, I, O).
        num_heads: Number of heads (H).
        width: Input features (I).
        head_size: Head size (O).

    Raises:
        ValueError: If the kernel does not split evenly over the devices.
    """
    axes = _axes(path)
    batch = getattr(keras.distribution.distribution(), "batch_dim_name", None)
    # Weights that are split over the devices of the batch are only stored that way.
    if len(axes) > 1 and axes[0] is None and axes[1] not in (None, batch):
        layer = path.rpartition("/")[0].rpartition("/")[0] or path
        warnings.warn(
            f"{layer}: the layout {axes} splits I, the input features, because kernels of kmha have the shape "
            "(H, I, O), where the built-in layer's have (I, H, O). The results are the same, but the devices must "
            f"exchange much more. Use the layout {(axes[1], None, *axes[2:])}, which splits the heads, or "
            "`kmha.distribution.head_parallel(mesh)`.",
            stacklevel=2,
        )
    check_split(path, H=num_heads, I=width, O=head_size)


def check_split(path: str, **sizes: int) -> None:
    """Raise a ValueError if a weight does not split evenly over the devices.

    Args:
        path: Path of the weight, which the active `keras.distribution.LayoutMap` may have a layout for.
        **sizes: Names and sizes of the weight's axes, in order.
    """
    axes = _axes(path)
    if not axes:
        return
    mesh = keras.distribution.distribution().device_mesh
    devices = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    for (name, size), axis in zip(sizes.items(), axes, strict=False):
        if isinstance(axis, str) and size % devices[axis]:
            raise ValueError(
                f"{path}: the layout {axes} splits {name} over the {devices[axis]} devices of the mesh axis {axis!r}, "
                f"so {name} must be a multiple of {devices[axis]}. Received: {name}={size}. Change {name}, or make "
                "this axis of the mesh smaller."
            )


def splits_heads(layer: Any) -> bool:
    """Return True if devices split the heads of a projection with the kernel (H, I, O), and nothing else of it."""
    axes = _axes(f"{layer.path}/kernel")
    return bool(axes and axes[0]) and not any(axes[1:]) and not _axes(f"{layer.path}/output")


def _axes(path: str) -> tuple[Any, ...]:
    """Return the mesh axes that split the axes of a weight, such as ("model", None, None), or () if nothing does."""
    distribution = keras.distribution.distribution() if keras.backend.backend() == "jax" else None
    if not isinstance(distribution, keras.distribution.ModelParallel):
        return ()
    layout = distribution.get_tensor_layout(path)
    return () if layout is None else layout.axes
