"""The key/value cache, with which each decoding step computes only one position instead of the whole sequence.

The keys and values of self-attention at earlier positions never change. So each step only projects its own position,
and appends the key and the value. The keys and values of cross-attention are projected once, from `enc_output`. A cache
is a dict of tensors, or of lists with one tensor for each decoder layer, so that it can be a loop variable:

| entry | shape | meaning |
| --- | --- | --- |
| index | () | int32, number of decoded positions |
| keys, values | (N, H, T, O) | self-attention, where T grows by one with each step, or is the `length` given at start |
| fixed | () | only if T is fixed |
| cross_keys, cross_values | (B, H, S, O) | cross-attention |
| projections | (D, 3·H·O), (3·H·O,) | kernels and biases of self-attention side by side, for one product per step |
| queries | (D, H·O), (H·O,) | kernel and bias of the query of cross-attention |
| mask | (B, 1, 1, S) | True where the source may be attended to |
| final_kernel | (D, V) | tied embedding, transposed, which `Transformer` adds |

N is the number of sequences. It is B or, with beams, a multiple of B: first all beams of the first sentence, and so on.
The beams of a sentence share its `cross_keys` and `cross_values`, which are not repeated. Decoding step by step gives
the same numbers as the full sequence, to rounding.
"""

from typing import Any

import numpy as np
from keras import ops

from kmha.core import masks
from kmha.core.attention import four_steps
from kmha.core.tensors import Tensor
from kmha.layers import masking
from kmha.layers.decoder import Decoder
from kmha.layers.multi_head_attention import MultiHeadAttention

Cache = dict[str, Any]


def start(
    decoder: Decoder, enc_output: Any, padding_mask: Any = None, beams: int = 1, length: int | None = None
) -> Cache:
    """Return the cache before the first position.

    Args:
        decoder: A built decoder.
        enc_output: Output of the encoder (B, S, D).
        padding_mask: Mask (B, S) or (B, 1, S) in which True means attend, or `None`.
        beams: Number of sequences to decode for each sentence (N / B).
        length: Maximum number of positions. With it, all steps have the same shapes, so that JAX compiles one step.

    Raises:
        ValueError: If an attention layer of the decoder cannot be cached.
    """
    cross = [_key_and_value(layer.mha2, enc_output) for layer in decoder.dec_layers]
    rows = ops.shape(enc_output)[0] * beams
    empty = [_check(layer.mha1) for layer in decoder.dec_layers]
    mask = masking.with_query_axis(decoder.name, "padding_mask", padding_mask, enc_output)
    if mask is None:
        mask = ops.ones((ops.shape(enc_output)[0], 1, ops.shape(enc_output)[1]), dtype="bool")
    room = length or 0
    return {
        **({"fixed": ()} if length else {}),
        "index": ops.zeros((), dtype="int32"),
        "keys": [ops.zeros((rows, mha.num_heads, room, mha.key_dim), dtype=mha.compute_dtype) for mha in empty],
        "values": [ops.zeros((rows, mha.num_heads, room, mha.value_dim), dtype=mha.compute_dtype) for mha in empty],
        "cross_keys": [key for key, _ in cross],
        "cross_values": [value for _, value in cross],
        "projections": [_side_by_side(mha, mha.query_dense, mha.key_dense, mha.value_dense) for mha in empty],
        "queries": [_side_by_side(layer.mha2, layer.mha2.query_dense) for layer in decoder.dec_layers],
        "mask": ops.expand_dims(ops.cast(mask, "bool"), 1),
    }


def take(cache: Cache, rows: Tensor) -> Cache:
    """Return the cache after replacing its sequences by those at the indices `rows` (N,), as beam search requires.

    A sequence may only replace another sequence of the same sentence.
    """
    chosen = {name: [ops.take(x, rows, axis=0) for x in cache[name]] for name in ("keys", "values")}
    return {**cache, **chosen}


