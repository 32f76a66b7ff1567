"""Decoder layer and decoder against the same, made of Keras' own layers."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.layers import Decoder, DecoderLayer, create_look_ahead_mask, create_padding_mask

pytestmark = pytest.mark.sampled(4)

B, T, S, D, I, H, F = 2, 4, 5, 12, 10, 3, 7
KEEP = np.array([[True, True, True, False, False], [True] * 5])[:, None]  # (B, 1, S)
LOOK_AHEAD = np.tril(np.ones((T, T), bool))


def _x(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("training", [False, True])
def test_a_layer_equals_one_of_keras_layers_at_the_same_seed(assembled, run_step, same, mode, norm, training):
    if training and mode == "xla":
        pytest.skip("Keras' own dropout draws other numbers there")
    rest = [_x(B, T, D), _x(B, S, I, seed=2)], _x(B, T, D, seed=1), mode
    masks = {"look_ahead_mask": LOOK_AHEAD, "padding_mask": KEEP, "training": training}
    keras.utils.set_random_seed(7)
    theirs = assembled.DecoderLayer(D, H, F, 0.3, pre=norm == "pre", residual=0.2)
    expected = run_step(lambda x, y: theirs(x, y, **masks)[0], theirs, *rest)
    for options in ({}, {"return_attention_scores": False}):
        keras.utils.set_random_seed(7)
        ours = DecoderLayer(D, H, F, 0.3, norm=norm, residual_dropout_rate=0.2)

        def call(x, y, ours=ours, options=options):
            output = ours(x, y, training=training, padding_mask=KEEP, **options)
            return output if options else output[0]

        same(run_step(call, ours, *rest), expected)


def test_scores_of_both_blocks(assembled):
    keras.utils.set_random_seed(7)
    ours = DecoderLayer(D, H, F)(_x(B, T, D), _x(B, S, I), look_ahead_mask=LOOK_AHEAD, padding_mask=KEEP)
    keras.utils.set_random_seed(7)
    theirs = assembled.DecoderLayer(D, H, F, 0.1)(
        _x(B, T, D), _x(B, S, I), look_ahead_mask=LOOK_AHEAD, padding_mask=KEEP
    )
    assert [tuple(x.shape) for x in ours] == [(B, T, D), (B, H, T, T), (B, H, T, S)]
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(one), ops.convert_to_numpy(other), atol=2e-6)


def test_key_and_value_are_enc_output_times_kernels_of_the_layer():
    layer = DecoderLayer(D, H, F)
    x, enc_output = _x(B, T, D), _x(B, S, I)
    layer(x, enc_output)
    kernel = ops.convert_to_numpy(layer.mha2.key_dense.kernel)  # (H, I, O)
    assert kernel.shape == (H, I, D // H)
    key = ops.convert_to_numpy(layer.mha2.key_dense(enc_output))
    np.testing.assert_allclose(key[1, 3, 2], enc_output[1, 3] @ kernel[2], atol=1e-5)


def test_the_future_is_hidden_unless_a_mask_shows_it():
    layer = DecoderLayer(D, H, F)
    x, enc_output = _x(B, T, D), _x(B, S, I)
    changed = x.copy()
    changed[:, -1] += 1.0
    everything = np.ones((T, T), bool)

    def moved(**options):
        one, two = (ops.convert_to_numpy(layer(y, enc_output, **options)[0]) for y in (x, changed))
        return np.abs(one - two)[:, :-1].max()

    assert moved() < 1e-6
    assert moved(look_ahead_mask=LOOK_AHEAD) < 1e-6
    assert moved(look_ahead_mask=create_look_ahead_mask(T)) < 1e-6
    assert moved(look_ahead_mask=everything) > 1e-3
    assert moved(look_ahead_mask=everything, use_causal_mask=True) < 1e-6
    assert moved(use_causal_mask=False) > 1e-3


def test_the_decoder_names_its_scores_and_derives_its_masks():
    decoder = Decoder(2, D, H, F, 11, 13)
    ids, enc_output = np.array([[1, 5, 0, 0], [1, 2, 3, 4]]), _x(B, S, D)
    output, scores = decoder(ids, enc_output, padding_mask=KEEP)
    assert list(scores) == [
        "decoder_layer1_block1_self_att",
        "decoder_layer1_block2_decenc_att",
        "decoder_layer2_block1_self_att",
        "decoder_layer2_block2_decenc_att",
    ]
    look_ahead = np.logical_and(LOOK_AHEAD, ops.convert_to_numpy(create_padding_mask(ids)))
    explicit, _ = decoder(ids, enc_output, look_ahead_mask=look_ahead, padding_mask=KEEP)
    np.testing.assert_allclose(ops.convert_to_numpy(output), ops.convert_to_numpy(explicit), atol=1e-6)
    assert (ops.convert_to_numpy(scores["decoder_layer2_block1_self_att"])[0, :, :, 2:] == 0).all()
    assert (ops.convert_to_numpy(scores["decoder_layer1_block2_decenc_att"])[0, :, :, 3:] == 0).all()
    alone = decoder(ids, enc_output, padding_mask=KEEP, return_attention_scores=False)
    np.testing.assert_allclose(ops.convert_to_numpy(output), ops.convert_to_numpy(alone), atol=1e-6)


def test_an_encoder_of_another_width():
    decoder = Decoder(1, D, H, F, 11, 13)
    assert tuple(decoder(np.ones((B, T), "int32"), _x(B, S, I))[0].shape) == (B, T, D)
    assert tuple(decoder.dec_layers[0].mha2.key_dense.kernel.shape) == (H, I, D // H)


def test_config_round_trips():
    decoder = Decoder(2, D, H, F, 11, 13, norm="pre", attention={"use_bias": False})
    assert Decoder.from_config(decoder.get_config()).get_config() == decoder.get_config()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DecoderLayer(D, H, F)(_x(B, T, D)), "enc_output"),
        (lambda: DecoderLayer(D, H, F)(_x(B, T, D + 1), _x(B, S, I)), "must have 12 features"),
        (lambda: Decoder(2, D, H, F, 11, 3)(np.ones((B, T), "int32"), _x(B, S, D)), "at most 3 tokens"),
        (lambda: Decoder(2, D, H, F, -1, 3), "target_vocab_size"),
    ],
)
def test_errors_teach(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
