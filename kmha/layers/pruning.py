"""Remove heads from a `MultiHeadAttention`, or turn them off for a while."""

import contextlib
import operator
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

import keras
from keras import ops

from kmha.layers import checks, sharding
from kmha.layers.multi_head_attention import MultiHeadAttention
from kmha.layers.projections import HeadMerge, HeadProjection

# Functions that a model keeps after it has compiled them.
COMPILED = "train_function", "test_function", "predict_function", "generate_function"

Heads = SupportsIndex | Iterable[SupportsIndex]


def prune_heads(layer: MultiHeadAttention, heads: Heads, model: Any = None) -> None:
    """Remove heads from a layer: their part of each kernel and bias (Michel et al. 2019, arXiv 1905.10650).

    The output is then the same as with `without_heads`, but the layer is smaller and faster. Its config has the new
    number of heads, and so have the configs of kmha's encoders, decoders and `Transformer` around it, so that
    `model.save` and `keras.models.load_model` work as before. The numbers of the other heads move up.

    The layer gets new weights, which an optimizer does not know. Call `model.compile` again before you train. Without
    it, `fit` raises an error. On JAX, Keras has then already emptied the model's variables, so load the model again.

    Args:
        layer: A built layer.
        heads: Numbers of the heads to remove, from 0 to H - 1, or one number.
        model: Model with the layer. It forgets its compiled functions, such as that of `predict`, which would compute
            with the old weights on TensorFlow. A function that you compiled yourself must be compiled again. On torch,
            `parameters` and `state_dict` of the model have the new weights. Without `model`, only those of the layer
            have them.

    Raises:
        TypeError: The layer is not a `kmha.MultiHeadAttention`.
        ValueError: A head does not exist, no head would be left, or the layer is not built, is quantized, has
            projections of another kind, or is not in the model.

    >>> import keras, kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5)
    >>> x = keras.ops.ones((2, 7, 4))
    >>> before = layer(x, x)
    >>> prune_heads(layer, [0, 2])
    >>> tuple(layer.key_dense.kernel.shape), tuple(layer(x, x).shape), layer.get_config()["num_heads"]
    ((1, 4, 5), (2, 7, 4), 1)
    """
    names = "_query_dense", "_key_dense", "_gate_dense", "_value_dense", "_output_dense"
    removed = _checked("prune_heads", layer, heads)
    if model is not None and not any(part is layer for part in model._flatten_layers()):
        raise ValueError(
            f"prune_heads: expected a model that contains the layer {layer.name!r}. Received: {model.name!r}, which "
            "does not. Give the model whose predict or fit you call, or leave `model` out."
        )
    if not removed:
        return
    left = [head for head in range(layer.num_heads) if head not in removed]
    if not left:
        raise ValueError(
            f"prune_heads: at least one head of {layer.name!r} must be left. Received: all {layer.num_heads} heads. "
            "Leave one out, or remove the whole layer from the model."
        )
    projections = [getattr(layer, name) for name in names if hasattr(layer, name)]
    for projection in projections[:-1]:
        _, width, size = projection.kernel.shape
        sharding.check_heads(f"{projection.path}/kernel", len(left), width, size)
    for projection in projections:
        projection.keep_heads(left)
    layer._num_heads = len(left)
    for part in () if model is None else model._flatten_layers():
        for name in COMPILED:
            if name in vars(part):
                setattr(part, name, None)
    if keras.backend.backend() == "torch":
        # torch does not list the layers of a Sequential, and Keras does not list the model that it contains.
        layers = (layer if model is None else model)._flatten_layers()
        for part in {module for one in layers for module in one.modules()}:
            if hasattr(part, "_torch_params"):
                part._track_variables()


@contextlib.contextmanager
def without_heads(layer: Any, heads: Heads) -> Iterator[None]:
    """Compute without some heads of a layer inside the block: set their rows of the output kernel to zero.

    The weights are restored at the end. Compiled functions of the model see the change, so nothing is compiled again.

    Args:
        layer: A built `kmha.MultiHeadAttention`.
        heads: Numbers of the heads to turn off, from 0 to H - 1, or one number. They may be all heads.

    Raises:
        TypeError: The layer is not a `kmha.MultiHeadAttention`.
        ValueError: A head does not exist, or the layer is not built, is quantized or has projections of another kind.

    >>> import keras, kmha
    >>> layer = kmha.MultiHeadAttention(num_heads=3, key_dim=5)
    >>> x = keras.ops.ones((2, 7, 4))
    >>> before = layer(x, x)
    >>> with without_heads(layer, [0, 1, 2]):
    ...     print(float(keras.ops.max(keras.ops.abs(layer(x, x)))))
    0.0
    """
    removed = _checked("without_heads", layer, heads)
    dense = layer.output_dense
    weights = [dense._kernel, dense.lora_kernel_a] if dense.lora_enabled else [dense._kernel]
    before = [ops.convert_to_numpy(weight).copy() for weight in weights]
    try:
        for weight, value in zip(weights, before, strict=True):
            value = value.copy()
            value[sorted(removed)] = 0
            weight.assign(value)
        yield
    finally:
        for weight, value in zip(weights, before, strict=True):
            weight.assign(value)


def check_layer(function: str, layer: Any) -> None:
    """Raise an error if a layer is not a built `MultiHeadAttention` with weights in floating point."""
    if not isinstance(layer, MultiHeadAttention):
        fix = ""
        if isinstance(layer, keras.layers.GroupQueryAttention):
            fix = " Layers with grouped queries share keys and values between heads, so they are not supported."
        elif isinstance(layer, keras.layers.MultiHeadAttention):
            fix = " `kmha.convert_model` turns the built-in's layers of a model into kmha's."
        raise TypeError(
            f"{function}: expected a kmha.MultiHeadAttention. Received: {type(layer).__module__}."
            f"{type(layer).__qualname__}.{fix}"
        )
    checks.check_built(layer)
    projections = [part for part in layer._layers if isinstance(part, keras.layers.EinsumDense)]
    other = [part for part in projections if not isinstance(part, HeadProjection | HeadMerge)]
    quantized = [part for part in projections if part.quantization_mode is not None]
    if other or quantized:
        reason = f"a {type(other[0]).__name__}" if other else f"a kernel in {quantized[0].quantization_mode}"
        raise ValueError(
            f"{function}: expected projections of {layer.name!r} with kernels (H, I, O) in floating point. Received: "
            f"{(other or quantized)[0].name!r} with {reason}. Remove heads before you call `quantize`."
        )


def _checked(function: str, layer: Any, heads: Heads) -> set[int]:
    """Return the numbers of the heads, after checking them and the layer."""
    check_layer(function, layer)
    several = isinstance(heads, Iterable) and getattr(heads, "ndim", None) != 0
    given: Iterable[Any] = heads if several else [heads]  # type: ignore[assignment]
    numbers = set()
    for head in given:
        number = _number(head)
        if not 0 <= number < layer.num_heads:
            raise ValueError(
                f"{function}: expected heads from 0 to {layer.num_heads - 1}, because {layer.name!r} has "
                f"{layer.num_heads} (H). Received: {head!r}. Give one integer, or a list of them."
            )
        numbers.add(number)
    return numbers


def _number(head: Any) -> int:
    """Return the number of a head, and -1 for what is not an integer."""
    try:
        return -1 if isinstance(head, bool) else operator.index(head)
    except TypeError:
        return -1
