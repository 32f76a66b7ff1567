"""The checks of `Transformer`: what goes where, and probabilities over the vocabulary."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

ENCODED = "enc_output = self.encoder(input_sentence, training=training, mask=enc_padding_mask)"
MASKS = 'masks = {"look_ahead_mask": look_ahead_mask, "padding_mask": dec_padding_mask}'
DECODED = "dec_output, scores = self.decoder(output_sentence, enc_output, training=training, **masks)"
LOGITS = "logits = self.final_layer(dec_output)"
LAST = "return ops.softmax(logits, axis=-1), scores"
NEAR = 1e-4  # the comparison is in float32, as learners may take √d of a float32 tensor


def draw(rng):
    """Return ids, three different masks, and a seed for the weights. The look-ahead mask is (B, T, T): it hides padding too."""
    batch, rows, columns, heads, between, source, target = sizes(rng, 7, least=3, most=10)
    hidden = rng.random((2, batch, 1, columns)) < 0.6
    hidden[..., 0] = True
    targets = rng.integers(1, rows + 1, (batch, 1, 1))
    targets[0] = 1
    return {
        "input_sentence": rng.integers(1, source, (batch, columns)),
        "output_sentence": rng.integers(1, target, (batch, rows)),
        "enc_padding_mask": hidden[0],
        "look_ahead_mask": np.tril(np.arange(rows) < targets.repeat(rows, axis=1)),
        "dec_padding_mask": hidden[1],
        "made": [1, 2 * heads, heads, between, source, target, columns + 2, rows + 1, 0.3],
        "training": False,
        "seed": int(rng.integers(1000)),
    }


def draw_square(rng):
    """Return inputs for training, with source and target of one length and one vocabulary, so that each fits in the other's place.

    Only the encoder's mask is given, although there are zeros among the ids.
    """
    batch, positions, heads, between, vocabulary = sizes(rng, 5, least=3, most=8)
    source, target = rng.integers(1, vocabulary, (2, batch, positions))
    source[0, -1] = target[0, 0] = 0
    hidden = rng.random((batch, 1, positions)) < 0.6
    hidden[..., 0], hidden[0, 0, 1:2] = True, False
    return {
        "input_sentence": source,
        "output_sentence": target,
        "enc_padding_mask": hidden,
        "look_ahead_mask": None,
        "dec_padding_mask": None,
        "made": [1, 2 * heads, heads, between, vocabulary, vocabulary, positions + 1, positions + 1, 0.3],
        "training": True,
        "seed": int(rng.integers(1000)),
    }


def called(answer, inputs):
    """Return the result of a traced call, as in `fit`, with weights that are drawn by shape, in the order of the parts."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("float32")
    model = answer.Transformer(*inputs["made"])
    width = inputs["made"][1]
    model.encoder.build((None, None))
    model.decoder.build((None, None), (None, None, width))
    model.final_layer.build((None, None, width))
    rng = np.random.default_rng(inputs["seed"])
    for part in (model.encoder, model.decoder, model.final_layer):
        part.set_weights([0.6 * rng.normal(size=each.shape) for each in part.get_weights()])
        worker_api.seed_dropouts(part)
    masks = {name: inputs[name] for name in ("enc_padding_mask", "look_ahead_mask", "dec_padding_mask")}
    arrays = [keras.ops.convert_to_tensor(inputs[name]) for name in ("input_sentence", "output_sentence")]
    return tf.function(model.call)(*arrays, training=inputs["training"], **masks)


def probabilities(inputs, result, expected):
    """Check that a position's probabilities sum to 1 and do not depend on later target tokens."""
    found = np.asarray(result[0])
    if found.min() < 0 or not np.allclose(found.sum(axis=-1), 1.0):
        return "the numbers of a position are not probabilities: some are negative, or they do not sum to 1."
    return None


