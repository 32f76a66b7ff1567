"""Calls of the layer with a cache give what one call on the whole sequence gives."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.verify import tolerance
from kmha.verify.comparing.running import WIDEST

pytestmark = pytest.mark.sampled(4)

B, T, I, H, O, V = 2, 7, 10, 3, 4, 5
WIDE = WIDEST[keras.backend.backend()]
RNG = np.random.default_rng(0)
X, OTHER = (RNG.normal(size=(B, length, I)).astype(WIDE) for length in (T, T))
PADDING = np.arange(T) >= np.array([[0], [3]])  # the second sequence begins with padding
KINDS = {
    "plain": {},
    "gate, no biases": {"use_gate": True, "use_bias": False},
    "window": {"sliding_window": 3},
    "dropout": {"dropout": 0.3},
    "wide output": {"output_shape": 11},
}
MODES = {"tensorflow": ["eager", "graph", "xla"], "jax": ["eager", "xla"], "torch": ["eager"]}[keras.backend.backend()]


def _layer(**options):
    keras.utils.set_random_seed(1)
    layer = kmha.MultiHeadAttention(H, O, dtype=WIDE, **options)
    layer.build(X.shape, X.shape)
    for weight in layer.weights:  # biases are not zero
        weight.assign(weight + 0.1 * np.random.default_rng(len(weight.shape)).normal(size=weight.shape))
    return layer


def _empty(layer, length=T, batch=B, pair=False):
    keys = ops.zeros((batch, length, H, layer.key_dim), WIDE)
    values = ops.zeros((batch, length, H, layer.value_dim), WIDE)
    return (keys, values) if pair else ops.stack([keys, values], axis=1)


def _compiled(function, mode):
    if mode == "eager":
        return function
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla", autograph=False)


def _generated(layer, cache, mode="eager", sizes=(1,) * T, x=X, masks=None, **options):
    """Return the outputs of calls of `sizes` positions each, one after the other, and the cache after them."""

    def step(x, cache, index, mask):
        return layer(x, x, cache=cache, cache_update_index=index, attention_mask=mask, **options)

    step, outputs, start = _compiled(step, mode), [], 0
    for size in sizes:
        mask = None if masks is None else masks[:, start : start + size]
        index = start if mode == "eager" else ops.convert_to_tensor(start, "int32")
        output, cache = step(ops.convert_to_tensor(x[:, start : start + size]), cache, index, mask)
        outputs.append(ops.convert_to_numpy(output))
        start += size
    return np.concatenate(outputs, axis=1), cache


def _same(one, other):
    return tolerance.is_close(ops.convert_to_numpy(one), ops.convert_to_numpy(other), WIDE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", [False, True])
def test_position_by_position_equals_the_whole_sequence(kind, mode, pair):
    layer = _layer(**KINDS[kind])
    outputs, cache = _generated(layer, _empty(layer, pair=pair), mode, use_causal_mask=True)
    assert _same(outputs, layer(X, X, use_causal_mask=True))
    keys, values = cache if pair else (cache[:, 0], cache[:, 1])
    assert _same(keys, layer.key_dense(X))
    assert _same(values, layer.value_dense(X))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", [None, 3])
def test_several_positions_at_once(mode, window):
    layer = _layer(sliding_window=window)
    outputs, _ = _generated(layer, _empty(layer, T + 2), mode, (3, 1, 2, 1), use_causal_mask=True)
    assert _same(outputs, layer(X, X, use_causal_mask=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(1,) * T, (3, 4)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [False, True])
def test_masks_of_the_caller(mode, sizes, causal, heads):
    """As in KerasHub, the caller's mask (B, T, S) may hide the future, and then needs no `use_causal_mask`."""
    layer = _layer()
    mask = PADDING[:, None] & (np.tri(T, dtype=bool) | causal)
    whole = layer(X, X, attention_mask=mask, use_causal_mask=causal)
    outputs, _ = _generated(layer, _empty(layer), mode, sizes, masks=mask, use_causal_mask=causal)
    assert _same(outputs, whole)


