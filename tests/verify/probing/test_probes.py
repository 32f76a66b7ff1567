import json
import re

import keras
import numpy as np
import pytest

import kmha
from kmha.verify import probe
from kmha.verify.probing.report import TEXTS

pytestmark = pytest.mark.sampled(4)

B, T, S, I = 3, 7, 5, 8
ALWAYS = ("finite", "repeats", "batch_order", "batch_size")
PADDING = ("padding", "padding_length")


def numbers(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def lengths(size, *of):
    return np.arange(size) < np.array(of)[:, None]


X, MEMORY = numbers(B, T, I), numbers(B, S, 6)
X_MASK, MEMORY_MASK = lengths(T, 4, 7, 5), lengths(S, 3, 5, 4)
IDS = np.array([[1, 4, 2, 0, 0, 0], [3, 9, 5, 7, 8, 6]])
builtin, ours = keras.layers.MultiHeadAttention, kmha.MultiHeadAttention


def holding(found, *names):
    return {name: found[name].holds for name in names}


@pytest.mark.parametrize("attention", [builtin, ours])
@pytest.mark.parametrize(
    ("inputs", "call", "causal"),
    [
        ((X,), {}, False),
        ((X, X), {"use_causal_mask": True}, True),
        ((X, X, X), {"mask": X_MASK, "return_attention_scores": True}, False),
        ((X, X), {"attention_mask": X_MASK[:, None] & np.tri(T, dtype=bool)}, True),
        (((B, T, I), (B, S, 6)), {}, None),
        ((X, MEMORY), {"mask": {"value": MEMORY_MASK}}, None),
        ((X, MEMORY), {"attention_mask": MEMORY_MASK[:, None]}, None),
        ((X,), {"value": MEMORY, "value_mask": MEMORY_MASK}, None),
    ],
    ids=["self", "causal", "masked", "masks as one", "cross", "masked cross", "attention mask", "by name"],
)
def test_attention_is_right(attention, inputs, call, causal):
    found = probe(attention(2, 3, dropout=0.1), *inputs, **call)
    assert found.passed, found
    yes = (*ALWAYS, *PADDING, "rows", "gradient")
    assert holding(found, *yes) == dict.fromkeys(yes, True)
    if causal is not None:
        assert found["causal"].holds is causal
        assert found["causal"].expected is (True if "use_causal_mask" in call else None)
    assert "training=True changes it by" in found["repeats"].where
    assert "key/bias" in found["gradient"].where


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_tolerance_is_that_of_the_coarsest_dtype(dtype):
    if dtype == "float64" and keras.backend.backend() == "torch":
        pytest.skip("Keras multiplies float64 in float32 there")
    found = probe(ours(2, 3, dtype=dtype), X.astype("float64"), mask=X_MASK, use_causal_mask=True)
    assert found.passed, found
    assert found.tolerance == {"mixed_float16": 2**-7, "mixed_bfloat16": 2**-4, "float64": 1e-10}[dtype]
    assert not probe(ours(2, 3, dtype=dtype), X, X, causal=True).passed


@pytest.mark.tensorflow  # JAX would compile for minutes
def test_encoder_layer():
    found = probe(kmha.layers.EncoderLayer(I, 2, 9), X, mask=X_MASK[:, None])  # (B, 1, T), as the course has it
    assert found.passed, found
    yes = (*ALWAYS, *PADDING, "rows", "gradient")
    assert holding(found, *yes, "causal") == {**dict.fromkeys(yes, True), "causal": False}


def test_decoder_layer():
    found = probe(kmha.layers.DecoderLayer(I, 2, 9), X, MEMORY, causal="x", padding_mask=MEMORY_MASK)
    assert found.passed, found
    yes = (*ALWAYS, *PADDING, "rows", "gradient", "causal: x")
    assert holding(found, *yes) == dict.fromkeys(yes, True)
    assert "mha2/key/bias" in found["gradient"].where


@pytest.mark.tensorflow  # JAX would compile for minutes
def test_transformer():
    """Source and target have the same length, so only their names tell which one may be seen."""
    model = kmha.layers.Transformer(1, I, 2, 9, 11, 12, 20, 21, tie_embeddings="target")
    ids = [keras.Input((T,), dtype="int32", name=name) for name in ("source", "target")]
    found = probe(model, *ids, causal="target")
    assert found.passed, found
    yes = (*ALWAYS, *PADDING, "rows", "gradient", "causal: target")
    assert holding(found, *yes, "causal: source") == {**dict.fromkeys(yes, True), "causal: source": False}
    assert (found["causal: source"].expected, found["causal: target"].expected) == (None, True)
    inner = probe(model, [IDS, IDS[:, :4]], layer="decoder/layer1/mha2")
    assert "MultiHeadAttention 'mha2'" in inner.subject
    assert inner.passed, inner
    assert inner["rows"].holds


def functional(length=None, attention=ours, **call):
    ids = keras.Input((length,), dtype="int32", name="ids")
    x = keras.layers.Embedding(11, I, mask_zero=True)(ids)
    x = attention(2, 3, name="mha_1")(x, x, **call)
    return keras.Model(ids, keras.layers.Dense(6)(keras.layers.LayerNormalization()(x)))


@pytest.mark.tensorflow  # JAX would compile for minutes
@pytest.mark.parametrize(
    ("attention", "inputs", "layer"),
    [(ours, (), None), (ours, (IDS,), "mha_1"), (builtin, (IDS.tolist(),), None), (builtin, (), "mha_1")],
)
def test_functional_model(attention, inputs, layer):
    found = probe(functional(attention=attention, use_causal_mask=True), *inputs, layer=layer, causal=True)
    assert found.passed, found
    yes = (*ALWAYS, *PADDING, "rows", "gradient", "causal")
    assert holding(found, *yes) == dict.fromkeys(yes, True)


@pytest.mark.tensorflow  # JAX would compile for minutes
def test_inputs_side_by_side():
    """Ids, segments and a mask, all of one length, which grow and are padded together."""
    names = ("token_ids", "segment_ids", "padding_mask")
    tokens, segments, mask = given = [keras.Input((None,), dtype="int32", name=name) for name in names]
    x = keras.layers.Embedding(50, I)(tokens) + keras.layers.Embedding(2, I)(segments)
    seen = keras.ops.expand_dims(keras.ops.cast(mask, "bool"), 1)
    model = keras.Model(given, builtin(2, 3)(x, x, attention_mask=seen))
    ids = np.array([[3, 4, 5, 6, 0, 0], [7, 8, 9, 3, 4, 5], [4, 9, 0, 0, 0, 0]])
    for inputs in ([], [[ids, (ids > 5) * 1, (ids != 0) * 1]]):
        found = probe(model, *inputs)
        assert found.passed, found
        yes = (*ALWAYS, *PADDING, "rows", "gradient")
        assert holding(found, *yes) == dict.fromkeys(yes, True), found
        assert found["causal: token_ids"].holds is False


def test_a_model_of_one_length_cannot_be_lengthened():
    found = probe(functional(length=6), IDS)
    assert found["padding_length"].holds is None
    assert "raised ValueError" in found["padding_length"].where
    assert found["padding"].holds
    assert found.passed


def test_a_pooled_output_has_no_past():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, I, mask_zero=True)(ids)
    for pooling, mask_counts in ((keras.layers.GlobalAveragePooling1D(), True), (Mean(), False)):
        found = probe(keras.Model(ids, keras.layers.Dense(4)(pooling(x))), IDS)
        assert found["causal"].holds is None
        assert "has no axis for the positions of" in found["causal"].where
        assert holding(found, *PADDING) == dict.fromkeys(PADDING, mask_counts)
        assert found.passed is mask_counts


