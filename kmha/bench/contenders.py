"""Who runs: the built-in layer, ours, the Addons formulation; torch's are in `torch_contenders`.

All get the same weights, input and upstream gradient, and give the same results by the same names, so that a benchmark
of wrong numbers does not come about.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kmha
from kmha.bench.cases import BUILTIN, OURS, Row
from kmha.interchange import canonical
from kmha.interchange import keras as keras_layout
from kmha.verify import tolerance

# Score tensors (B, H, T, S) alive at once, forward and in a step, in contenders that hold them whole: as measured for
# the built-in at T = 8192, rounded up, and one more for the einsums' transposes.
SCORE_TENSORS = {BUILTIN: (3, 5), "addons": (4, 6)}

Arrays = dict[str, np.ndarray]


class ContendersDisagree(ValueError):
    """Two contenders give different results for the same numbers."""


@dataclasses.dataclass(frozen=True)
class Numbers:
    """What all contenders of a row get.

    Args:
        x: query, key and value, (B, T, I).
        upstream: the gradient with respect to the output, (B, T, E).
        weights: in the canonical layout; the biases of the projections into heads are zero, for Addons had none.
    """

    x: np.ndarray
    upstream: np.ndarray
    weights: Arrays


@dataclasses.dataclass(frozen=True)
class Contender:
    """One who runs.

    Args:
        name: of `BUILTIN`, `OURS` and `PEERS`.
        run: one pass; returns the output, and in a step the gradients with respect to the input and all weights.
        results: what `run` returned, as arrays by name, in the canonical layout.
    """

    name: str
    run: Callable[[], list[Any]]
    results: Callable[[list[Any]], Arrays]


def numbers(row: Row, seed: int = 0) -> Numbers:
    """Drawn at random; the same for the same row and seed."""
    generator = np.random.default_rng(seed)

    def normal(shape: tuple[int, ...], scale: float = 1.0) -> np.ndarray:
        return scale * generator.standard_normal(shape, dtype="float32")

    width, heads, size = row.width, row.heads, row.head_size
    weights = {}
    for role in ("query", "key", "value"):
        weights[f"{role}/kernel"] = normal((heads, width, size), width**-0.5)
        weights[f"{role}/bias"] = np.zeros((heads, size), "float32")
    weights["attention_output/kernel"] = normal((heads, size, width), width**-0.5)
    weights["attention_output/bias"] = normal((width,))
    return Numbers(normal(row.shape), normal(row.shape), weights)


def padding(row: Row) -> np.ndarray:
    """(B, S), True means attend: the last quarter of each row's keys is hidden."""
    visible = row.length - row.length // 4
    return np.tile(np.arange(row.length) < visible, (row.batch, 1))


def reason_against(name: str, row: Row, memory: int | None) -> str | None:
    """Why a contender cannot run a row, in so many bytes of memory; `None` if it can."""
    if name in ("torch", "sdpa") and row.mode == "xla":
        return "torch runs eagerly here, not under XLA"
    score_bytes = 4 * row.batch * row.heads * row.length**2
    needed = score_bytes * SCORE_TENSORS.get(name, (0, 0))[row.step]
    if memory is not None and needed > memory:
        return f"would take about {needed / 1e9:.0f} GB, and {memory / 1e9:.0f} GB are free"
    return None


def build(name: str, row: Row, given: Numbers) -> Contender:
    """A contender, built and traced, ready to run.

    >>> row = Row(2, 3, width=8, heads=2, step=True)
    >>> contender = build("kmha", row, numbers(row))
    >>> sorted(contender.results(contender.run()))[:3]
    ['d attention_output/bias', 'd attention_output/kernel', 'd input']
    """
    if name in ("torch", "sdpa"):
        from kmha.bench import torch_contenders

        return torch_contenders.build(name, row, given)
    call, variables, to_canonical = {BUILTIN: _builtin, OURS: _ours, "addons": _addons}[name](row, given.weights)
    # A concrete function, so that TensorFlow does not warn of many traces: each row has to have its own.
    run = _in_mode(row, call, list(variables.values()), tf.constant(given.x), tf.constant(given.upstream))

    def results(tensors: list[Any]) -> Arrays:
        output, *gradients = [tensor.numpy() for tensor in tensors]
        if not gradients:
            return {"output": output}
        of_weights = to_canonical(dict(zip(variables, gradients[1:], strict=True)))
        return named(output, gradients[0], of_weights)

    return Contender(name, run, results)


def named(output: np.ndarray, of_input: np.ndarray, of_weights: Mapping[str, np.ndarray]) -> Arrays:
    """The results of a step by name."""
    return {"output": output, "d input": of_input, **{f"d {name}": array for name, array in of_weights.items()}}


