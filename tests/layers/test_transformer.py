"""The full model against the same, made of Keras' own layers; masks, tied embeddings, saving, training."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import Transformer, create_padding_mask

pytestmark = pytest.mark.sampled(4)

N, D, H, F, V, W = 2, 12, 3, 7, 11, 13  # V source ids, W target ids
SOURCE = np.array([[4, 5, 6, 7, 3], [8, 9, 3, 0, 0]], "int32")
TARGET = np.array([[1, 7, 8, 2], [1, 9, 0, 0]], "int32")


def _model(**options):
    sizes = (V, V) if options.get("tie_embeddings") == "all" else (V, W)
    return Transformer(N, D, H, F, *sizes, 20, 21, **options)


def _array(x):
    return ops.convert_to_numpy(x)


@pytest.mark.sampled(12)
@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize(
    ("tie", "norm", "training"), [(None, "post", False), ("target", "pre", True), ("all", "post", True)]
)
def test_it_equals_one_of_keras_layers_at_the_same_seed(assembled, run_step, same, mode, tie, norm, training):
    if training and mode == "xla":
        pytest.skip("Keras' own dropout draws other numbers there")
    target_size = V if tie == "all" else W
    upstream = np.random.default_rng(1).normal(size=(2, 4, target_size)).astype("float32")
    rate = 0.3 if training else 0.1
    keras.utils.set_random_seed(7)
    theirs = assembled.Transformer(N, D, H, F, V, target_size, rate, tie=tie, pre=norm == "pre")
    expected = run_step(lambda: theirs((SOURCE, TARGET), training=training)[0], theirs, [], upstream, mode)
    for options in ({}, {"return_attention_scores": False}):
        keras.utils.set_random_seed(7)
        ours = _model(tie_embeddings=tie, norm=norm, dropout_rate=rate)

        def call(ours=ours, options=options):
            output = ours(SOURCE, TARGET, training=training, **options)
            return output if options else output[0]

        output, _, of_weights = run_step(call, ours, [], upstream, mode)
        same((output, [], of_weights[:-1] if tie else of_weights), expected)  # a tied model has a bias besides


def test_scores(assembled):
    keras.utils.set_random_seed(7)
    _, ours = _model()(SOURCE, TARGET)
    keras.utils.set_random_seed(7)
    _, theirs = assembled.Transformer(N, D, H, F, V, W, 0.1)((SOURCE, TARGET))
    assert ours.keys() == theirs.keys()
    for name, scores in theirs.items():
        got = _array(ours[name])
        real = TARGET != 0  # (B, T): outputs at padding do not matter
        np.testing.assert_allclose(np.swapaxes(got, 1, 2)[real], np.swapaxes(_array(scores), 1, 2)[real], atol=2e-6)


def test_masks_are_derived_inside_the_model():
    model = _model()
    padding = create_padding_mask(SOURCE)
    look_ahead = np.logical_and(np.tril(np.ones((4, 4), bool)), (TARGET != 0)[:, None])
    explicit = model(SOURCE, TARGET, enc_padding_mask=padding, look_ahead_mask=look_ahead, dec_padding_mask=padding)[0]
    np.testing.assert_allclose(_array(model(SOURCE, TARGET)[0]), _array(explicit), atol=1e-6)
    longer = np.pad(SOURCE, ((0, 0), (0, 3)))
    np.testing.assert_allclose(_array(model(longer, TARGET)[0]), _array(explicit), atol=1e-6)
    np.testing.assert_allclose(_array(model((SOURCE, TARGET))[0]), _array(explicit), atol=1e-6)


def test_logits_or_probabilities():
    probabilities = _model()
    logits = _model(final_activation=None)
    probabilities.build(), logits.build()
    logits.set_weights(probabilities.get_weights())
    got = _array(logits(SOURCE, TARGET)[0])
    np.testing.assert_allclose(_array(ops.softmax(got)), _array(probabilities(SOURCE, TARGET)[0]), atol=1e-6)
    np.testing.assert_allclose(_array(probabilities(SOURCE, TARGET)[0]).sum(-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("tie", [None, "target", "all"])
def test_features_and_kernel_give_the_logits(tie):
    model = _model(tie_embeddings=tie, final_activation=None)
    kernel = _array(ops.convert_to_tensor(model.output_kernel))
    kernel = kernel.T if model.output_kernel_is_transposed else kernel
    features = _array(model.features((SOURCE, TARGET)))
    expected = features @ kernel + _array(ops.convert_to_tensor(model.output_bias))
    np.testing.assert_allclose(_array(model(SOURCE, TARGET)[0]), expected, atol=1e-5)
    np.testing.assert_allclose(_array(model.logits(features)), expected, atol=1e-5)
    tables = [weight for weight in model.weights if weight.path.endswith("embeddings")]
    assert len(tables) == (1 if tie == "all" else 2)


def test_symbolic_shapes_are_the_true_ones():
    source, target = keras.Input((5,), dtype="int32"), keras.Input((4,), dtype="int32")
    for tie in (None, "all"):
        model = _model(tie_embeddings=tie)
        symbolic, scores = model(source, target)
        output, found = model(SOURCE, TARGET)
        assert tuple(symbolic.shape[1:]) == tuple(output.shape[1:])
        assert {name: tuple(x.shape[1:]) for name, x in scores.items()} == {
            name: tuple(x.shape[1:]) for name, x in found.items()
        }
    encoded, scores = model.encoder(source, return_attention_scores=True)
    assert (tuple(encoded.shape), tuple(scores["encoder_layer2_self_att"].shape)) == ((None, 5, D), (None, H, 5, 5))
    layer = model.decoder.dec_layers[0]
    assert [tuple(x.shape) for x in layer(encoded, encoded)] == [(None, 5, D), (None, H, 5, 5), (None, H, 5, 5)]


def test_encoder_scores():
    output, scores = _model().encode(SOURCE, return_attention_scores=True)
    assert tuple(output.shape) == (2, 5, D)
    assert {name: tuple(x.shape) for name, x in scores.items()} == {
        "encoder_layer1_self_att": (2, H, 5, 5),
        "encoder_layer2_self_att": (2, H, 5, 5),
    }


@pytest.mark.parametrize("tie", [None, "all"])
def test_saved_and_loaded(tmp_path, tie):
    model = _model(tie_embeddings=tie, norm="pre", attention={"use_bias": False}, key_dim=5)
    expected = _array(model(SOURCE, TARGET)[0])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(_array(again(SOURCE, TARGET)[0]), expected, atol=1e-6)
    model.save_weights(tmp_path / "model.weights.h5")
    third = Transformer.from_config(model.get_config())
    third.build()
    third.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(_array(third(SOURCE, TARGET)[0]), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_an_exported_model_keeps_the_masks(tmp_path):
    import tensorflow as tf

    model = _model()
    expected = _array(model(SOURCE, TARGET)[0])
    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec((None, None), "int32")] * 2
    archive.add_endpoint("serve", lambda x, y: model(x, y, return_attention_scores=False), signature)
    archive.write_out(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(loaded.serve(SOURCE, TARGET).numpy(), expected, atol=1e-6)
    longer = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(loaded.serve(longer, TARGET).numpy(), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_exported_inside_a_functional_model(tmp_path):
    import tensorflow as tf

    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    model = _model()
    outer = keras.Model([source, target], model(source, target, return_attention_scores=False))
    outer.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "exported"))
    longer = np.pad(SOURCE, ((0, 0), (0, 4)))
    expected = _array(model(SOURCE, TARGET)[0])
    np.testing.assert_allclose(loaded.serve([longer, TARGET]).numpy(), expected, atol=1e-6)


def test_one_initializer_draws_every_table_anew():
    drawn = _model(embeddings_initializer=keras.initializers.RandomNormal(stddev=0.5))
    drawn.build()
    source, target = (_array(stack.embedding.embeddings) for stack in (drawn.encoder, drawn.decoder))
    rows = min(len(source), len(target))
    assert not np.isclose(source[:rows], target[:rows]).any()


@pytest.mark.slow
def test_it_trains_inside_a_functional_model():
    source, target = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    model = _model(final_activation=None, dropout_rate=0.0)
    outer = keras.Model([source, target], model(source, target, return_attention_scores=False))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    outer.compile(keras.optimizers.Adam(0.02), loss, jit_compile=keras.backend.backend() == "jax")
    data = [SOURCE, TARGET], np.array([[7, 8, 2, 0], [9, 2, 0, 0]])
    history = outer.fit(*data, epochs=25, verbose=0).history["loss"]
    assert history[-1] < 0.2 * history[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _model()(SOURCE), "source and target ids"),
        (lambda: _model(tie_embeddings="both"), "None, 'target' or 'all'"),
        (lambda: _model(final_activation="relu"), "'softmax' or None"),
        (lambda: Transformer(N, D, H, F, V, W, 20, 21, tie_embeddings="all"), "the same vocabulary"),
        (lambda: Transformer(N, D, H, F, V, W, 4, 21)(SOURCE, TARGET), "at most 4 tokens"),
        (lambda: Transformer(N, D, H, F, V, W, 20, 21, dropout=0.1), "Did you mean `dropout_rate`"),
    ],
)
def test_errors_teach(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
