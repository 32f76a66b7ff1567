"""The key/value cache: decoding one position at a time, at the price of one position.

Self-attention's keys and values of earlier positions never change, so that each step projects its own position only and
appends it; those of cross-attention are projected once, from `enc_output`. A cache is a dict of tensors (and lists of
them, one for each decoder layer), so that it can be a loop variable:

| entry | shape | what |
| --- | --- | --- |
| index | () | int32, how many positions have been decoded |
| keys, values | (N, H, T, O) | of self-attention; T grows by one with each step |
| cross_keys, cross_values | (B, H, S, O) | of cross-attention |
| projections | (D, 3·H·O), (3·H·O,) | self-attention's three kernels side by side, and biases: one product a step |
| queries | (D, H·O), (H·O,) | the same of cross-attention's query |
| mask | (B, 1, 1, S) | True where the source may be attended to |
| final_kernel | (D, V) | of tied embeddings, the other way round; `Transformer` adds it |

N is B, or a multiple of it: beams, one after the other for each sentence. They share the sentence's `cross_keys` and
`cross_values`, which are not repeated for them. Step by step gives what the whole sequence at once gives, to rounding.
"""

from typing import Any

from keras import ops

from kmha.core import masks
from kmha.core.attention import four_steps
from kmha.layers.block import as_attention_mask
from kmha.layers.decoder import Decoder
from kmha.layers.multi_head_attention import MultiHeadAttention

Cache = dict[str, Any]


def start(decoder: Decoder, enc_output: Any, padding_mask: Any = None, beams: int = 1) -> Cache:
    """A cache before the first position.

    Args:
        decoder: a built one.
        enc_output: (B, S, D).
        padding_mask: (B, S) or (B, 1, S), True means attend; or `None`.
        beams: N / B, how many sequences are decoded for each sentence.

    Raises:
        ValueError: an attention of the decoder is of a kind that cannot be cached.
    """
    cross = [_key_and_value(layer.mha2, enc_output) for layer in decoder.dec_layers]
    rows = ops.shape(enc_output)[0] * beams
    empty = [_check(layer.mha1) for layer in decoder.dec_layers]
    mask = as_attention_mask(decoder.name, "padding_mask", padding_mask, enc_output)
    if mask is None:
        mask = ops.ones((ops.shape(enc_output)[0], 1, ops.shape(enc_output)[1]), dtype="bool")
    return {
        "index": ops.zeros((), dtype="int32"),
        "keys": [ops.zeros((rows, mha.num_heads, 0, mha.key_dim), dtype=mha.compute_dtype) for mha in empty],
        "values": [ops.zeros((rows, mha.num_heads, 0, mha.value_dim), dtype=mha.compute_dtype) for mha in empty],
        "cross_keys": [key for key, _ in cross],
        "cross_values": [value for _, value in cross],
        "projections": [_side_by_side(mha, mha.query_dense, mha.key_dense, mha.value_dense) for mha in empty],
        "queries": [_side_by_side(layer.mha2, layer.mha2.query_dense) for layer in decoder.dec_layers],
        "mask": ops.expand_dims(ops.cast(mask, "bool"), 1),
    }


def take(cache: Cache, rows: Any) -> Cache:
    """The cache with the sequences `rows` (N,) in place of its own, such as beams that go on from others.

    A row must be of the same sentence as the one it takes the place of.
    """
    chosen = {name: [ops.take(x, rows, axis=0) for x in cache[name]] for name in ("keys", "values")}
    return {**cache, **chosen}


def step(decoder: Decoder, ids: Any, cache: Cache) -> tuple[Any, Cache]:
    """One position further.

    Args:
        decoder: the one that the cache was started for.
        ids: (N,), the tokens at position `cache["index"]`.
        cache: as `start`, `take` or `step` returned it.

    Returns:
        (features (N, D), the cache with this position).
    """
    x = decoder._embed(ops.expand_dims(ids, 1), False, start=cache["index"])  # (N, 1, D)
    keys, values = [], []
    own = zip(cache["keys"], cache["values"], cache["projections"], strict=True)
    cross = zip(cache["cross_keys"], cache["cross_values"], cache["queries"], strict=True)
    for layer, before, source in zip(decoder.dec_layers, own, cross, strict=True):

        def block1(query: Any, mha: Any = layer.mha1, before: Any = before) -> Any:
            return _append(mha, query, *before)

        def block2(query: Any, mha: Any = layer.mha2, source: Any = source) -> Any:
            return _attend_to_source(mha, query, source, cache["mask"], cache["index"])

        x, key, value = layer._through(x, block1, block2, False)
        keys.append(key)
        values.append(value)
    features = ops.squeeze(decoder._finish(x), 1)
    return features, {**cache, "index": ops.add(cache["index"], 1), "keys": keys, "values": values}