def test_value_dim_of_its_own_takes_a_pair():
    layer = _layer(value_dim=V)
    outputs, _ = _generated(layer, _empty(layer, pair=True), use_causal_mask=True)
    assert _same(outputs, layer(X, X, use_causal_mask=True))


@pytest.mark.parametrize("sizes", [(1,) * T, (T,), (3, 4)])
def test_masks_of_new_keys_are_laid_where_the_keys_are(sizes):
    """At later calls, the caller's `key_mask` (B, S) hides earlier padding."""
    layer = _layer()
    outputs, cache, start = [], _empty(layer), 0
    for size in sizes:
        seen = np.where(np.arange(T) < start + size, PADDING, True)
        x = X[:, start : start + size]
        mask = {"value_mask": PADDING[:, start : start + size], "key_mask": seen}
        output, cache = layer(x, x, cache=cache, cache_update_index=start, use_causal_mask=True, **mask)
        outputs.append(ops.convert_to_numpy(output))
        start += size
    assert _same(np.concatenate(outputs, 1), layer(X, X, value_mask=PADDING, use_causal_mask=True))


def test_a_carried_mask_of_the_prompt_is_used():
    embedding, layer = keras.layers.Embedding(9, I, mask_zero=True), kmha.MultiHeadAttention(H, O)
    options = {"cache_update_index": 0, "use_causal_mask": True}
    x = embedding(keras.Input((T,), dtype="int32"))
    spec, _ = layer(x, x, cache=keras.Input((2, T + 3, H, O)), **options)
    assert spec.shape == (None, T, I)
    x = embedding(np.where(PADDING, 3, 0))
    output, _ = layer(x, x, cache=ops.zeros((B, 2, T + 3, H, O)), **options)
    expected = layer(x, x, use_causal_mask=True)
    np.testing.assert_allclose(ops.convert_to_numpy(output), ops.convert_to_numpy(expected), atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_cross_attention_projects_its_keys_once(masked):
    layer = _layer()
    mask = PADDING if masked else None
    whole, scores = layer(X[:, :3], OTHER, value_mask=mask, return_attention_scores=True)
    first, cache = layer(X[:, :3], OTHER, value_mask=mask, cache=_empty(layer), cache_update_index=0)
    again, same = layer(X[:, :3], np.zeros_like(OTHER), value_mask=mask, cache=cache)
    one, found, _ = layer(X[:, 1:2], OTHER, value_mask=mask, cache=cache, return_attention_scores=True)
    assert _same(first, whole)
    assert _same(again, whole)
    assert _same(same, cache)
    assert _same(one, whole[:, 1:2])
    assert _same(found, scores[:, :, 1:2])


def test_scores_are_of_all_positions_of_the_cache():
    layer, cache = _layer(), None
    cache = _empty(layer)
    _, expected = layer(X, X, use_causal_mask=True, return_attention_scores=True)
    for index in range(T):
        x = X[:, index : index + 1]
        options = {"use_causal_mask": True, "return_attention_scores": True}
        _, scores, cache = layer(x, x, cache=cache, cache_update_index=index, **options)
        assert _same(scores, expected[:, :, index : index + 1])


@pytest.mark.parametrize("pair", [False, True])
def test_functional_models_with_a_cache(pair):
    layer = _layer(value_dim=V if pair else None)
    x, index = keras.Input((1, I), dtype=WIDE), keras.Input(batch_shape=(), dtype="int32")
    caches = [keras.Input(part.shape[1:], dtype=WIDE) for part in keras.tree.flatten(_empty(layer, pair=pair))]
    cache = tuple(caches) if pair else caches[0]
    options = {"use_causal_mask": True, "return_attention_scores": True}
    results = layer(x, x, cache=cache, cache_update_index=index, **options)
    assert [tuple(part.shape) for part in keras.tree.flatten(results)] == [
        (None, 1, I),
        (None, H, 1, T),
        *[tuple(part.shape) for part in caches],
    ]
    model = keras.Model([x, caches, index], results)
    ones = [ops.ones((B, *part.shape[1:]), WIDE) for part in caches]
    given = [ops.convert_to_tensor(X[:, :1]), ones, ops.convert_to_tensor(2, "int32")]
    found = model(given)
    direct = layer(X[:, :1], X[:, :1], cache=tuple(given[1]) if pair else given[1][0], cache_update_index=2, **options)
    for one, other in zip(keras.tree.flatten(found), keras.tree.flatten(direct), strict=True):
        assert tuple(one.shape) == tuple(other.shape)
        assert _same(one, other)


def test_an_own_attention_gets_causality_and_offset_in_its_mask():
    class Own(kmha.MultiHeadAttention):
        def _compute_attention(self, query, key, value, attention_mask=None, *args, **options):
            seen.append(ops.convert_to_numpy(attention_mask).astype(int).tolist())
            return super()._compute_attention(query, key, value, attention_mask, *args, **options)

    seen, layer = [], Own(H, O, dtype=WIDE)
    cache, options = ops.zeros((B, 2, 3, H, O), WIDE), {"use_causal_mask": True}
    for index in range(2):
        x = X[:, index : index + 1]
        output, cache = layer(x, x, cache=cache, cache_update_index=index, **options)
    assert seen == [[[1, 0, 0]], [[1, 1, 0]]]
    assert _same(output, layer(X[:, :2], X[:, :2], **options)[:, 1:])


REFUSED = {
    "no cache": ({"cache": None}, "position to write in `cache`"),
    "shape": ({"cache": (B, 2, T, H, O + 1)}, r"`cache` must be a tensor \(B, 2, S, H, O\) = \(B, 2, S, 3, 4\)"),
    "batch": ({"cache": (B + 1, 2, T, H, O)}, "batch size B=2"),
    "keys alone": ({"cache": (B, T, H, O)}, "Received: .2, 7, 3, 4."),
    "dtype": ({"dtype": "int32"}, "of int32"),
    "no mask": ({"use_causal_mask": False}, "not written yet"),
    "no room": ({"cache_update_index": T}, "must be room for all new keys"),
    "vector": ({"cache_update_index": np.array([1, 2])}, "one integer for all sequences"),
    "no index": ({"cache_update_index": None}, "need `cache_update_index`"),
    "mask": ({"attention_mask": np.ones((B, 1, 1 + T), bool)}, "with a cache of S=7 positions"),
    "padding": ({"value_mask": np.ones((B, T - 2), bool)}, "with a cache of S=7 positions"),
}


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_errors(name, symbolic):
    if symbolic and name in ("vector",):
        pytest.skip("known when the model is called")
    options, message = dict(REFUSED[name][0]), REFUSED[name][1]
    options = {
        "cache": (B, 2, T, H, O),
        "cache_update_index": 0,
        "use_causal_mask": True,
        "dtype": "float32",
        **options,
    }
    shape, dtype = options.pop("cache"), options.pop("dtype")
    cache = None if shape is None else ops.zeros(shape, dtype)
    x = keras.Input((1, I), batch_size=B) if symbolic else np.zeros((B, 1, I), "float32")
    if symbolic and shape is not None:
        cache = keras.Input(batch_shape=shape, dtype=dtype)
    with pytest.raises(ValueError, match=message):
        kmha.MultiHeadAttention(H, O)(x, x, cache=cache, **options)


def test_what_a_cache_cannot_hold():
    cache = ops.zeros((B, 2, T, H, O))
    x = np.zeros((B, 1, I), "float32")
    options = {"cache": cache, "cache_update_index": 0, "use_causal_mask": True}
    with pytest.raises(ValueError, match=r"a pair of keys \(B, S, 3, 4\) and values \(B, S, 3, 5\)"):
        kmha.MultiHeadAttention(H, O, value_dim=V)(x, x, **options)
    with pytest.raises(ValueError, match="three axes"):
        kmha.MultiHeadAttention(H, O)(x[:, None], x[:, None], **options)

    class OwnMask(kmha.MultiHeadAttention):
        def _compute_causal_mask(self, query, value=None):
            return super()._compute_causal_mask(query, value)

    with pytest.raises(ValueError, match="no subclass may override"):
        OwnMask(H, O)(x, x, **options)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", "bfloat16"])
def test_half_precision(dtype):
    layer = kmha.MultiHeadAttention(H, O, dtype=dtype)
    x = X.astype("float32")
    whole = ops.convert_to_numpy(ops.cast(layer(x, x, use_causal_mask=True), "float32"))
    cache, found = ops.zeros((B, 2, T, H, O), layer.compute_dtype), []
    for index in range(T):
        one = x[:, index : index + 1]
        output, cache = layer(one, one, cache=cache, cache_update_index=index, use_causal_mask=True)
        found.append(ops.convert_to_numpy(ops.cast(output, "float32")))
    assert tolerance.is_close(np.concatenate(found, 1), whole, layer.compute_dtype)


@pytest.mark.slow
def test_the_same_calls_as_keras_hub():
    hub = pytest.importorskip("keras_hub")
    from kmha.interchange import canonical
    from kmha.interchange.keras import from_builtin

    theirs, ours = hub.layers.CachedMultiHeadAttention(H, O), kmha.MultiHeadAttention(H, O)
    for layer in (theirs, ours):
        layer.build(X.shape, X.shape)
    canonical.write(ours, from_builtin(canonical.read(theirs)))
    x, cache = X.astype("float32"), RNG.normal(size=(B, 2, T, H, O)).astype("float32")
    causal = np.tri(T, dtype=bool)[None]
    calls = [
        {"cache": cache},
        {"cache": cache, "return_attention_scores": True},
        {"cache": cache, "cache_update_index": 2, "attention_mask": causal[:, 2:3], "size": 1},
        {"cache": cache, "cache_update_index": 3, "attention_mask": causal[:, 3:5], "size": 2},
        {"cache": cache, "cache_update_index": 4, "attention_mask": causal[:, 4:6], "return_attention_scores": True},
        {"cache": cache, "cache_update_index": 0, "size": T},
    ]
    for call in calls:
        query = x[:, : call.pop("size", 2)]
        for one, other in zip(theirs(query, query, **call), ours(query, query, **call), strict=True):
            one, other = (ops.convert_to_numpy(part) for part in (one, other))
            assert tolerance.is_close(other, one, "float32")


GPT2 = """
import sys
import keras, numpy as np

if sys.argv[1] == "kmha":
    import kmha
    patch = kmha.patch_keras()
    patch.__enter__()
import keras_hub

keras.utils.set_random_seed(3)
sizes = {"vocabulary_size": 50, "num_layers": 2, "num_heads": 3, "hidden_dim": 12, "intermediate_dim": 20}
backbone = keras_hub.models.GPT2Backbone(**sizes, max_sequence_length=16, dropout=0.0)
for weight in backbone.weights:  # kernels of attention, whose layouts differ, start alike
    if len(weight.shape) < 3:
        numbers = np.random.default_rng(int(np.prod(weight.shape))).normal(size=weight.shape)
        weight.assign(weight + 0.5 * numbers)
model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
model.compile(sampler="greedy")
ids = np.random.default_rng(0).integers(1, 50, size=(2, 16)).astype("int32")
prompts = {"token_ids": ids, "padding_mask": (np.arange(16) < np.array([[3], [5]])).astype("int32")}
print(type(backbone.transformer_layers[0]._self_attention_layer).__mro__[1].__module__.split(".")[0])
print(np.asarray(model.generate(prompts, stop_token_ids=None)["token_ids"]).tolist())
"""


@pytest.mark.slow
def test_gpt2_of_keras_hub_generates_the_same_tokens():
    pytest.importorskip("keras_hub")
    found = []
    for name in ("keras", "kmha"):
        command = [sys.executable, "-W", "ignore", "-c", GPT2, name]
        # KerasHub mixes indices of 32 and 64 bits, which JAX refuses.
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_ENABLE_X64": "0"})
        assert done.returncode == 0, done.stderr
        module, tokens = done.stdout.splitlines()[-2:]
        assert module == name
        found.append(tokens)
    assert found[0] == found[1]
    assert len(set(found[0].split(","))) > 10
