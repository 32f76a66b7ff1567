"""What is checked of `DecoderLayer`: who asks whom, and with which mask."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FIRST = "attention1, scores1 = self.mha1(x, x, attention_mask=look_ahead_mask, **options)"
BLOCK1 = "block1 = self.layernorm1(x + attention1)"
SECOND = "block1, key=enc_output, value=enc_output, attention_mask=padding_mask, **options"
BLOCK2 = "block2 = self.layernorm2(block1 + attention2)"
FORWARD = "forward = self.dropout_ffn(self.ffn(block2), training=training)"
LAST = "return self.layernorm3(block2 + forward), scores1, scores2"


def attention(rng, heads, size, width):
    """Weights of Keras' layer, in its order."""
    found = []
    for _ in range(3):
        found += [rng.normal(size=(width, heads, size)), rng.normal(size=(heads, size))]
    return [*found, 0.3 * rng.normal(size=(heads, size, width)), rng.normal(size=(width,))]


def drawn(rng, batch, rows, columns, heads, size, between):
    """Everything, for these sizes; the padding mask hides something in every sentence but one."""
    width = heads * size
    lengths = rng.integers(1, columns, batch)
    lengths[-1] = columns
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
        "look_ahead_mask": np.tril(np.ones((1, rows, rows), bool)),
        "padding_mask": (np.arange(columns) < lengths[:, None])[:, None],
        "made": [width, heads, between, 0.3],
        "weights": weights,
        "training": False,
    }


def draw(rng):
    """Target and source of different lengths."""
    return drawn(rng, *sizes(rng, 6, least=2, most=8))


def draw_square(rng):
    """Target and source of one length: each mask would fit in the other's place."""
    batch, positions, heads, size, between = sizes(rng, 5, least=3, most=8)
    return drawn(rng, batch, positions, positions, heads, size, between)


def draw_training(rng):
    """In training, without masks."""
    return {**draw_square(rng), "look_ahead_mask": None, "padding_mask": None, "training": True}


def called(answer, inputs):
    """The layer's result with the weights given."""
    import keras

    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("float64")
    layer = answer.DecoderLayer(*inputs["made"])
    layer.build(inputs["x"].shape, inputs["enc_output"].shape)
    worker_api.set_weights(layer, inputs["weights"])
    masks = {name: inputs[name] for name in ("look_ahead_mask", "padding_mask")}
    arrays = [keras.ops.convert_to_tensor(inputs[name]) for name in ("x", "enc_output")]
    return layer(*arrays, training=inputs["training"], **masks)


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
        Check("values", "target and source of one length", 5, draw_square, called, times=1),
        Check(
            "values",
            "in training: dropout in both attentions and on the fully connected part",
            3,
            draw_training,
            called,
            times=1,
        ),
    ),
    wrong=(
        Wrong(
            "decoder-memory-from-input",
            "The second attention's key and value are x, not the encoder's output: the source is never looked at.",
            {SECOND: SECOND.replace("enc_output", "x")},
            "keitakurita/Practical_NLP_in_PyTorch#1",
        ),
        Wrong(
            "inputs-query-from-encoder",
            "The second attention's query is the encoder's output, and key and value are the target: the target is to ask "
            "the source.",
            {
                SECOND: SECOND.replace(
                    "block1, key=enc_output, value=enc_output", "enc_output, key=block1, value=block1"
                )
            },
            "rexrex9/nlp_torchtext#2; seed 000",
        ),
        Wrong(
            "inputs-value-from-query",
            "The second attention's value is block 1's output: key and value both come from the encoder.",
            {SECOND: SECOND.replace("value=enc_output", "value=block1")},
            "tensorflow/tensorflow#34809",
        ),
        Wrong(
            "decoder-query-from-input",
            "The second attention's query is x: it is what block 1 gave.",
            {SECOND: SECOND.replace("block1", "x")},
            "seed 000",
        ),
        Wrong(
            "decoder-masks-exchanged",
            "The masks are exchanged: block 1 hides the future of the target, block 2 the padding of the source.",
            {FIRST: FIRST.replace("look_ahead", "padding"), SECOND: SECOND.replace("padding", "look_ahead")},
            "zhouhaoyi/Informer2020#38",
        ),
        Wrong(
            "decoder-masks-look-ahead-for-cross",
            "The second attention gets the look-ahead mask: the source is there as a whole; only its padding is hidden.",
            {SECOND: SECOND.replace("padding", "look_ahead")},
            "keras-team/keras-io#1046",
        ),
        Wrong(
            "causal-missing",
            "Block 1 gets no mask: the target's future is seen.",
            {FIRST: FIRST.replace("attention_mask=look_ahead_mask, ", "")},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "residual-cross-from-input",
            "The second sum starts from x: it starts from block 1's output, which went into the second attention.",
            {BLOCK2: BLOCK2.replace("block1", "x")},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "residual-missing-cross",
            "The residual connection around the second attention is missing.",
            {BLOCK2: BLOCK2.replace("block1 + ", "")},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "residual-feed-forward-from-block1",
            "The last sum starts from block 1's output: it starts from block 2's, which went into the fully connected part.",
            {LAST: LAST.replace("block2", "block1")},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "decoder-attention-shared",
            "The second attention is done by the first one's layer: each has its own weights.",
            {"self.mha2(": "self.mha1("},
            "Vaswani et al. 2017, section 3.1 and figure 1",
        ),
        Wrong(
            "returned-exchanged",
            "The scores are returned in reverse: block 1's come first.",
            {LAST: LAST.replace("scores1, scores2", "scores2, scores1")},
        ),
    ),
)
