"""The checks of `DecoderLayer`: what attends to what, and with which mask."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FIRST = "attention1, scores1 = self.mha1(x, x, attention_mask=look_ahead_mask, **options)"
BLOCK1 = "block1 = self.layernorm1(x + attention1)"
SECOND = "block1, key=enc_output, value=enc_output, attention_mask=padding_mask, **options"
BLOCK2 = "block2 = self.layernorm2(block1 + attention2)"
FORWARD = "forward = self.dropout_ffn(self.ffn(block2), training=training)"
LAST = "return self.layernorm3(block2 + forward), scores1, scores2"


def attention(rng, heads, size, width):
    """Return weights for Keras' layer, in its order."""
    found = []
    for _ in range(3):
        found += [rng.normal(size=(width, heads, size)), rng.normal(size=(heads, size))]
    return [*found, 0.3 * rng.normal(size=(heads, size, width)), rng.normal(size=(width,))]


def lengths(rng, batch, longest):
    """Return the sentences' lengths as a column; only the last one has no padding."""
    return np.append(rng.integers(1, max(2, longest), batch - 1), longest)[:, None]


def drawn(rng, batch, rows, columns, heads, size, between):
    """Return all inputs for these sizes; both masks hide padding in every sentence but one."""
    width = heads * size
    target, source = ((np.arange(n) < lengths(rng, batch, n))[:, None] for n in (rows, columns))
    weights = {name: attention(rng, heads, size, width) for name in ("mha1", "mha2")}
    weights["ffn"] = [
        rng.normal(size=(width, between)),
        rng.normal(size=(between,)),
        0.3 * rng.normal(size=(between, width)),
        rng.normal(size=(width,)),
    ]
    for name in ("layernorm1", "layernorm2", "layernorm3"):
        weights[name] = [rng.uniform(0.5, 2.0, width), rng.normal(size=(width,))]
    return {
        "x": rng.normal(size=(batch, rows, width)),
        "enc_output": rng.normal(size=(batch, columns, width)),
        "look_ahead_mask": np.tril(target.repeat(rows, axis=1)),
        "padding_mask": source,
        "made": [width, heads, between, 0.3],
        "weights": weights,
        "training": False,
    }


def draw(rng):
    """Return target and source of different lengths."""
    return drawn(rng, *sizes(rng, 6, least=2, most=8))


def draw_square(rng):
    """Return target and source of one length, so that each mask would fit in the other's place.

    The look-ahead mask is (1, T, T), and there is no padding mask.
    """
    batch, positions, heads, size, between = sizes(rng, 5, least=3, most=8)
    found = drawn(rng, batch, positions, positions, heads, size, between)
    return {**found, "look_ahead_mask": np.tril(np.ones((1, positions, positions), bool)), "padding_mask": None}


def draw_training(rng):
    """Return inputs for training without a look-ahead mask. The padding mask hides other positions from each query."""
    found = draw_square(rng)
    batch, positions = found["x"].shape[:2]
    mask = rng.random((batch, positions, positions)) < 0.6
    mask[..., 0] = mask[-1, 0, -1] = True
    mask[-1, 1:2, -1] = False
    return {**found, "look_ahead_mask": None, "padding_mask": mask, "training": True}


