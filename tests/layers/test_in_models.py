"""The layer inside models: Functional and subclassed, traced and compiled, trained, saved and loaded."""

import itertools
import json
import re
import subprocess
import sys
from pydoc_data.topics import topics

import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.layers import addons
from kmha.verify.comparing.running import WIDEST
from kmha.verify.tolerance import is_close

BUILTIN = keras.layers.MultiHeadAttention
BOTH = kmha.MultiHeadAttention, BUILTIN
WIDE = WIDEST[keras.backend.backend()]
B, T, S, H, I, J, O = 2, 3, 5, 7, 6, 8, 4


def _x(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _array(x):
    return ops.convert_to_numpy(ops.cast(x, "float64"))


def _sentences():
    """Return real English: sentences of Python's own documentation, each paired with the next one."""
    text = " ".join(topics[name] for name in sorted(topics))
    sentences = [re.findall(r"[a-z']+", sentence.lower()) for sentence in re.split(r"[.!?]\s", text)]
    sentences = [words[:19] for words in sentences if len(words) > 3]
    counts: dict[str, int] = {}
    for word in itertools.chain.from_iterable(sentences):
        counts[word] = counts.get(word, 0) + 1
    common = sorted(counts, key=lambda word: (-counts[word], word))[:498]
    ids = {word: number for number, word in enumerate(common, 2)}  # 0 is padding, 1 a rare word
    table = np.zeros((len(sentences), 20), "int32")
    for row, words in zip(table, sentences, strict=True):
        row[: len(words)] = [ids.get(word, 1) for word in words]
    return table[:-1], table[1:]


def _translator(layer_class):
    """Return an encoder-decoder with self- and cross-attention, masks and dropout, at a given seed."""
    keras.utils.set_random_seed(3)
    source, target = (keras.Input((None,), dtype="int32", name=name) for name in ("source", "target"))
    embed = keras.layers.Embedding(500, 32, mask_zero=True)
    heads = {"num_heads": 4, "key_dim": 8, "dropout": 0.1}
    enc_output = embed(source)
    enc_output = layer_class(**heads, name="encoder")(enc_output, enc_output)
    x = embed(target)
    x = layer_class(**heads, name="decoder_block1")(x, x, use_causal_mask=True)
    x = keras.layers.LayerNormalization()(x)
    x = layer_class(**heads, name="decoder_block2")(x, enc_output)
    model = keras.Model([source, target], keras.layers.Dense(500)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=False)  # XLA takes many seconds here
    return model


@pytest.mark.slow
@pytest.mark.tensorflow
def test_fifty_steps_on_real_text_lose_what_the_built_in_loses():
    source, target = _sentences()
    count = 50 * 16
    inputs, shifted = [source[:count], target[:count, :-1]], target[:count, 1:]
    histories = []
    for layer_class in BOTH:
        # An epoch for each step, since Keras reports the mean over the epoch so far.
        fit = _translator(layer_class).fit(inputs, shifted, batch_size=16, epochs=50, steps_per_epoch=1, verbose=0)
        histories.append(fit.history["loss"])
    ours, theirs = np.array(histories)
    assert len(ours) == 50
    assert ours[-5:].mean() < 0.9 * ours[0]  # it learns
    assert np.abs(ours - theirs).max() < 1e-5


def _residual_translator(layer_class):
    """Return a Transformer in the form of TensorFlow's tutorial: masks only from embeddings, and `Add`."""
    keras.utils.set_random_seed(3)
    heads = {"num_heads": 4, "key_dim": 8, "dropout": 0.1}

    def residual(x, y):
        return keras.layers.LayerNormalization()(keras.layers.Add()([x, y]))

    def feed_forward(x):
        y = keras.layers.Dense(32)(keras.layers.Dense(64, "relu")(x))
        return residual(x, keras.layers.Dropout(0.1)(y))

    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    enc_output = keras.layers.Embedding(500, 32, mask_zero=True)(source)
    for _ in range(2):
        enc_output = feed_forward(residual(enc_output, layer_class(**heads)(enc_output, enc_output)))
    x = keras.layers.Embedding(500, 32, mask_zero=True)(target)
    for _ in range(2):
        x = residual(x, layer_class(**heads)(x, x, use_causal_mask=True))
        x = feed_forward(residual(x, layer_class(**heads)(x, enc_output)))
    model = keras.Model([source, target], keras.layers.Dense(500)(x))

    def loss(true, logits):
        mask = ops.cast(ops.not_equal(true, 0), "float32")
        losses = keras.losses.sparse_categorical_crossentropy(true, logits, from_logits=True)
        return ops.sum(losses * mask) / ops.sum(mask)

    model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=False)  # XLA takes many seconds here
    return model


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_masked_model_with_add_keeps_its_masks_unless_the_old_numbers_are_asked_for(monkeypatch):
    source, target = _sentences()
    losses = []
    for layer_class, masks in (
        (BUILTIN, "keep"),
        (kmha.MultiHeadAttention, "keep"),
        (kmha.MultiHeadAttention, "remove"),
    ):
        monkeypatch.setenv("KMHA_INPUT_MASKS", masks)
        inputs, shifted = [source[:32], target[:32, :-1]], target[:32, 1:]
        model = _residual_translator(layer_class)
        fit = model.fit(inputs, shifted, batch_size=16, epochs=2, steps_per_epoch=1, shuffle=False, verbose=0)
        losses.append(fit.history["loss"])
    theirs, ours, removed = np.array(losses)
    assert np.abs(ours - theirs).min() > 1e-3, losses
    assert np.abs(removed - theirs).max() < 1e-5, losses