class Mean(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, x):
        return keras.ops.mean(x, axis=1)


def test_masking_layer():
    x = np.where(X_MASK[..., None], X, 0)
    for layers, right in (([keras.layers.GRU(4)], True), ([Mean(), keras.layers.Dense(4)], False)):
        found = probe(keras.Sequential([keras.layers.Masking(), *layers]), x)
        assert holding(found, *PADDING) == dict.fromkeys(PADDING, right), found


def attend(query, key, value, mask=None, over=-1):
    logits = query @ np.swapaxes(key, -1, -2)
    if mask is not None:
        logits = np.where(mask[:, None], logits, -1e9)
    scores = np.exp(logits - logits.max(over, keepdims=True))
    scores /= scores.sum(over, keepdims=True)
    return scores @ value, scores


def test_function_of_arrays():
    found = probe(attend, X, X, X, mask=X_MASK)
    assert found.passed, found
    yes = (*ALWAYS, *PADDING, "rows")
    assert holding(found, *yes, "causal") == {**dict.fromkeys(yes, True), "causal": False}
    assert found["gradient"].holds is None
    assert "function" in found["gradient"].where
    wrong = probe(lambda *arrays, mask: attend(*arrays, mask, over=-2), X, X, X, mask=X_MASK)
    assert not wrong["rows"].holds
    assert "the queries" in wrong["rows"].where
    unmasked = probe(lambda q, mask: attend(q, q, q), X, mask=X_MASK)
    assert holding(unmasked, *PADDING) == dict.fromkeys(PADDING, False)


