"""Demonstrations of cases in which the built-in is wrong or surprising, and in which `kmha` differs on purpose.

The README lists the demonstrations under "Where kmha differs", and `tests/verify/comparing/test_differences.py` tests
them. A function's docstring is the demonstration's title in the table of `kmha compare`.
"""

import dataclasses
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from kmha.layers import MultiHeadAttention
from kmha.layers.builtin import BUILTIN
from kmha.verify.wording import error_text


@dataclasses.dataclass(frozen=True)
class Difference:
    """One demonstration, with the result of the built-in and the result of `kmha`."""

    tried: str
    builtin: str
    here: str


def demonstrate() -> Iterator[Difference]:
    """Run every demonstration. With Keras 3.15.1, the results are as listed in the README."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for show in _ALL:
            if show is flash_attention and keras.backend.backend() != "tensorflow":
                continue  # the result of a fused kernel depends on the device
            tried = " ".join((show.__doc__ or "").split()).rstrip(".")
            yield Difference(tried, _outcome(show, BUILTIN), _outcome(show, MultiHeadAttention))


def symbolic_scores(layer_class: Any) -> str:
    """Symbolic shape of the scores of cross-attention, B=2 H=3 T=5 S=7."""
    query, value = keras.Input(batch_shape=(2, 5, 4)), keras.Input(batch_shape=(2, 7, 4))
    return str(layer_class(3, 4)(query, value, return_attention_scores=True)[1].shape)


def empty_row(layer_class: Any) -> str:
    """A row with nothing to attend to: largest difference between return_attention_scores=True and False."""
    x, mask = _x(), np.ones((2, 5, 5), bool)
    mask[:, 3] = False
    layer = _seeded(layer_class)
    with_scores, _ = layer(x, x, attention_mask=mask, return_attention_scores=True)
    return f"{_apart(with_scores, layer(x, x, attention_mask=mask)):.2g}"


def fourth_positional(layer_class: Any) -> str:
    """layer(x, x, x, mask), where the fourth argument is query_mask: largest change of the output by the mask."""
    x, mask = _x(), np.tril(np.ones((2, 5, 5), bool))
    layer = _seeded(layer_class)
    return f"{_apart(layer(x, x, x, ops.convert_to_tensor(mask)), layer(x, x)):.2g}"


def explicit_query_mask(layer_class: Any) -> str:
    """query_mask= passed to the call: largest output in its False rows, with return_attention_scores=True."""
    x, mask = _x(), np.array([[True, True, False, True, True]] * 2)
    output, _ = _seeded(layer_class)(x, x, query_mask=mask, return_attention_scores=True)
    return f"{np.abs(_array(output)[:, 2]).max():.2g}"


def causal_along_attention_axes(layer_class: Any) -> str:
    """attention_axes=(2,), inputs (2, 1, 5, 4), use_causal_mask=True: largest score of a future position."""
    x = np.random.default_rng(0).normal(size=(2, 1, 5, 4)).astype("float32")
    _, scores = _seeded(layer_class, attention_axes=(2,))(x, x, use_causal_mask=True, return_attention_scores=True)
    return f"{np.triu(_array(scores), 1).max():.2g}"


def flash_attention_config(layer_class: Any) -> str:
    """flash_attention=False, as get_config() returns it."""
    return str(layer_class(3, 4, flash_attention=False).get_config().get("flash_attention", "not there"))


def flash_attention(layer_class: Any) -> str:
    """flash_attention=True on TensorFlow: largest difference from a layer without it."""
    layer = _seeded(layer_class, flash_attention=True)
    return f"{_apart(layer(_x(), _x()), _seeded(layer_class)(_x(), _x())):.2g}"


def dropout_at_inference(layer_class: Any) -> str:
    """Inference with a row that attends to nothing: largest difference between dropout=0.1 and dropout=0."""
    mask = np.ones((2, 5, 5), bool)
    mask[:, 3] = False
    return _with_and_without_dropout(layer_class, _x(), attention_mask=mask)


def dropout_rounding(layer_class: Any) -> str:
    """Inference in mixed_float16: largest difference between dropout=0.1 and dropout=0 (on some processors only)."""
    return _with_and_without_dropout(layer_class, 3 * _x(), dtype="mixed_float16")


def mask_of_the_caller(layer_class: Any) -> str:
    """The mask of the caller's tensor after layer(x, x)."""
    x = keras.layers.Embedding(9, 4, mask_zero=True)(np.array([[1, 2, 0]]))
    layer_class(3, 4)(x, x)
    return "kept" if getattr(x, "_keras_mask", None) is not None else "lost: a second layer(x, x) attends to padding"


