"""The attention layers to measure: the built-in layer, kmha's layer, the einsums of Addons, and torch's layer."""

from typing import Any

import keras

import kmha
from kmha.bench import passes
from kmha.bench.cases import BUILTIN, OURS, AttentionRow
from kmha.bench.contenders import Arrays, AttentionInputs, Contender, named, padding
from kmha.interchange import canonical
from kmha.interchange import keras as keras_layout

# Number of score tensors (B, H, T, S) in memory at the same time, in a forward pass and in a step, for contenders that
# keep all scores. The built-in's numbers were measured at T = 8192 and rounded up. Addons' einsums need one more for
# their transposes.
SCORE_TENSORS = {BUILTIN: (3, 5), "addons": (4, 6)}


def reason_against(name: str, row: AttentionRow, memory: int | None) -> str | None:
    """Return the reason why a contender cannot run a row in `memory` bytes, or `None` if it can."""
    if name in ("torch", "sdpa") and row.mode == "xla":
        return "torch runs eagerly here, not under XLA"
    score_bytes = 4 * row.batch * row.heads * row.length**2
    needed = score_bytes * SCORE_TENSORS.get(name, (0, 0))[row.step]
    if memory is not None and needed > memory:
        return f"would take about {needed / 1e9:.0f} GB, but only {memory / 1e9:.0f} GB are free"
    return None


def build(name: str, row: AttentionRow, given: AttentionInputs) -> Contender:
    """Return a contender, built and traced for a row.

    >>> from kmha.bench.contenders import draw_inputs
    >>> row = AttentionRow(2, 3, width=8, heads=2, step=True)
    >>> contender = build("kmha", row, draw_inputs(row))
    >>> sorted(contender.results(contender.run()))[:3]
    ['d attention_output/bias', 'd attention_output/kernel', 'd input']
    """
    if name in ("torch", "sdpa"):
        from kmha.bench import torch_attention

        return torch_attention.build(name, row, given)
    call, variables, to_canonical = {BUILTIN: _builtin, OURS: _ours, "addons": _addons}[name](row, given.weights)
    run = passes.prepare(row, call, list(variables.values()), given.x, given.upstream)

    def of_weights(gradients: list[Any]) -> Arrays:
        return to_canonical(dict(zip(variables, gradients, strict=True)))

    return Contender(name, run, lambda tensors: named(tensors, of_weights))


def build_layer(layer_class: Any, row: AttentionRow) -> Any:
    """Return a built layer for the row, of a class that takes the built-in's arguments."""
    window = {"sliding_window": row.window} if row.kind == "windowed" else {}
    layer = layer_class(row.heads, row.head_size, dropout=row.dropout, dtype=row.dtype, **window)
    layer.build(row.shape, row.shape)
    return layer


def _of_layer(layer: Any, row: AttentionRow, weights: Arrays) -> tuple[Any, dict[str, Any]]:
    canonical.write(layer, weights)
    options = {"use_causal_mask": row.is_causal, "training": row.is_training}
    if row.kind == "padded":
        options["value_mask"] = keras.ops.convert_to_tensor(padding(row))
    return lambda x: layer(x, x, **options), dict(canonical.variables(layer))


def _builtin(row: AttentionRow, weights: Arrays) -> tuple[Any, dict[str, Any], Any]:
    theirs = build_layer(keras.layers.MultiHeadAttention, row)
    return *_of_layer(theirs, row, keras_layout.to_builtin(weights)), keras_layout.from_builtin


def _ours(row: AttentionRow, weights: Arrays) -> tuple[Any, dict[str, Any], Any]:
    return *_of_layer(build_layer(kmha.MultiHeadAttention, row), row, weights), dict


def _addons(row: AttentionRow, weights: Arrays) -> tuple[Any, dict[str, Any], Any]:
    """The einsums of `tensorflow_addons.layers.MultiHeadAttention`, with gradients left to TensorFlow."""
    import tensorflow as tf

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


def _mask(row: AttentionRow) -> Any:
    """Return the mask that Addons takes, (T, S) or (B, T, S), where 1 means attend."""
    import tensorflow as tf

    if row.kind == "padded":
        return tf.repeat(tf.constant(padding(row)[:, None], tf.float32), row.length, axis=1)
    if row.is_causal:
        below = row.window - 1 if row.kind == "windowed" else -1
        return tf.linalg.band_part(tf.ones((row.length, row.length)), below, 0)
    return None