def _append(
    mha: MultiHeadAttention, query: Any, keys: Any, values: Any, projection: tuple[Any, ...]
) -> tuple[Any, Any, Any]:
    """Self-attention of one position (N, 1, D) to itself and those before; with keys and values that hold it too."""
    if projection:
        size = mha.num_heads * mha.key_dim
        rows = ops.split(_product(query, *projection), (size, 2 * size), axis=-1)
        heads, key, value = (_by_heads(mha, x) for x in rows)  # (N, H, 1, O)
    else:
        heads, (key, value) = _heads_first(mha.query_dense(query)), _key_and_value(mha, query)
    keys, values = ops.concatenate([keys, key], axis=2), ops.concatenate([values, value], axis=2)
    if mha._sliding_window is not None:  # nothing later looks further back
        keys, values = keys[:, :, -mha._sliding_window :], values[:, :, -mha._sliding_window :]
    return _attend(mha, query, heads, keys, values), keys, values


def _attend_to_source(mha: MultiHeadAttention, query: Any, source: tuple[Any, ...], mask: Any, index: Any) -> Any:
    """Cross-attention of (N, 1, D) to keys and values: a sentence's beams are its query positions."""
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


def _key_and_value(mha: MultiHeadAttention, x: Any) -> tuple[Any, Any]:
    """(B, S, D) to keys and values (B, H, S, O)."""
    _check(mha)
    return _heads_first(mha.key_dense(x)), _heads_first(mha.value_dense(x))


def _heads_first(x: Any) -> Any:
    """(B, T, H, O) to (B, H, T, O), and back."""
    return ops.transpose(x, (0, 2, 1, 3))


def _side_by_side(mha: MultiHeadAttention, *projections: Any) -> tuple[Any, ...]:
    """Kernels and biases of `projections`, for `_product`; nothing if they are more than that (quantized)."""
    if any(one.quantization_mode is not None for one in projections):
        return ()
    kernels = [ops.reshape(ops.transpose(one.kernel, (1, 0, 2)), (one.kernel.shape[1], -1)) for one in projections]
    kernel = ops.cast(ops.concatenate(kernels, axis=1), mha.compute_dtype)
    if not mha.use_bias:
        return (kernel,)
    bias = ops.concatenate([ops.reshape(one.bias, (-1,)) for one in projections], axis=0)
    return kernel, ops.cast(bias, mha.compute_dtype)


def _product(x: Any, kernel: Any, bias: Any = None) -> Any:
    """(N, 1, D) times a kernel, (N, …), as one product of matrices."""
    rows = ops.matmul(ops.squeeze(x, 1), kernel)
    return rows if bias is None else ops.add(rows, bias)


def _by_heads(mha: MultiHeadAttention, rows: Any) -> Any:
    """(N, H·O) to (N, H, 1, O)."""
    return ops.reshape(rows, (-1, mha.num_heads, 1, rows.shape[-1] // mha.num_heads))


def _attend(mha: MultiHeadAttention, query: Any, heads: Any, keys: Any, values: Any, mask: Any = None) -> Any:
    """What the layer gives for `query`, whose heads (N, H, T, O) attend to keys and values."""
    mixed = _heads_first(four_steps(heads, keys, values, mask, elementwise=True)[0])
    if mha._use_gate:
        mixed = ops.multiply(mixed, mha._gate_dense(query))
    return mha.output_dense(mixed)


def _check(mha: MultiHeadAttention) -> MultiHeadAttention:
    """Raises a ValueError if the layer's way of attending is one of its own, which would be passed over here."""
    if mha._overrides:
        raise ValueError(
            f"{mha.name}: {type(mha).__name__} overrides `_compute_attention`, and decoding with a cache would not "
            "call it. Decode by calling the whole model for every position."
        )
    return mha
