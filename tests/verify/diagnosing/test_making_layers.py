"""Functions that make their layers: in Keras' functional style, and in Haiku."""

import keras
import pytest
from keras import layers, ops

from kmha.verify import diagnose
from kmha.verify.diagnosing.making_layers import as_layer


def encoder(inputs, head_size, num_heads, ff_dim, dropout=0):
    x = layers.MultiHeadAttention(key_dim=head_size, num_heads=num_heads, dropout=dropout)(inputs, inputs)
    res = layers.LayerNormalization(epsilon=1e-6)(layers.Dropout(dropout)(x) + inputs)
    x = layers.Conv1D(filters=ff_dim, kernel_size=1, activation="relu")(res)
    x = layers.Conv1D(filters=inputs.shape[-1], kernel_size=1)(layers.Dropout(dropout)(x))
    return layers.LayerNormalization(epsilon=1e-6)(x + res)


def encoder_without_residual(inputs, head_size, num_heads, ff_dim):
    res = layers.LayerNormalization(epsilon=1e-6)(layers.MultiHeadAttention(num_heads, head_size)(inputs, inputs))
    x = layers.Dense(inputs.shape[-1])(layers.Dense(ff_dim, activation="relu")(res))
    return layers.LayerNormalization(epsilon=1e-6)(x + res)


def decoder(x, context, num_heads, key_dim, ff_dim):
    a = layers.MultiHeadAttention(num_heads, key_dim)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization(epsilon=1e-6)(x + a)
    x = layers.LayerNormalization(epsilon=1e-6)(x + layers.MultiHeadAttention(num_heads, key_dim)(x, context))
    f = layers.Dense(x.shape[-1])(layers.Dense(ff_dim, activation="relu")(x))
    return layers.LayerNormalization(epsilon=1e-6)(x + f)


def masked(x, mask, num_heads=3, key_dim=5):
    return layers.MultiHeadAttention(num_heads, key_dim)(x, x, attention_mask=mask)


def attention(x, num_heads, d_model, scaled=True):
    """Self-attention that reads the number of positions, so that it makes one model for each."""
    size = d_model // num_heads
    parts = [layers.Dense(d_model, name=f"{name}_projection")(x) for name in ("query", "key", "value")]
    q, k, v = (ops.swapaxes(ops.reshape(part, (-1, x.shape[1], num_heads, size)), 1, 2) for part in parts)
    logits = ops.matmul(q, ops.swapaxes(k, 2, 3)) / (size**0.5 if scaled else 1)
    mixed = ops.swapaxes(ops.matmul(ops.softmax(logits), v), 1, 2)
    return layers.Dense(d_model)(ops.reshape(mixed, (-1, x.shape[1], d_model)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("function", [encoder, decoder, masked, attention])
def test_right_function_is_right(function):
    found = diagnose(function)
    assert found.right, found
    assert not found.errors


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "arguments", "ids"),
    [
        (encoder_without_residual, {}, ("residual-missing-attention",)),
        (attention, {"scaled": False}, ("scale-missing",)),
    ],
)
def test_mistake_is_named(function, arguments, ids):
    found = diagnose(function, arguments=arguments)
    assert found.ids == ids


@pytest.mark.slow
def test_smallest_case_runs():
    """It wraps the function as kmha does, because the function takes no weights."""
    found = diagnose(attention, arguments={"scaled": False})
    lines = str(found).partition("The smallest case that shows it:")[2].partition("print(result)")[0]
    assert "as_layer(attention)(" in lines
    scope: dict = {}
    before = keras.mixed_precision.dtype_policy()
    try:
        exec(lines, scope)  # noqa: S102 - what is shown
    finally:
        keras.mixed_precision.set_dtype_policy(before)
    assert scope["result"].shape == scope["x"].shape