def test_a_function_without_a_mask():
    found = probe(lambda x: np.cumsum(x, axis=1), X, causal=True)
    assert found["causal"].holds
    assert holding(found, *PADDING) == dict.fromkeys(PADDING)
    assert "give mask=" in found["padding"].where


def test_ids_of_a_function_are_padded_by_convention_only():
    table = numbers(11, 4)
    found = probe(lambda ids: np.cumsum(table[ids][:, ::-1], axis=1)[:, ::-1], IDS)
    assert (found["padding_length"].holds, found["padding_length"].expected) == (False, None)
    assert found.passed
    assert not probe(lambda ids: np.cumsum(table[ids][:, ::-1], axis=1)[:, ::-1], IDS, pad_id=0).passed


def test_batch_normalization():
    model = keras.Sequential([keras.layers.BatchNormalization(), keras.layers.Dense(4)])
    model.build((None, T, I))
    before = [keras.ops.convert_to_numpy(x) for x in model.weights]
    found = probe(model, X)
    assert found.passed, found
    assert "training=True changes it" in found["repeats"].where
    for old, now in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(now), old)


def test_one_item_and_one_position():
    found = probe(ours(2, 3), X[:1, :1])
    assert holding(found, "causal", "batch_order", "batch_size") == dict.fromkeys(
        ("causal", "batch_order", "batch_size")
    )
    assert "one position" in found["causal"].where
    assert "one item" in found["batch_size"].where


def test_the_same_seed_gives_the_same_results():
    layer = ours(2, 3)
    assert str(probe(layer, X, seed=3)) == str(probe(layer, X, seed=3)) != str(probe(layer, X, seed=4))


def test_every_property_has_a_row():
    found = probe(ours(2, 3), X)
    assert [row.name for row in found.rows] == list(TEXTS)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["passed"] is True


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((ours, X), {}, "Build it first: probe(MultiHeadAttention(…), x)"),
        ((3, X), {}, "expects a layer, a model or a function. Received: 3"),
        ((ours(2, 3),), {}, "the inputs of MultiHeadAttention 'mha' are not known. Give"),
        ((ours(2, 3), X, X), {"mask": X_MASK[:, :4]}, "mask must be a padding mask (B, T)"),
        ((ours(2, 3), X, X), {"mask": X_MASK * 2.5}, "expected booleans"),
        ((ours(2, 3), X, X), {"mask": {"source": X_MASK}}, "no sequence 'source'. The sequences are: query, value"),
        ((ours(2, 3), X, X), {"value_mask": X_MASK[:, :4]}, "value_mask must be a padding mask (B, T)"),
        ((ours(2, 3), X, X), {"attention_mask": X_MASK}, "`attention_mask` must broadcast to the scores"),
        ((ours(2, 3), X, X), {"causal": "target"}, "causal: there is no sequence 'target'"),
        ((ours(2, 3), X, X), {"training": True}, "probe sets `training` itself"),
        (
            (ours(2, 3), X, X),
            {"layer": "mha_7"},
            "layer: MultiHeadAttention 'mha' has no layer 'mha_7'. Its layers are: none.",
        ),
        ((ours(2, 3), X, numbers(2, S, 6)), {}, "cannot be called with query (3, 7, 8) float32"),
        ((attend, X, X, X), {"mask": X_MASK, "over": 9}, "cannot be called with"),
        ((lambda x: x, X), {"mask": X_MASK}, "takes no argument `mask`"),
        ((lambda x: float(x.mean()), X), {}, "must return an array (B, …), with B=3"),
    ],
)
def test_errors_teach(arguments, options, message):
    if isinstance(arguments[0], keras.layers.Layer):
        arguments[0].name = "mha"
    with pytest.raises(ValueError, match=re.escape(message)):
        probe(*arguments, **options)
