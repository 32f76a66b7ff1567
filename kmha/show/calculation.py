"""`Calculation`, the numbers of every step of a call of a layer, and their recording."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# What a layer's class may not replace, so that its steps are those of a `Calculation`.
STEPS = "_compute_attention", "_masked_softmax", "_compute_attention_mask"


@dataclass(frozen=True)
class Calculation:
    """Every step of a call of `MultiHeadAttention`, computed from its inputs, mask and weights, without dropout.

    I, the number of features, may differ between query, key and value. A query with nothing to attend to has scores of
    zero, where the built-in layer may average all values instead.

    Attributes:
        inputs: The inputs "query" (B, T, I), "key" (B, S, I) and "value" (B, S, I).
        kernels: Kernels (H, I, O) of "query", "key" and "value", and (H, O, E) of "output".
        biases: Biases (H, O) of "query", "key" and "value", and (E,) of "output"; zeros if the layer has none.
        mask: Boolean mask (B, H, T, S), or `None`. True means attend.

    >>> inputs = {"query": np.eye(2)[None], "key": np.eye(2)[None], "value": np.ones((1, 2, 2))}
    >>> kernels = dict.fromkeys(["query", "key", "value", "output"], np.eye(2)[None])
    >>> biases = dict.fromkeys(["query", "key", "value"], np.zeros((1, 2))) | {"output": np.zeros(2)}
    >>> calculation = Calculation(inputs, kernels, biases, np.tri(2, dtype=bool)[None, None])
    >>> calculation.scores.round(3).tolist()
    [[[[1.0, 0.0], [0.33, 0.67]]]]
    >>> calculation.output.tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """

    inputs: dict[str, np.ndarray]
    kernels: dict[str, np.ndarray]
    biases: dict[str, np.ndarray]
    mask: np.ndarray | None

    def item(self, index: int) -> "Calculation":
        """Return the calculation of one item, with B = 1."""
        inputs = {name: x[index : index + 1] for name, x in self.inputs.items()}
        mask = None if self.mask is None else self.mask[index : index + 1]
        return Calculation(inputs, self.kernels, self.biases, mask)

    def projected(self, name: str) -> np.ndarray:
        """Return "query" (B, T, H, O), "key" (B, S, H, O) or "value" (B, S, H, O)."""
        from kmha.core import axes

        return np.einsum(axes.PROJECT, self.inputs[name], self.kernels[name]) + self.biases[name]

    @functools.cached_property
    def logits(self) -> np.ndarray:
        """The logits (B, H, T, S), before the mask."""
        from kmha.core import axes

        query = self.projected("query")
        return np.einsum(axes.SCORES, query, self.projected("key")) / np.sqrt(query.shape[-1])

    @functools.cached_property
    def scores(self) -> np.ndarray:
        """The scores (B, H, T, S). A query with nothing to attend to has zeros."""
        logits = self.logits
        allowed = np.ones(logits.shape, bool) if self.mask is None else self.mask
        largest = np.max(logits, axis=-1, keepdims=True, where=allowed, initial=np.finfo(logits.dtype).min)
        weights = np.where(allowed, np.exp(np.minimum(logits - largest, 0)), 0)
        return weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(logits.dtype).tiny)

    @functools.cached_property
    def mixed(self) -> np.ndarray:
        """The mixed values (B, T, H, O)."""
        from kmha.core import axes

        return np.einsum(axes.MIX, self.scores, self.projected("value"))

    @functools.cached_property
    def parts(self) -> np.ndarray:
        """The share of each head in the output, (B, H, T, E)."""
        return np.einsum("BTHO,HOE->BHTE", self.mixed, self.kernels["output"])

    @functools.cached_property
    def output(self) -> np.ndarray:
        """The output (B, T, E)."""
        return np.asarray(self.parts.sum(axis=1) + self.biases["output"])


def check(name: str, layer: Any) -> None:
    """Raise a ValueError unless the layer computes the steps of a `Calculation`."""
    import keras

    from kmha.layers import MultiHeadAttention

    kinds = MultiHeadAttention, keras.layers.MultiHeadAttention
    plain = isinstance(layer, kinds) and all(
        getattr(type(layer), step, None) in [getattr(kind, step, None) for kind in kinds] for step in STEPS
    )
    other = getattr(layer, "_replaces_steps", False) or getattr(layer, "_use_gate", False)
    quantized = any(getattr(part, "quantization_mode", None) for part in layer._flatten_layers())
    if not plain or other or quantized:
        raise ValueError(
            "capture: the steps are those of kmha.MultiHeadAttention and keras.layers.MultiHeadAttention without a "
            f"gate, methods of their own or quantization. Received the layer {name!r} ({type(layer).__name__}). "
            "Give the names of other layers: steps=[…]."
        )


def recorded(layer: Any, method: Any, take: Callable[..., None]) -> tuple[Any, Any]:
    """Return a `call` and a `_compute_attention` for the layer that also pass on the inputs and the mask of a call.

    Args:
        layer: Attention layer.
        method: The layer's `_compute_attention`.
        take: Function to call with tensors: query, key, value, and the mask if there is one. Masks may lack axes.
    """
    from kmha.core import masks

    before = layer.call
    plain = getattr(before, "plain", before)  # the layer's own method, where another capture surrounds this one
    call_signature = inspect.signature(plain)
    signature = inspect.signature(getattr(method, "plain", method))
    inputs: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        given = call_signature.bind(*args, **kwargs).arguments
        if given.get("cache") is None and len(given["query"].shape) == 3:
            key = given.get("key")
            inputs[:] = given["query"], given["value"] if key is None else key, given["value"]
        try:
            return before(*args, **kwargs)
        finally:
            inputs.clear()

    def compute(*args: Any, **kwargs: Any) -> Any:
        if inputs:
            given = signature.bind(*args, **kwargs).arguments
            causal, window = given.get("use_causal_mask", False), given.get("sliding_window")
            structured = masks.structured(inputs[0].shape[1], inputs[1].shape[1], causal, window)
            mask = masks.combine(given.get("attention_mask"), structured)
            take(*inputs, *([] if mask is None else [mask]))
        return method(*args, **kwargs)

    call.plain, compute.plain = plain, getattr(method, "plain", method)  # type: ignore[attr-defined]
    return call, compute


def of(
    layer: Any, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None = None
) -> Calculation:
    """Return the calculation of a call with these inputs, and with a mask that broadcasts to (B, H, T, S)."""
    from keras import ops

    from kmha.layers import MultiHeadAttention

    kernels, biases = {}, {}
    for name in ("query", "key", "value", "output"):
        dense = getattr(layer, f"_{name}_dense")
        kernel = np.array(ops.convert_to_numpy(dense.kernel), "float64")
        by_heads = isinstance(layer, MultiHeadAttention) or name == "output"
        kernel = kernel if by_heads else kernel.transpose(1, 0, 2)
        heads, width, *sizes = kernel.shape
        kernels[name] = kernel.reshape(heads, width, -1)
        shape = (-1,) if name == "output" else (heads, *sizes)
        bias = (
            np.zeros(sizes if name == "output" else shape) if dense.bias is None else ops.convert_to_numpy(dense.bias)
        )
        biases[name] = np.array(bias, "float64").reshape(shape)
    inputs = {"query": query, "key": key, "value": value}
    if mask is not None:
        mask = mask.astype(bool)
        mask = mask[:, None] if mask.ndim == 3 else mask
        mask = np.broadcast_to(mask, (len(query), len(kernels["query"]), query.shape[1], key.shape[1]))
    return Calculation({name: np.asarray(x, "float64") for name, x in inputs.items()}, kernels, biases, mask)