EXERCISE = Exercise(
    title="The Transformer",
    question="Does the whole model return logits or probabilities, and are there two padding masks or one? (keras-team/keras-io#1046)",
    difficulty=2,
    minutes=15,
    uses=("numpy", "keras", "tensorflow"),
    needs=(
        "get_angles",
        "positional_encoding",
        "fully_connected",
        "EncoderLayer",
        "Encoder",
        "DecoderLayer",
        "Decoder",
    ),
    checks=(
        *standard(draw, signature=1, shape=1, values=5, ask=called, times=1, tolerance=NEAR, ones=False),
        Check("invariants", "probabilities sum to 1 over the vocabulary", 1, draw, called, probabilities, times=1),
        Check(
            "values",
            "in training; source and target of one length; no masks for the decoder",
            2,
            draw_square,
            called,
            times=1,
            tolerance=NEAR,
        ),
    ),
    wrong=(
        Wrong(
            "softmax-missing",
            "You return logits. Users of this model expect probabilities.",
            {LAST: "return logits, scores"},
            "flexflow/flexflow-train#467, PaddlePaddle/PaddleOCR#4556",
        ),
        Wrong(
            "softmax-over-positions",
            "Your softmax runs over the positions. A position's probabilities are over the vocabulary, the last axis.",
            {LAST: LAST.replace("axis=-1", "axis=1")},
        ),
        Wrong(
            "softmax-twice",
            "You apply the softmax twice, so the probabilities are nearly equal.",
            {LAST: LAST.replace("logits, axis", "ops.softmax(logits), axis")},
            "Vaswani et al. 2017, section 3.2.1",
        ),
        Wrong(
            "final-layer-missing",
            "You do not use the last layer, so your softmax runs over the decoder's features instead of the vocabulary.",
            {LOGITS: "logits = dec_output"},
        ),
        Wrong(
            "padding-masks-exchanged",
            "You exchanged the two padding masks. Encoder and decoder each have their own.",
            {
                ENCODED: ENCODED.replace("enc_padding", "dec_padding"),
                MASKS: MASKS.replace("dec_padding", "enc_padding"),
            },
        ),
        Wrong(
            "encoder-mask-missing",
            "The encoder's padding mask does not reach it, so source tokens attend to padding. Pass it on.",
            {ENCODED: ENCODED.replace(", mask=enc_padding_mask", "")},
        ),
        Wrong(
            "decoder-gets-source",
            "You pass the source sentence to the decoder. Pass it the target so far.",
            {DECODED: DECODED.replace("output_sentence", "input_sentence")},
        ),
        Wrong(
            "dropout-never",
            "You do not pass `training` on, so dropout is off in training.",
            {
                ENCODED: ENCODED.replace("training=training", "training=False"),
                DECODED: DECODED.replace("training=training", "training=False"),
            },
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "look-ahead-made-anew",
            "You make the look-ahead mask yourself. Pass on the one that you get, which can hide the target's padding too.",
            {
                MASKS: "length = output_sentence.shape[1]\n        "
                + MASKS.replace(": look_ahead_mask,", ': ops.cast(ops.tril(ops.ones((1, length, length))), "bool"),')
            },
        ),
        Wrong(
            "padding-mask-for-both",
            "Without a mask for the decoder, you take the encoder's. `None` hides nothing: the caller decides on each mask.",
            {MASKS: "if dec_padding_mask is None:\n            dec_padding_mask = enc_padding_mask\n        " + MASKS},
        ),
        Wrong(
            "mask-from-ids",
            "Without padding masks, you make them from the ids. `None` hides nothing: the caller decides on each mask.",
            {
                MASKS: "if dec_padding_mask is None:\n"
                "            dec_padding_mask = ops.expand_dims(ops.not_equal(input_sentence, 0), 1)\n        " + MASKS
            },
        ),
        Wrong(
            "causal-unasked",
            "Without a look-ahead mask, you make one yourself. `None` hides nothing: the caller decides on each mask.",
            {
                MASKS: "length = output_sentence.shape[1]\n        if look_ahead_mask is None:\n"
                '            look_ahead_mask = ops.cast(ops.tril(ops.ones((1, length, length))), "bool")\n        '
                + MASKS
            },
        ),
        Wrong(
            "encoder-mask-of-decoder",
            "You pass the decoder's padding mask to the encoder. It has its own, `enc_padding_mask`.",
            {ENCODED: ENCODED.replace("enc_padding", "dec_padding")},
        ),
        Wrong(
            "decoder-mask-of-encoder",
            "You pass the encoder's padding mask to the decoder. It has its own, `dec_padding_mask`.",
            {MASKS: MASKS.replace("dec_padding", "enc_padding")},
        ),
        Wrong(
            "decoder-look-ahead-missing",
            "The look-ahead mask does not reach the decoder, so it sees the target's future.",
            {MASKS: MASKS.replace('"look_ahead_mask": look_ahead_mask, ', "")},
        ),
        Wrong(
            "decoder-padding-missing",
            "The padding mask does not reach the decoder, so it attends to the source's padding.",
            {MASKS: MASKS.replace(', "padding_mask": dec_padding_mask', "")},
        ),
        Wrong(
            "decoder-masks-missing",
            "Neither mask reaches the decoder.",
            {DECODED: DECODED.replace(", **masks", "")},
        ),
        Wrong(
            "training-not-in-encoder",
            "In training, your encoder drops nothing. Pass `training` to it.",
            {ENCODED: ENCODED.replace("training=training, ", "")},
        ),
        Wrong(
            "training-not-in-decoder",
            "In training, your decoder drops nothing. Pass `training` to it.",
            {DECODED: DECODED.replace("training=training, ", "training=None, ")},
        ),
        Wrong(
            "training-always",
            "You call encoder and decoder with `training=True`, so something is dropped at inference too.",
            {ENCODED: ENCODED.replace("=training", "=True"), DECODED: DECODED.replace("=training", "=True")},
        ),
        Wrong(
            "training-always-in-encoder",
            "You call the encoder with `training=True`, so something is dropped at inference too.",
            {ENCODED: ENCODED.replace("=training", "=True")},
        ),
        Wrong(
            "training-always-in-decoder",
            "You call the decoder with `training=True`, so something is dropped at inference too.",
            {DECODED: DECODED.replace("=training", "=True")},
        ),
        Wrong(
            "probabilities-of-last-position",
            "You return the probabilities of the last position only. The loss needs those of all positions.",
            {LOGITS: LOGITS.replace("dec_output", "dec_output[:, -1:]")},
        ),
        Wrong(
            "final-layer-on-source",
            "Your last layer gets the encoder's output. It gets the decoder's.",
            {LOGITS: LOGITS.replace("dec_output", "enc_output")},
        ),
        Wrong(
            "tokens-returned",
            "You return the most likely tokens. Return the probabilities of all tokens.",
            {LAST: LAST.replace("ops.softmax", "ops.argmax")},
        ),
    ),
)