class Subclassed(keras.Model):
    def __init__(self, layer_class):
        super().__init__()
        self.embed = keras.layers.Embedding(30, I, mask_zero=True)
        self.attention = layer_class(H, O, name="attention")
        self.dense = keras.layers.Dense(1)

    def call(self, ids):
        x = self.embed(ids)
        return self.dense(self.attention(x, x, use_causal_mask=True))


@pytest.mark.slow
def test_subclassed_model():
    ids = np.array([[4, 9, 1, 0, 0], [7, 3, 2, 2, 8]])
    losses = []
    for layer_class in BOTH:
        keras.utils.set_random_seed(3)
        model = Subclassed(layer_class)
        model.compile(keras.optimizers.SGD(0.1), "mse")
        losses.append(model.fit(ids, np.ones((2, 5, 1)), epochs=5, verbose=0).history["loss"])
    assert is_close(*losses, "float32")
    assert losses[0][-1] < losses[0][0]


def test_unknown_batch_and_lengths():
    query, value = keras.Input((None, I)), keras.Input((None, J))
    layer = kmha.MultiHeadAttention(H, O)
    output, scores = layer(query, value, use_causal_mask=True, return_attention_scores=True)
    assert output.shape == (None, None, I)
    assert scores.shape == (None, H, None, None)
    model = keras.Model([query, value], [output, scores])
    for batch, rows, columns in ((2, 3, 5), (1, 7, 2), (3, 1, 1)):
        inputs = _x(batch, rows, I), _x(batch, columns, J)
        expected = layer(*inputs, use_causal_mask=True, return_attention_scores=True)
        for mine, other in zip(model.predict(inputs, verbose=0), expected, strict=True):
            assert is_close(mine, _array(other), "float32")


@pytest.mark.tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("axes", [None, (1,), (2,)])
def test_traced_with_unknown_sizes(jit_compile, axes):
    import tensorflow as tf

    layer = kmha.MultiHeadAttention(H, O, attention_axes=axes, sliding_window=2, dtype="float64")
    layer.build((None, None, 4, I), (None, None, 4, J))
    signature = [tf.TensorSpec((None, None, 4, width), "float64") for width in (I, J)]
    traced = tf.function(
        lambda query, value: layer(query, value, use_causal_mask=True, return_attention_scores=True),
        input_signature=signature,
        jit_compile=jit_compile,
    )
    for rows, columns in ((3, 5), (6, 2)) if axes != (2,) else ((3, 3), (6, 6)):
        query, value = _x(B, rows, 4, I).astype("float64"), _x(B, columns, 4, J).astype("float64")
        for mine, expected in zip(
            traced(query, value),
            layer(query, value, use_causal_mask=True, return_attention_scores=True),
            strict=True,
        ):
            assert is_close(_array(mine), _array(expected), "float64")