def called(answer, inputs):
    """Return the layer's result with the given weights, from a traced call, as `fit` makes it."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("float64")
    layer = answer.DecoderLayer(*inputs["made"])
    layer.build(inputs["x"].shape, inputs["enc_output"].shape)
    worker_api.set_weights(layer, inputs["weights"])
    masks = {name: inputs[name] for name in ("look_ahead_mask", "padding_mask")}
    arrays = [keras.ops.convert_to_tensor(inputs[name]) for name in ("x", "enc_output")]
    return tf.function(layer)(*arrays, training=inputs["training"], **masks)


EXERCISE = Exercise(
    title="The decoder layer",
    question="What are query, key and value of the decoder's second attention, and which mask belongs to it? (seed 000; "
    "keras-team/keras-io#1046)",
    difficulty=2,
    minutes=25,
    uses=("numpy", "keras", "tensorflow"),
    needs=("fully_connected",),
    checks=(
        *standard(draw, signature=1, shape=1, values=5, ask=called, times=1),
        Check("values", "target and source of one length; no padding mask", 5, draw_square, called, times=1),
        Check(
            "values",
            "in training: dropout in both attentions and on the fully connected part; no look-ahead mask",
            3,
            draw_training,
            called,
            times=1,
        ),
    ),
    wrong=(
        Wrong(
            "decoder-memory-from-input",
            "Your second attention takes x as key and value, so it never looks at the source. Use the encoder's output.",
            {SECOND: SECOND.replace("enc_output", "x")},
            "keitakurita/Practical_NLP_in_PyTorch#1",
        ),
        Wrong(
            "inputs-query-from-encoder",
            "Your second attention takes the encoder's output as query and the target as key and value. The target must query the source.",
            {
                SECOND: SECOND.replace(
                    "block1, key=enc_output, value=enc_output", "enc_output, key=block1, value=block1"
                )
            },
            "rexrex9/nlp_torchtext#2; seed 000",
        ),
        Wrong(
            "inputs-value-from-query",
            "Your second attention takes block 1's output as value. Key and value both come from the encoder.",
            {SECOND: SECOND.replace("value=enc_output", "value=block1")},
            "tensorflow/tensorflow#34809",
        ),
        Wrong(
            "decoder-query-from-input",
            "Your second attention takes x as query. Use block 1's output.",
            {SECOND: SECOND.replace("block1", "x")},
            "seed 000",
        ),
        Wrong(
            "decoder-masks-exchanged",
            "You exchanged the masks. Block 1 hides the future of the target, and block 2 hides the padding of the source.",
            {FIRST: FIRST.replace("look_ahead", "padding"), SECOND: SECOND.replace("padding", "look_ahead")},
            "zhouhaoyi/Informer2020#38",
        ),
        Wrong(
            "decoder-masks-look-ahead-for-cross",
            "You pass the look-ahead mask to the second attention. The whole source is visible to it, except for the padding.",
            {SECOND: SECOND.replace("padding", "look_ahead")},
            "keras-team/keras-io#1046",
        ),
        Wrong(
            "causal-missing",
            "You pass no mask to block 1, so it sees the target's future.",
            {FIRST: FIRST.replace("attention_mask=look_ahead_mask, ", "")},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "residual-cross-from-input",
            "Your second sum starts from x. Start from block 1's output, which went into the second attention.",
            {BLOCK2: BLOCK2.replace("block1", "x")},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "residual-missing-cross",
            "You left out the residual connection around the second attention.",
            {BLOCK2: BLOCK2.replace("block1 + ", "")},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "residual-feed-forward-from-block1",
            "Your last sum starts from block 1's output. Start from block 2's, which went into the fully connected part.",
            {LAST: LAST.replace("block2", "block1")},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "decoder-attention-shared",
            "You use the first attention's layer for the second attention too. Each has its own weights.",
            {"self.mha2(": "self.mha1("},
            "Vaswani et al. 2017, section 3.1 and figure 1",
        ),
        Wrong(
            "returned-exchanged",
            "You return the scores in reverse order. Block 1's come first.",
            {LAST: LAST.replace("scores1, scores2", "scores2, scores1")},
        ),
        Wrong(
            "dropout-never",
            "You do not apply dropout after the fully connected part.",
            {FORWARD: "forward = self.ffn(block2)"},
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "look-ahead-not-read",
            "You use Keras' causal mask instead of `look_ahead_mask`, which can hide the target's padding too.",
            {FIRST: FIRST.replace("attention_mask=look_ahead_mask", "use_causal_mask=look_ahead_mask is not None")},
        ),
        Wrong(
            "padding-of-first-query",
            "You use the first row of the padding mask for all queries. A mask (B, T, S) can hide other positions from each.",
            {
                SECOND: SECOND.replace(
                    "attention_mask=padding_mask", "value_mask=None if padding_mask is None else padding_mask[:, 0]"
                )
            },
        ),
        Wrong(
            "look-ahead-needs-padding",
            "With a look-ahead mask, you need a padding mask too. Each of them may be `None`.",
            {
                FIRST: "if look_ahead_mask is not None:\n"
                '            padding_mask = keras.ops.cast(padding_mask, "bool")\n        ' + FIRST
            },
        ),
    ),
)