def test_function_of_haiku():
    hk, jax = pytest.importorskip("haiku"), pytest.importorskip("jax")

    def block(queries, keys, values, num_heads, embedding_dim, scale_by=1.0):
        size = embedding_dim // num_heads
        parts = [
            hk.Linear(embedding_dim, name=name)(x).reshape(*x.shape[:2], num_heads, size)
            for name, x in (("query", queries), ("key", keys), ("value", values))
        ]
        logits = jax.numpy.einsum("bthd,bshd->bhts", *parts[:2]) / size**0.5 * scale_by
        mixed = jax.numpy.einsum("bhts,bshd->bthd", jax.nn.softmax(logits), parts[2])
        return hk.Linear(embedding_dim)(mixed.reshape(*queries.shape[:2], -1))

    assert diagnose(block).right
    assert not diagnose(block, arguments={"scale_by": 2.0}).right


@pytest.mark.parametrize("function", [ops.softmax, lambda d_model, dff: [layers.Dense(dff), layers.Dense(d_model)]])
def test_other_functions(function):
    """A function of arrays makes no layers, and one without inputs returns them."""
    assert as_layer(function) is None


def test_layers_without_weights_stay_functions():
    """Such a function may look at numbers, which symbolic inputs do not have."""

    def attention(query, key, value):
        logits = ops.matmul(query, ops.swapaxes(key, -1, -2)) / query.shape[-1] ** 0.5
        assert float(ops.max(logits)) < 1e9
        return ops.matmul(layers.Softmax()(logits), value)

    assert as_layer(attention) is None
    assert diagnose(attention).right


def test_layers_of_ones_own():
    class Scaled(keras.layers.Dense):
        pass

    def attention(x, d_model):
        q, k, v = Scaled(d_model, name="q_layer")(x), Scaled(d_model)(x), Scaled(d_model)(x)
        return Scaled(d_model)(ops.matmul(ops.softmax(ops.matmul(q, ops.swapaxes(k, 1, 2)) / d_model**0.5), v))

    assert diagnose(attention).right


class Mixer(layers.Layer):
    def __init__(self, width, heads, scaled=True):
        super().__init__()
        self.heads, self.size, self.scaled = heads, width // heads, scaled
        self.q, self.k, self.v, self.o = (layers.Dense(width) for _ in range(4))

    def call(self, x):
        q, k, v = (ops.reshape(f(x), (*ops.shape(x)[:2], self.heads, self.size)) for f in (self.q, self.k, self.v))
        logits = ops.einsum("bthd,bshd->bhts", q, k) / (self.size**0.5 if self.scaled else 1)
        return self.o(ops.reshape(ops.einsum("bhts,bshd->bthd", ops.softmax(logits), v), ops.shape(x)))


class UnscaledMixer(Mixer):
    def __init__(self, width, heads):
        super().__init__(width, heads, scaled=False)


def topic_model(vocab_size, width, heads, kinds=4, seq_len=20, mixer=Mixer):
    ids = keras.Input((seq_len,), dtype="int32")
    x = mixer(width, heads)(layers.Embedding(vocab_size, width)(ids))
    return keras.Model(ids, layers.Dense(kinds)(layers.GlobalMaxPooling1D()(x)))


def wrong_topic_model(vocab_size=30, width=16, heads=2, seq_len=20):
    return topic_model(vocab_size, width, heads, seq_len=seq_len, mixer=UnscaledMixer)


def feed_forward_network(d_model, dff):
    return keras.Sequential([layers.Dense(dff, activation="relu"), layers.Dense(d_model)])


def vector_model(width, num_heads):
    x = keras.Input((None, width))
    return keras.Model(x, layers.MultiHeadAttention(num_heads, width // num_heads)(x, x))


def test_a_function_that_makes_a_model_is_diagnosed_by_its_parts():
    found = diagnose(topic_model)
    assert (found.verdict, found.name) == ("right", "Mixer in topic_model")
    found = diagnose(wrong_topic_model)
    assert (found.ids, found.name) == (("scale-missing",), "UnscaledMixer in wrong_topic_model")


def test_a_function_that_makes_a_feed_forward_network_is_not_judged():
    with pytest.raises(ValueError, match=r"feed-forward|no projections|weights fit no known form"):
        diagnose(feed_forward_network)


def test_a_function_that_makes_a_model_of_vectors_is_diagnosed_as_a_layer():
    assert diagnose(vector_model).right