@pytest.mark.sampled(2)
@pytest.mark.tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit_compiled_or_not(jit_compile):
    losses = []
    for layer_class in BOTH:
        keras.utils.set_random_seed(3)
        inputs = keras.Input((T, I))
        model = keras.Model(inputs, layer_class(H, O, use_gate=True)(inputs, inputs))
        model.compile("adam", "mse", jit_compile=jit_compile)
        losses.append(model.fit(_x(32, T, I), _x(32, T, I, seed=1), epochs=3, verbose=0).history["loss"])
    assert is_close(*losses, "float32")


def test_time_distributed():
    outputs = []
    for layer_class in BOTH:
        keras.utils.set_random_seed(3)
        inner = keras.Input((T, I))
        attend = keras.Model(inner, layer_class(H, O)(inner, inner))
        outer = keras.Input((S, T, I))
        model = keras.Model(outer, keras.layers.TimeDistributed(attend)(outer))
        outputs.append(model.predict(_x(B, S, T, I), verbose=0))
    assert outputs[0].shape == (B, S, T, I)
    assert is_close(*outputs, "float32")


LOAD = """
import json, sys
import numpy as np
import kmha, keras
folder = sys.argv[1]
inputs = [np.load(f"{folder}/{name}.npy") for name in ("query", "value")]
sums = {}
for name in ("ours", "addons", "int8"):
    model = keras.models.load_model(f"{folder}/{name}.keras")
    np.save(f"{folder}/{name}-loaded.npy", model.predict(inputs, verbose=0))
query, value = (keras.Input(x.shape[1:]) for x in inputs)
model = keras.Model([query, value], kmha.MultiHeadAttention(7, 4, use_gate=True, dropout=0.1)(query, value))
model.load_weights(f"{folder}/ours.weights.h5")
np.save(f"{folder}/weights-loaded.npy", model.predict(inputs, verbose=0))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Layer .* does not have a .quantize. method")
def test_saved_models_load_in_a_fresh_process_without_custom_objects(tmp_path):
    arrays = {"query": _x(B, T, I), "value": _x(B, S, J)}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    query, value = keras.Input((T, I)), keras.Input((S, J))
    layer = kmha.MultiHeadAttention(H, O, use_gate=True, dropout=0.1)
    models = {
        "ours": keras.Model([query, value], layer(query, value)),
        "addons": keras.Model([query, value], addons.MultiHeadAttention(O, H)([query, value])),
        "int8": keras.Model([query, value], kmha.MultiHeadAttention(H, O)(query, value)),
    }
    models["int8"].quantize("int8")
    models["ours"].save_weights(tmp_path / "ours.weights.h5")
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    subprocess.run([sys.executable, "-c", LOAD, str(tmp_path)], check=True, capture_output=True, timeout=300)
    inputs = list(arrays.values())
    for name in (*models, "weights"):
        expected = models[name if name in models else "ours"].predict(inputs, verbose=0)
        assert is_close(np.load(tmp_path / f"{name}-loaded.npy"), expected, "float32"), name


@pytest.mark.sampled(2)
@pytest.mark.tensorflow
@pytest.mark.parametrize("length", [20, None])
def test_a_model_with_blocks_is_exported(tmp_path, length):
    import tensorflow as tf

    inputs = keras.Input((length, I))
    layer = kmha.MultiHeadAttention(H, O, flash_attention=True)
    model = keras.Model(inputs, layer(inputs, inputs, use_causal_mask=True))
    x = _x(B, 20, I)
    model.export(tmp_path, verbose=False)
    served = tf.saved_model.load(tmp_path)
    assert is_close(_array(served.serve(x)), model.predict(x, verbose=0), "float32")


def test_registered_names_say_whose_they_are():
    registered = keras.saving.get_registered_name
    assert registered(kmha.MultiHeadAttention) == "kmha>MultiHeadAttention"
    assert registered(addons.MultiHeadAttention) == "kmha.addons>MultiHeadAttention"
    assert json.dumps(kmha.MultiHeadAttention(3, 4).get_config())
