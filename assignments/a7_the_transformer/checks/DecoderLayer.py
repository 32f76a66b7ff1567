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


def draw_both(rng):
    """Return target and source of one length, with padding in both, so that each mask fits in the other's place."""
    batch, positions, heads, size, between = sizes(rng, 5, least=3, most=8)
    found = drawn(rng, batch, positions, positions, heads, size, between)
    found["padding_mask"][-1, 0, 0] = False  # the target shows it
    return found


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
    return tf.function(layer.call)(*arrays, training=inputs["training"], **masks)


EXERCISE = Exercise(
    title="The decoder layer",
    question="What are query, key and value of the decoder's second attention, and which mask belongs to it? (seed 000; "
    "keras-team/keras-io#1046)",
    difficulty=2,
    minutes=25,
    uses=("numpy", "keras", "tensorflow"),
    needs=("fully_connected",),
    checks=(
        *standard(draw, signature=1, shape=1, values=4, ask=called, times=1),
        Check("values", "target and source of one length; no padding mask", 3, draw_square, called, times=1),
        Check("values", "target and source of one length, with both masks", 3, draw_both, called, times=1),
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
            "masks-by-position",
            "Your masks do not reach the attention: Keras takes an unnamed fourth argument for another mask, query_mask. "
            "Pass them by name, attention_mask.",
            {
                FIRST: FIRST.replace("x, x, attention_mask=look", "x, x, x, look"),
                SECOND: "block1, enc_output, enc_output, padding_mask, **options",
            },
        ),
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
            "No dropout acts after the fully connected part in training. Apply it there, and pass `training` on to it.",
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
        Wrong(
            "training-not-passed-on",
            "In training, nothing is dropped: `training` reaches neither the attentions nor the dropout layer.",
            {'"training": training, ': "", FORWARD: FORWARD.replace(", training=training", "")},
        ),
        Wrong(
            "training-not-in-attentions",
            "In training, your attentions drop no scores. Pass `training` to both.",
            {'"training": training, ': ""},
        ),
        Wrong(
            "training-always",
            "You call both attentions with `training=True`, so scores are dropped at inference too.",
            {'"training": training': '"training": True'},
        ),
        Wrong(
            "dropout-at-inference",
            "After the fully connected part, you drop numbers at inference too. Pass on the `training` that you get.",
            {FORWARD: FORWARD.replace("=training", "=True")},
        ),
        Wrong(
            "decoder-masks-source-padding-missing",
            "You pass no mask to the second attention, so it attends to the source's padding.",
            {SECOND: SECOND.replace("attention_mask=padding_mask, ", "")},
        ),
        Wrong(
            "decoder-masks-padding-for-self-too",
            "Where it fits, you pass the source's padding mask to the first attention too. It hides positions of the source, and block 1 attends to the target.",
            {
                FIRST: "both = look_ahead_mask\n"
                "        if padding_mask is not None and look_ahead_mask is not None and x.shape[1] == enc_output.shape[1]:\n"
                "            both = keras.ops.logical_and(look_ahead_mask, padding_mask)\n        "
                + FIRST.replace("look_ahead_mask", "both")
            },
        ),
        Wrong(
            "decoder-masks-exchanged-where-they-fit",
            "You exchange the masks where source and target have one length. Block 1 hides the future of the target, and block 2 hides the padding of the source.",
            {
                FIRST: "if look_ahead_mask is not None and padding_mask is not None and x.shape[1] == enc_output.shape[1]:\n"
                "            look_ahead_mask, padding_mask = padding_mask, look_ahead_mask\n        " + FIRST
            },
        ),
        Wrong(
            "decoder-cross-causal",
            "Your second attention hides the source's future. The whole source is visible to every target position, except for the padding.",
            {SECOND: SECOND.replace("padding_mask, ", "padding_mask, use_causal_mask=True, ")},
        ),
        Wrong(
            "causal-unasked",
            "Without a look-ahead mask, you hide the target's future yourself. `None` hides nothing.",
            {FIRST: FIRST.replace("look_ahead_mask, ", "look_ahead_mask, use_causal_mask=True, ")},
        ),
        Wrong(
            "residual-missing-self",
            "You left out the residual connection around the first attention.",
            {BLOCK1: BLOCK1.replace("x + ", "")},
        ),
        Wrong(
            "residual-missing-feed-forward",
            "You left out the residual connection around the fully connected part.",
            {LAST: LAST.replace("block2 + ", "")},
        ),
        Wrong(
            "feed-forward-from-block1",
            "The fully connected part gets block 1's output. It gets block 2's.",
            {FORWARD: FORWARD.replace("block2", "block1")},
        ),
        Wrong(
            "norm-shared-cross-1",
            "You use the first normalization for the second sum too. Each sum has its own gain and bias.",
            {BLOCK2: BLOCK2.replace("norm2", "norm1")},
        ),
        Wrong(
            "norm-shared-last-2",
            "You use the second normalization for the last sum too. Each sum has its own gain and bias.",
            {LAST: LAST.replace("norm3", "norm2")},
        ),
        Wrong(
            "norms-exchanged",
            "You exchanged the first two normalizations. Each sum has its own gain and bias, in the order of the names.",
            {BLOCK1: BLOCK1.replace("norm1", "norm2"), BLOCK2: BLOCK2.replace("norm2", "norm1")},
        ),
        Wrong(
            "norms-exchanged-2-and-3",
            "You exchanged the last two normalizations. Each sum has its own gain and bias, in the order of the names.",
            {BLOCK2: BLOCK2.replace("norm2", "norm3"), LAST: LAST.replace("norm3", "norm2")},
        ),
        Wrong(
            "norm-inside-residual",
            "You normalize only the sublayers' outputs and then add. Normalize the sums.",
            {
                BLOCK1: "block1 = x + self.layernorm1(attention1)",
                BLOCK2: "block2 = block1 + self.layernorm2(attention2)",
                LAST: LAST.replace("self.layernorm3(block2 + forward)", "block2 + self.layernorm3(forward)"),
            },
        ),
        Wrong(
            "norm-inside-residual-self",
            "After the first attention, you normalize only its output and then add x. Normalize the sum.",
            {BLOCK1: "block1 = x + self.layernorm1(attention1)"},
        ),
        Wrong(
            "norm-missing-last",
            "You left out the last normalization.",
            {LAST: LAST.replace("self.layernorm3(block2 + forward)", "block2 + forward")},
        ),
        Wrong(
            "returned-one-twice",
            "You return the first attention's scores twice. The second ones are those over the source.",
            {LAST: LAST.replace("scores2", "scores1")},
        ),
    ),
)