def step(decoder: Decoder, ids: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
    """Decode one position.

    Args:
        decoder: Decoder that the cache was started for.
        ids: Tokens (N,) at position `cache["index"]`.
        cache: Cache from `start`, `take` or `step`.

    Returns:
        The features (N, D), and the cache including this position.
    """
    x = decoder._embed(ops.expand_dims(ids, 1), False, start=cache["index"])  # (N, 1, D)
    keys, values = [], []
    own = zip(cache["keys"], cache["values"], cache["projections"], strict=True)
    cross = zip(cache["cross_keys"], cache["cross_values"], cache["queries"], strict=True)
    for layer, before, source in zip(decoder.dec_layers, own, cross, strict=True):

        def block1(query: Tensor, mha: Any = layer.mha1, before: Any = before) -> Any:
            return _append(mha, query, cache["index"], "fixed" in cache, *before)

        def block2(query: Tensor, mha: Any = layer.mha2, source: Any = source) -> Any:
            return _attend_to_source(mha, query, source, cache["mask"], cache["index"])

        x, key, value = layer._through(x, block1, block2, False)
        keys.append(key)
        values.append(value)
    features = ops.squeeze(decoder._finish(x), 1)
    return features, {**cache, "index": ops.add(cache["index"], 1), "keys": keys, "values": values}


def observers(model: Any) -> tuple[Any, ...]:
    """Return what observes the attention layers of a `Transformer`. It is empty outside of `kmha.show.capture`.

    Code that was compiled for other observers calls those.
    """
    found = (getattr(layer, "_observe", None) for layer in model._flatten_layers())
    return tuple(observe for observe in found if observe is not None)


def report(model: Any, sentences: np.ndarray, rows: np.ndarray, length: int) -> None:
    """Tell the observers of a model which sequences a search has chosen.

    Args:
        model: The `Transformer` that decoded.
        sentences: Index along B of the sentence of each chosen sequence (C,).
        rows: Index along N that each chosen sequence had at each step (C, steps), and -1 after its last step.
        length: Number of source ids (S).
    """
    steps = int((rows >= 0).sum(axis=1).max())
    told = [(layer, sentences[:, None], length) for layer in model.encoder._flatten_layers()]
    for block in model.decoder.dec_layers:
        told += [(block.mha1, rows, steps), (block.mha2, rows, length)]
    for layer, chosen, keys in told:
        if getattr(layer, "_observe_search", None) is not None:
            layer._observe_search(chosen, keys)


def _append(
    mha: MultiHeadAttention,
    query: Tensor,
    index: Tensor,
    fixed: bool,
    keys: Tensor,
    values: Tensor,
    projection: tuple[Tensor, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """Self-attend from one position (N, 1, D) to itself and earlier ones. Also return the extended keys and values.

    With `fixed`, keys and values already have room for the position, which is `index`.
    """
    if projection:
        size = mha.num_heads * mha.key_dim
        rows = ops.split(_product(query, *projection), (size, 2 * size), axis=-1)
        heads, key, value = (_by_heads(mha, x) for x in rows)  # (N, H, 1, O)
    else:
        heads, (key, value) = _heads_first(mha.query_dense(query)), _key_and_value(mha, query)
    if fixed:
        zero = ops.zeros_like(index)  # JAX requires indices of one dtype
        at = zero, zero, index, zero
        keys, values = ops.slice_update(keys, at, key), ops.slice_update(values, at, value)
        mask = masks.structured(1, keys.shape[2], True, mha._sliding_window, index)
        return _attend(mha, query, heads, keys, values, mask[None, None]), keys, values
    keys, values = ops.concatenate([keys, key], axis=2), ops.concatenate([values, value], axis=2)
    if mha._sliding_window is not None:  # no later position looks further back
        keys, values = keys[:, :, -mha._sliding_window :], values[:, :, -mha._sliding_window :]
    return _attend(mha, query, heads, keys, values, last=index), keys, values


def _attend_to_source(
    mha: MultiHeadAttention, query: Tensor, source: tuple[Tensor, ...], mask: Tensor, index: Tensor
) -> Tensor:
    """Attend from (N, 1, D) to the source's keys and values, with the beams of a sentence as its query positions."""
    keys, values, projection = source
    if mha._sliding_window is not None:
        mask = masks.combine(mask, masks.window(1, ops.shape(keys)[2], mha._sliding_window, index))
    beams = ops.reshape(query, (ops.shape(keys)[0], -1, query.shape[-1]))  # (B, N / B, D)
    if projection:
        heads = ops.reshape(_product(query, *projection), (*ops.shape(beams)[:2], mha.num_heads, mha.key_dim))
    else:
        heads = mha.query_dense(beams)
    attended = _attend(mha, beams, _heads_first(heads), keys, values, mask)
    return ops.reshape(attended, (*ops.shape(query)[:2], -1))


def _key_and_value(mha: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Project (B, S, D) to keys and values (B, H, S, O)."""
    _check(mha)
    return _heads_first(mha.key_dense(x)), _heads_first(mha.value_dense(x))


def _heads_first(x: Tensor) -> Tensor:
    """Turn (B, T, H, O) into (B, H, T, O), or back."""
    return ops.transpose(x, (0, 2, 1, 3))


def _side_by_side(mha: MultiHeadAttention, *projections: Any) -> tuple[Tensor, ...]:
    """Return the kernels and biases of `projections` side by side, for `_product`. If they are quantized, return ()."""
    if any(one.quantization_mode is not None for one in projections):
        return ()
    kernels = [ops.reshape(ops.transpose(one.kernel, (1, 0, 2)), (one.kernel.shape[1], -1)) for one in projections]
    kernel = ops.cast(ops.concatenate(kernels, axis=1), mha.compute_dtype)
    if not mha.use_bias:
        return (kernel,)
    bias = ops.concatenate([ops.reshape(one.bias, (-1,)) for one in projections], axis=0)
    return kernel, ops.cast(bias, mha.compute_dtype)


def _product(x: Tensor, kernel: Tensor, bias: Tensor = None) -> Tensor:
    """Return (N, …), the matrix product of `x` (N, 1, D) and a kernel (D, …)."""
    rows = ops.matmul(ops.squeeze(x, 1), kernel)
    return rows if bias is None else ops.add(rows, bias)


def _by_heads(mha: MultiHeadAttention, rows: Tensor) -> Tensor:
    """Turn (N, H·O) into (N, H, 1, O)."""
    return ops.reshape(rows, (-1, mha.num_heads, 1, rows.shape[-1] // mha.num_heads))


def _attend(
    mha: MultiHeadAttention,
    query: Tensor,
    heads: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor = None,
    last: Tensor = None,
) -> Tensor:
    """Return the layer's output for `query`, whose heads (N, H, T, O) attend to keys and values.

    `last` is the position of the last key. `None` means that the keys start at position 0.
    """
    mixed, scores = four_steps(heads, keys, values, mask, scale=mha._inverse_sqrt_key_dim, elementwise=True)
    if mha._observe is not None:  # with each beam as a sequence of its own
        mha._observe(ops.reshape(_heads_first(scores), (-1, mha.num_heads, 1, ops.shape(scores)[-1])), last)
    mixed = _heads_first(mixed)
    if mha._use_gate:
        mixed = ops.multiply(mixed, mha._gate_dense(query))
    return mha.output_dense(mixed)


def _check(mha: MultiHeadAttention) -> MultiHeadAttention:
    """Raise a ValueError if the layer overrides how attention is computed, which the cache does not call."""
    if mha._replaced:
        names = ", ".join(f"`{name}`" for name in sorted(mha._replaced))
        raise ValueError(
            f"{mha.name}: {type(mha).__name__} overrides {names}, which decoding with a cache does not call."
            " Decode without the cache: call the model on the full sequence for every position."
        )
    return mha
