"""Calls of `MultiHeadAttention` with a cache of keys and values, as a model needs them that generates its own input.

The call forms are those of KerasHub's `CachedMultiHeadAttention`. `kmha.core.kv_cache` tells the shapes of a cache.
"""

import numbers
from typing import Any

import keras
from keras import ops

from kmha.core import kv_cache, masks
from kmha.core.tensors import Tensor
from kmha.layers import checks, masking
from kmha.layers.inner_methods import MASKS, training_of_call


def attend(
    layer: Any,
    query: Tensor,
    value: Tensor,
    key: Tensor,
    cache: Any,
    index: Tensor,
    given: dict[str, Tensor],
    *,
    causal: bool,
    training: bool | None,
    return_scores: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Project the inputs, write key and value into the cache, and attend to the cache.

    Args:
        layer: A built `MultiHeadAttention`.
        query: Query (B, T, I).
        value: Value (B, N, I).
        key: Key (B, N, I).
        cache: The cache, with S positions.
        index: Position of the first query and of the first key. `None` leaves the cache as it is.
        given: The call's masks by name, and `carried_mask`.
        causal: Attend only to positions up to the query's own.
        training: Apply dropout.
        return_scores: Also return the scores.

    Returns:
        The mixed values (B, T, H, O), the scores (B, H, T, S) or `None`, the query's own mask or `None`, and the cache.

    Raises:
        ValueError: If the cache does not fit the layer or the inputs, or the call lacks what a cache needs.
    """
    options = {"causal": causal, "attention_mask": given["attention_mask"]}
    length = check(layer, query.shape, key.shape, cache, index, **options)
    cache = tuple(cache) if isinstance(cache, list) else cache
    if index is not None:
        index = _number(index)
        cache = kv_cache.write(cache, index, layer._key_dense(key), layer._value_dense(value))
    mask, rows = _join(layer, query, key, length, index, given)
    count = None  # number of written positions, if only these are read
    if causal and not (return_scores or layer._replaced) and (_is_start(index) or kv_cache.has_dynamic_shapes()):
        count = index + ops.shape(query)[1]
        mask = None if mask is None else mask[..., :count]
    heads = layer._query_dense(query), *kv_cache.read(cache, count)
    training = training_of_call() if training is None else training
    one = query.shape[1] == 1
    structure = {"causal": causal and not (one and count is not None), "width": layer._sliding_window}
    mixed, scores = _mix(layer, heads, mask, structure, index, training, return_scores)
    return mixed, scores, rows, cache


def check(layer: Any, query: Any, key: Any, cache: Any, index: Any, *, causal: bool, attention_mask: Any) -> int | None:
    """Return the number of positions of the cache (S), or raise a ValueError if it does not fit the layer or the call.

    `query` and `key` are shapes.
    """
    heads, sizes = layer._num_heads, (layer._key_dim, layer._value_dim)
    name = f"{layer.name}: with a cache,"
    if cache is None:
        raise ValueError(
            f"{layer.name}: `cache_update_index` is the position to write in `cache`. Received: cache=None, "
            f"cache_update_index={index}. Pass a cache too: keras.ops.zeros((B, 2, S, {heads}, {sizes[0]}))."
        )
    if len(query) != 3 or not layer._replaced.isdisjoint(MASKS):
        raise ValueError(
            f"{name} query, value and key must have three axes (B, T, I), and no subclass may override "
            f"{', '.join(f'`{mask}`' for mask in MASKS)}, which know no positions. Received: query.shape={query}, "
            f"{type(layer).__name__}. Call the layer without a cache."
        )
    length = _check_tensors(layer, query, cache, heads, sizes)
    if index is None and (causal or layer._sliding_window):
        raise ValueError(
            f"{name} `use_causal_mask` and `sliding_window` need `cache_update_index`, the position of the first query "
            "and key. Without it, the cache stays as it is and the query's position is unknown: pass `attention_mask`."
        )
    number = int(index) if isinstance(index, numbers.Integral) else 0
    if index is not None and length is not None and key[1] is not None and not 0 <= number <= length - key[1]:
        raise ValueError(
            f"{name} there must be room for all new keys: 0 ≤ cache_update_index ≤ S - N = {length - key[1]}. "
            f"Received: cache_update_index={index}, S={length} positions in the cache, N={key[1]} in the key."
        )
    hides_nothing = not causal and attention_mask is None
    if index is not None and hides_nothing and not checks._agree(key[1], length):
        raise ValueError(
            f"{name} a query would also attend to positions that are not written yet. Pass `use_causal_mask=True` or "
            f"an `attention_mask` (B, T, S). Received: S={length} positions in the cache, {key[1]} in the key."
        )
    return length


def check_symbolic(layer: Any, query: Any, key: Any, given: dict[str, Any], masks: dict[str, Any]) -> Any:
    """Check a symbolic call. Return the name for errors, the shape of the cached keys, and the masks of their size."""
    index, options = given.get("cache_update_index"), {"causal": given.get("use_causal_mask", False)}
    options["attention_mask"] = given.get("attention_mask")
    length = check(layer, query.shape, key.shape, given.get("cache"), index, **options)
    masks = {name: mask for name, mask in masks.items() if name == "attention_mask" or not _is_new(mask, key, length)}
    return _where(layer, length), (key.shape[0], length, key.shape[-1]), masks


def spec(layer: Any, cache: Any) -> Any:
    """Return the symbolic cache that a call returns for the symbolic `cache`."""
    return keras.tree.map_structure(lambda x: keras.KerasTensor(x.shape, layer.compute_dtype), cache)


def _check_tensors(layer: Any, query: Any, cache: Any, heads: int, sizes: tuple[int, int]) -> int | None:
    """Return S, or raise a ValueError unless the cache has the layer's shape and dtype."""
    parts = cache if isinstance(cache, (tuple, list)) else [cache]
    found = [(tuple(x.shape), keras.backend.standardize_dtype(x.dtype)) for x in parts]
    length = next((shape[-3] for shape, _ in found if len(shape) > 3), None)
    if len(found) == 2 or sizes[0] != sizes[1]:
        wanted: list[Any] = [(query[0], length, heads, size) for size in sizes]
        text = f"a pair of keys (B, S, {heads}, {sizes[0]}) and values (B, S, {heads}, {sizes[1]})"
    else:
        wanted = [(query[0], 2, length, heads, sizes[0])]
        text = f"a tensor (B, 2, S, H, O) = (B, 2, S, {heads}, {sizes[0]})"
    fits = len(found) == len(wanted) and all(
        len(shape) == len(target) and dtype == layer.compute_dtype and all(map(checks._agree, shape, target))
        for (shape, dtype), target in zip(found, wanted, strict=True)
    )
    if not fits:
        shapes = ", ".join(f"{shape} of {dtype}" for shape, dtype in found)
        raise ValueError(
            f"{layer.name}: `cache` must be {text}, of {layer.compute_dtype}, with the query's batch size "
            f"B={query[0]}. Received: {shapes}. Begin with `keras.ops.zeros`."
        )
    return length


def _number(index: Any) -> Any:
    """Return the index as a Python number if it is one, and else as a scalar tensor of int32."""
    if isinstance(index, numbers.Integral):
        return int(index)
    index = ops.convert_to_tensor(index)
    if len(index.shape) or "int" not in keras.backend.standardize_dtype(index.dtype):
        raise ValueError(
            "`cache_update_index` must be one integer for all sequences, or a scalar tensor of integers. Received: "
            f"shape {tuple(index.shape)}, dtype {keras.backend.standardize_dtype(index.dtype)}."
        )
    return ops.cast(index, "int32")


def _is_start(index: Any) -> bool:
    return isinstance(index, int) and index == 0


def _join(
    layer: Any, query: Tensor, key: Tensor, length: Any, index: Any, given: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return what `masking.join` does for the positions of the cache. A mask of new keys is laid where they are."""
    laid = {}
    for name in ("value_mask", "key_mask"):
        mask = given[name]
        if mask is not None and index is not None and _is_new(mask, key, length):
            everything = ops.ones((ops.shape(query)[0], length), dtype="bool")
            laid[name] = kv_cache.overwrite(everything, index, masking.as_boolean(mask, name))
    cached = keras.KerasTensor((query.shape[0], length, key.shape[-1]))
    return masking.join(_where(layer, length), layer._folding, query, cached, layer._num_heads, **given | laid)


def _is_new(mask: Any, key: Any, length: Any) -> bool:
    """Tell whether a mask (B, N) is of the new keys instead of the cache's."""
    return mask.shape[-1] == key.shape[1] != length


def _where(layer: Any, length: Any) -> str:
    return f"{layer.name}, called with a cache of S={length} positions"


def _mix(
    layer: Any,
    heads: tuple[Tensor, Tensor, Tensor],
    mask: Tensor,
    structure: dict[str, Any],
    index: Any,
    training: bool | None,
    return_scores: bool,
) -> tuple[Tensor, Tensor]:
    """Attend from query to key and value. `structure` is causality and window, of queries from position `index` on."""
    query, key, value = heads
    own = layer._replaced or layer._replaces_steps
    one = query.shape[1] == 1 and not (own or return_scores or (training and layer._dropout))
    if not one and not own and _is_start(index):
        names = {"use_causal_mask": structure["causal"], "sliding_window": structure["width"]}
        return layer._compute_attention(query, key, value, mask, training, return_scores, **names)
    structured = masks.structured(
        ops.shape(query)[1], ops.shape(key)[1], structure["causal"], structure["width"], index
    )
    mask = layer._folding.combine(mask, structured)
    if not one:
        return layer._compute_attention(query, key, value, mask, training, return_scores)
    mask = None if mask is None else layer._folding.with_missing_axes(mask, 4)
    mixed, scores = kv_cache.attend_from_one(query, key, value, mask, layer._inverse_sqrt_key_dim)
    if layer._observe is not None:
        layer._observe(scores)
    return mixed, None
