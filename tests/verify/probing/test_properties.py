"""Each probe fails for a layer that breaks the property, and passes for the same layer when it is right."""

import keras
import numpy as np
import pytest

from kmha.verify import probe

pytestmark = pytest.mark.sampled(4)

# What is wrong with the layer, whether it is meant to be causal, and what shows the properties that do not hold then.
WRONG = [
    ("mask shifted by one", True, {"causal": "output[1, 5] changes with x[:, 6:]"}),
    ("mask reversed", True, {"causal": "output[1, 0] changes with x[:, 6:]"}),
    (
        "padding ignored",
        False,
        {"padding": "output[0, 0] changes with padded positions of x", "padding_length": ""},
    ),
    ("queries padded", False, {"padding": "", "padding_length": "output[0, 0] changes with 3 more padded positions"}),
    ("mean of the batch", True, {"batch_size": "output[0, 0] changes when item 0 is alone", "padding": ""}),
    (
        "place in the batch",
        True,
        {"batch_order": "output[0, 0] changes with another order", "batch_size": " is alone"},
    ),
    ("mean of the positions", True, {"causal": "", "padding": "", "padding_length": ""}),
    ("number of positions", True, {"padding_length": ""}),
    ("over queries", True, {"causal": "", "padding": "", "padding_length": "", "rows": "along axis -2, the queries"}),
    ("not renormalised", True, {"causal": "", "padding": "", "padding_length": "", "rows": "sums to 0."}),
    ("unused weight", True, {"gradient": "no gradient for attention/unused"}),
    ("stopped", True, {"gradient": "no gradient for attention/value/kernel, attention/value/bias"}),
    ("NaN", True, {"finite": " is nan", "gradient": "(NaN)"}),
]
VARIED = {"padding_length", "batch_order", "batch_size"}


def broken(found):
    return {row.name for row in found.rows if row.holds is False}


def not_tried(found):
    return {row.name for row in found.rows if row.holds is None}


@pytest.mark.parametrize("causal", [True, False])
def test_right(attention, x, tokens, causal):
    found = probe(attention(causal=causal), x, mask=tokens, causal=causal or None)
    assert found.passed, found
    assert broken(found) == (set() if causal else {"causal"})
    assert not not_tried(found)
    assert "key/bias: no softmax depends on it" in found["gradient"].where


@pytest.mark.parametrize(("wrong", "causal", "expected"), WRONG, ids=[wrong for wrong, *_ in WRONG])
def test_wrong(attention, x, tokens, wrong, causal, expected):
    found = probe(attention(wrong, causal, name="attention"), x, mask=tokens, causal=causal or None)
    assert not found.passed
    assert broken(found) - (set() if causal else {"causal"}) == set(expected), found
    for name, where in expected.items():
        assert where in found[name].where
        assert name in ("finite", "gradient") or found[name].effect > 10 * found.tolerance


@pytest.mark.tensorflow  # JAX would compile for minutes
@pytest.mark.parametrize(("wrong", "causal", "expected"), WRONG, ids=[wrong for wrong, *_ in WRONG])
def test_wrong_inside_a_model(attention, wrong, causal, expected):
    """The same for a layer within a model of token ids, with a mask from the ids."""
    ids = np.array([[1, 4, 2, 0, 0, 0], [3, 9, 5, 7, 8, 6], [9, 3, 3, 2, 0, 0]])
    given = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 8, mask_zero=True)(given)
    x = attention(wrong, causal, name="attention")(x)
    model = keras.Model(given, keras.layers.Dense(4, name="last")(x))
    found = probe(model, ids, layer="attention", causal=causal or None)
    assert broken(found) - (set() if causal else {"causal"}) == set(expected), found


def test_dropout_left_on(attention, x, tokens):
    """Calls of one shape start from one random state; calls of other shapes always differ."""
    found = probe(attention("dropout left on"), x, mask=tokens, causal=True)
    assert broken(found) - {"rows"} == {"repeats"}
    assert found["repeats"].where.startswith("output[0, ")
    assert found["repeats"].where.endswith(" changes with a second call")
    assert not_tried(found) == VARIED
    assert found["batch_order"].where == "two identical calls give different results"


def test_random_numbers_of_its_own(x):
    """No random state can be restored here, so nothing can be concluded."""
    rng = np.random.default_rng(3)
    found = probe(lambda x: x + rng.normal(size=x.shape), x, causal=True, mask=None)
    assert broken(found) == {"repeats"}
    assert not_tried(found) >= VARIED | {"causal", "padding"}


def test_padding_hidden_by_the_causal_mask_alone(attention, x, tokens):
    """A layer that ignores the mask is still right if padding comes last and no token may see it."""
    assert probe(attention("padding ignored"), x, mask=tokens, causal=True).passed
    left = probe(attention("padding ignored"), x, mask=tokens[:, ::-1], causal=True)
    assert broken(left) == {"padding"}


def test_a_layer_that_takes_a_mask_gets_one(attention, x):
    assert probe(attention(causal=False), x)["padding"].where == "with a mask made by probe"
    assert broken(probe(attention("padding ignored", causal=False), x)) == {"causal", "padding", "padding_length"}


def test_an_input_that_changes_nothing(x):
    """Success would say nothing about a layer that ignores its input."""
    found = probe(lambda x: np.ones_like(x), x)
    assert found["causal"].holds is None
    assert found["causal"].where == "no output depends on x"


@pytest.mark.tensorflow  # JAX would compile for minutes
def test_causality_across_lengths_is_tried_when_asked_for(x):
    layer = keras.layers.MultiHeadAttention(2, 3)
    memory = x[:, :5]
    assert {row.name for row in probe(layer, x, memory).rows if "causal" in row.name} == {"causal: query"}
    assert probe(layer, x, memory, use_causal_mask=True, causal="value").passed
    assert broken(probe(layer, x, memory, causal="value")) == {"causal: value"}


def test_whether_padding_should_be_ignored(attention, x):
    """A mask that hides no position says nothing about padding."""

    class Told(keras.layers.Layer):
        def call(self, x, attention_mask):
            return keras.ops.matmul(keras.ops.cast(attention_mask, x.dtype), x)

    causal = np.broadcast_to(np.tri(7, dtype=bool), (3, 7, 7))
    found = probe(Told(), x, attention_mask=causal, causal=True)
    assert found.passed
    assert (found["padding"].holds, found["padding"].expected) == (None, None)
    assert probe(attention(), x)["padding"].expected is True