def heads_mask_and_padding(layer_class: Any) -> str:
    """attention_mask (B, H, T, S) and value_mask (B, S), B = H: largest score of a padded position."""
    x = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    mask, padding = np.ones((3, 3, 5, 5), bool), np.ones((3, 5), bool)
    padding[0, 3:] = False
    layer = _seeded(layer_class)
    _, scores = layer(x, x, attention_mask=mask, value_mask=padding, return_attention_scores=True)
    return f"{_array(scores)[0, ..., 3:].max():.2g}"


def padding_with_attention_axes(layer_class: Any) -> str:
    """value_mask (B, S, X) with attention_axes=(1,), S = X: largest score of a padded position."""
    x, padding = np.random.default_rng(0).normal(size=(2, 5, 5, 4)).astype("float32"), np.ones((2, 5, 5), bool)
    padding[:, 3:, 0] = False
    layer = _seeded(layer_class, attention_axes=(1,))
    _, scores = layer(x, x, value_mask=padding, return_attention_scores=True)
    return f"{_array(scores)[:, 0, ..., 3:].max():.2g}"


def scale_in_float64(layer_class: Any) -> str:
    """float64, key_dim=3: relative error of a score against softmax(q·k/√3)."""
    x = np.array([[[0.0], [20.0]]])
    layer = layer_class(1, 3, use_bias=False, dtype="float64", kernel_initializer="ones")
    _, scores = layer(x, x, return_attention_scores=True)
    logits = 3 * x @ x.transpose(0, 2, 1) / np.sqrt(3.0)
    tiny = _array(scores)[0, 0, 1, 0] / np.exp(logits[0, 1, 0] - logits[0, 1, 1])
    return f"{abs(tiny - 1):.2g}"


def quantized_and_saved(layer_class: Any) -> str:
    """A model that was quantized to int8, saved as .keras and loaded: difference from the model before saving."""
    inputs = keras.Input((5, 4))
    model = keras.Model(inputs, layer_class(3, 4)(inputs, inputs))
    model.quantize("int8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        again = keras.models.load_model(path)
    apart = _apart(again(_x()), model(_x()))
    return f"same numbers to {apart:.2g}" if apart else "identical"


_ALL: tuple[Callable[[Any], str], ...] = (
    symbolic_scores,
    empty_row,
    fourth_positional,
    explicit_query_mask,
    causal_along_attention_axes,
    flash_attention_config,
    flash_attention,
    dropout_at_inference,
    dropout_rounding,
    mask_of_the_caller,
    heads_mask_and_padding,
    padding_with_attention_axes,
    scale_in_float64,
    quantized_and_saved,
)


def _with_and_without_dropout(layer_class: Any, x: np.ndarray, dtype: str = "float32", **call: Any) -> str:
    dropping, plain = (_seeded(layer_class, dropout=rate, dtype=dtype) for rate in (0.1, 0.0))
    for layer in (dropping, plain):
        layer.build(x.shape, x.shape)
    dropping.set_weights(plain.get_weights())
    return f"{_apart(dropping(x, x, training=False, **call), plain(x, x, training=False, **call)):.2g}"


def _x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")


def _seeded(layer_class: Any, **arguments: Any) -> Any:
    keras.utils.set_random_seed(1)
    return layer_class(3, 4, **arguments)


def _apart(one: Any, other: Any) -> float:
    return float(np.abs(_array(one) - _array(other)).max())


def _array(x: Any) -> np.ndarray:
    return ops.convert_to_numpy(ops.cast(x, "float64"))


def _outcome(show: Callable[[Any], str], layer_class: Any) -> str:
    """Return the result of `show`, or the first sentence of the error."""
    try:
        return show(layer_class)
    except ValueError as error:
        return error_text(error).split(". ")[0]