def check_agreement(row: Any, name: str, results: Arrays, against: str, expected: Arrays) -> None:
    """Raises `ContendersDisagree` if a result that both have differs; a gradient is relative to the largest of all."""
    gradients = [float(np.max(np.abs(array))) for key, array in expected.items() if key.startswith("d ")]
    for key in sorted((key for key in results if key in expected), key=lambda key: key.startswith("d ")):
        largest = max(gradients) if key.startswith("d ") else None
        _, relative = tolerance.difference(results[key], expected[key], largest)
        if not relative <= tolerance.relative("float32"):
            raise ContendersDisagree(
                f"{row}: `{key}` of {name} differs from that of {against} by {relative:.2g} of its largest element, "
                f"and {tolerance.relative('float32'):.0e} is allowed. Times of wrong numbers mean nothing; "
                "`kmha compare` shows what is wrong."
            )


def built(layer_class: Any, row: Row) -> Any:
    """A built layer for the row, of a class that has the built-in's arguments."""
    window = {"sliding_window": row.window} if row.kind == "windowed" else {}
    layer = layer_class(row.heads, row.head_size, dropout=row.dropout, dtype="float32", **window)
    layer.build(row.shape, row.shape)
    return layer


def _of_layer(layer: Any, row: Row, weights: Arrays) -> tuple[Any, dict[str, Any]]:
    canonical.write(layer, weights)
    options = {"use_causal_mask": row.is_causal, "training": row.is_training}
    if row.kind == "padded":
        options["value_mask"] = tf.constant(padding(row))
    variables = {name: variable.value for name, variable in canonical.variables(layer).items()}
    return lambda x: layer(x, x, **options), variables


def _builtin(row: Row, weights: Arrays) -> tuple[Any, dict[str, Any], Any]:
    theirs = built(keras.layers.MultiHeadAttention, row)
    return *_of_layer(theirs, row, keras_layout.to_builtin(weights)), keras_layout.from_builtin


def _ours(row: Row, weights: Arrays) -> tuple[Any, dict[str, Any], Any]:
    return *_of_layer(built(kmha.MultiHeadAttention, row), row, weights), dict


def _addons(row: Row, weights: Arrays) -> tuple[Any, dict[str, Any], Any]:
    """The einsums of `tensorflow_addons.layers.MultiHeadAttention`, with gradients left to TensorFlow."""
    names = "query/kernel", "key/kernel", "value/kernel", "attention_output/kernel", "attention_output/bias"
    variables = {name: tf.Variable(weights[name]) for name in names}
    query_kernel, key_kernel, value_kernel, projection_kernel, projection_bias = variables.values()

    def call(x: Any) -> Any:
        query = tf.einsum("...NI,HIO->...NHO", x, query_kernel)
        key = tf.einsum("...MI,HIO->...MHO", x, key_kernel)
        value = tf.einsum("...MI,HIO->...MHO", x, value_kernel)
        logits = tf.einsum("...NHO,...MHO->...HNM", query / row.head_size**0.5, key)
        mask = _mask(row)
        coefficients = tf.nn.softmax(logits if mask is None else logits - 1e10 * (1.0 - mask[..., None, :, :]))
        if row.dropout:
            coefficients = tf.nn.dropout(coefficients, row.dropout)
        heads = tf.einsum("...HNM,...MHI->...NHI", coefficients, value)
        return tf.einsum("...NHI,HIO->...NO", heads, projection_kernel) + projection_bias

    return call, variables, dict


def _mask(row: Row) -> Any:
    """What Addons lets its users pass, 1 means attend: (T, S) or (B, T, S)."""
    if row.kind == "padded":
        return tf.repeat(tf.constant(padding(row)[:, None], tf.float32), row.length, axis=1)
    if row.is_causal:
        below = row.window - 1 if row.kind == "windowed" else -1
        return tf.linalg.band_part(tf.ones((row.length, row.length)), below, 0)
    return None


def _in_mode(row: Row, call: Any, variables: list[Any], x: Any, upstream: Any) -> Callable[[], list[Any]]:
    def forward(x: Any, upstream: Any) -> list[Any]:
        return [call(x)]

    def step(x: Any, upstream: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = call(x)
            loss = tf.reduce_sum(output * upstream)
        return [output, *tape.gradient(loss, [x, *variables])]

    function = step if row.step else forward
    if row.mode != "eager":
        traced = tf.function(function, autograph=False, jit_compile=row.mode == "xla")
        function = traced.get_concrete_function(x, upstream)
    return lambda: function(x, upstream)
