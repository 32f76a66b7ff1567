"""Encoder layer and encoder against the same, made of Keras' own layers."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import Encoder, EncoderLayer, create_padding_mask

pytestmark = pytest.mark.sampled(4)

B, S, D, H, F = 2, 5, 12, 3, 7
KEEP = np.array([[True, True, True, False, False], [True] * 5])[:, None]  # (B, 1, S)


def _x(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("training", [False, True])
def test_a_layer_equals_one_of_keras_layers_at_the_same_seed(assembled, run_step, same, mode, norm, training):
    if training and mode == "xla":
        pytest.skip("Keras' own dropout draws other numbers there")
    options = {"training": training, "mask": KEEP}
    rest = [_x(B, S, D)], _x(B, S, D, seed=1), mode
    keras.utils.set_random_seed(7)
    ours = EncoderLayer(D, H, F, 0.3, norm=norm, residual_dropout_rate=0.2)
    results = run_step(lambda x: ours(x, **options), ours, *rest)
    keras.utils.set_random_seed(7)
    theirs = assembled.EncoderLayer(D, H, F, 0.3, pre=norm == "pre", residual=0.2)
    same(results, run_step(lambda x: theirs(x, **options), theirs, *rest))


def test_padding_may_come_as_two_or_three_or_four_axes():
    layer, x = EncoderLayer(D, H, F), _x(B, S, D)
    expected = ops.convert_to_numpy(layer(x, mask=KEEP))
    for mask in (KEEP[:, 0], KEEP[:, None], KEEP.astype("float32"), np.repeat(KEEP, S, axis=1)):
        np.testing.assert_allclose(ops.convert_to_numpy(layer(x, mask=mask)), expected, rtol=0, atol=1e-6)
    assert np.abs(ops.convert_to_numpy(layer(x)) - expected)[0].max() > 1e-3


def test_padding_changes_nothing_elsewhere():
    layer, x = EncoderLayer(D, H, F), _x(B, S, D)
    other = np.where(KEEP[:, 0, :, None], x, 77.0)
    one, two = (ops.convert_to_numpy(layer(given, mask=KEEP)) for given in (x, other))
    np.testing.assert_allclose(one[0, :3], two[0, :3], rtol=0, atol=1e-6)
    np.testing.assert_allclose(one[1], two[1], rtol=0, atol=1e-6)


def test_scores_on_demand_do_not_change_the_output():
    layer, x = EncoderLayer(D, H, F), _x(B, S, D)
    output, scores = layer(x, mask=KEEP, return_attention_scores=True)
    np.testing.assert_allclose(ops.convert_to_numpy(output), ops.convert_to_numpy(layer(x, mask=KEEP)), atol=1e-6)
    scores = ops.convert_to_numpy(scores)
    assert scores.shape == (B, H, S, S)
    np.testing.assert_allclose(scores.sum(-1), 1.0, atol=1e-6)
    assert (scores[0, :, :, 3:] == 0).all()


def test_a_mask_that_the_tensor_carries_is_honoured_and_carried_on():
    embedding = keras.layers.Embedding(11, D, mask_zero=True)
    ids = np.array([[3, 4, 5, 0, 0], [1, 2, 3, 4, 5]])
    layer = EncoderLayer(D, H, F)
    carried = layer(embedding(ids))
    explicit = layer(np.array(ops.convert_to_numpy(embedding(ids))), mask=create_padding_mask(ids))
    got, expected = ops.convert_to_numpy(carried), ops.convert_to_numpy(explicit)
    np.testing.assert_allclose(got[0, :3], expected[0, :3], atol=1e-6)
    np.testing.assert_allclose(got[1], expected[1], atol=1e-6)
    np.testing.assert_array_equal(ops.convert_to_numpy(carried._keras_mask), ids != 0)


def test_head_size_and_attention_arguments():
    assert EncoderLayer(D, H, F).mha.key_dim == D // H
    assert EncoderLayer(D, H, F, key_dim=D).mha.key_dim == D  # as the course has it
    layer = EncoderLayer(D, H, F, 0.3, attention={"use_bias": False, "sliding_window": 2, "dropout": 0.0})
    assert (layer.mha.use_bias, layer.mha._sliding_window, layer.mha.dropout) == (False, 2, 0.0)
    x = _x(B, S, D)
    far = x.copy()
    far[:, 4] += 1.0
    one, two = (ops.convert_to_numpy(layer(given)) for given in (x, far))
    np.testing.assert_allclose(one[:, :3], two[:, :3], atol=1e-6)


@pytest.mark.parametrize("pad_id", [0, 3, None])
def test_the_encoder_derives_the_mask_from_the_ids(pad_id):
    encoder = Encoder(2, D, H, F, 11, 13, pad_id=pad_id)
    ids = np.array([[4, 5, 3, 0, 0], [1, 2, 6, 4, 5]])
    mask = np.ones((B, 1, S), bool) if pad_id is None else (ids != pad_id)[:, None]
    derived, explicit = encoder(ids), encoder(ids, mask=mask)
    np.testing.assert_allclose(ops.convert_to_numpy(derived), ops.convert_to_numpy(explicit), atol=1e-6)


def test_config_round_trips():
    encoder = Encoder(2, D, H, F, 11, 13, 0.2, 1e-5, norm="pre", key_dim=5, activation="gelu", pad_id=None)
    again = Encoder.from_config(encoder.get_config())
    assert again.get_config() == encoder.get_config()
    layer = EncoderLayer(D, H, F, attention={"use_gate": True}, residual_dropout_rate=0.25)
    assert EncoderLayer.from_config(layer.get_config()).get_config() == layer.get_config()
    assert again.enc_layers[1].ffn.dense1.activation is keras.activations.gelu


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EncoderLayer(D, H, F)(_x(B, S, D + 1)), "must have 12 features"),
        (lambda: EncoderLayer(D, 0, F), "num_heads"),
        (lambda: EncoderLayer(D, H, F, norm="before"), "'post' or 'pre'"),
        (lambda: EncoderLayer(D, H, F, 1.5), "dropout_rate"),
        (lambda: EncoderLayer(D, H, F, layernorm_epsilon=1e-5), "Did you mean `layernorm_eps`"),
        (lambda: EncoderLayer(D, H, F, attention={"head": 3}), "head"),
        (lambda: Encoder(2, D, H, F, 11, 4)(np.ones((B, S), "int32")), "at most 4 tokens"),
        (lambda: Encoder(2, D, H, F, 11, 13)(_x(B, S)), "must be integers"),
        (lambda: Encoder(2, D, H, F, 11, 13)(np.ones(S, "int32")), r"shape \(5,\)"),
        (lambda: Encoder(2, D, H, F, 11, 13)(keras.Input((S, D))), "must be integers of shape"),
        (lambda: Encoder(2, D, H, F, 11, 13)(keras.Input((S,))), 'dtype float32.*`dtype="int32"`'),
        (lambda: EncoderLayer(D, H, F)(_x(B, S, D), mask=np.ones((S, S), bool)), r"`mask` with two axes.*mask\[None\]"),
        (lambda: Encoder(0, D, H, F, 11, 13), "num_layers"),
        (lambda: Encoder(2, D, H, F, 0, 13), "input_vocab_size"),
        (lambda: Encoder(2, D, H, F, 11, 13, norms="pre"), "Did you mean `norm`"),
    ],
)
def test_errors_teach(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
