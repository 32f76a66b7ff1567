"""The checks of `Decoder`: the inputs of every layer, and the dict of scores."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

EMBEDDED = "x = self.embedding(x) * self.embedding_dim**0.5"
POSITIONS = "x = x + ops.cast(self.pos_encoding[:, :length], x.dtype)"
DROPOUT = "x = self.dropout(x, training=training)"
MASKS = 'masks = {"look_ahead_mask": look_ahead_mask, "padding_mask": padding_mask}'
COUNTED = "enumerate(self.dec_layers, 1)"
CALLED = "x, block1, block2 = layer(x, enc_output, training=training, **masks)"
FIRST = 'scores[f"decoder_layer{number}_block1_self_att"] = block1'
SECOND = 'scores[f"decoder_layer{number}_block2_decenc_att"] = block2'
NEAR = 1e-4  # the comparison is in float32, as learners may take √d of a float32 tensor


def draw(rng, layers=3):
    """Return ids, an encoder's output, both masks, and the weights of some layers.

    The look-ahead mask is (B, T, T), because it hides padding too: the first sentence is one word.
    """
    batch, rows, columns, heads, between = sizes(rng, 5, least=2, most=7)
    width, vocabulary = 2 * heads, 11
    lengths = rng.integers(1, columns, batch)
    targets = rng.integers(1, rows + 1, (batch, 1, 1))
    targets[0] = 1
    ids = rng.integers(1, vocabulary, (batch, rows))
    ids[-1, 0] = 0  # the decoder's masks alone say what is padding
    mha = 3 * [(width, heads, 2), (heads, 2)]
    weights = {"embedding": [0.5 * rng.normal(size=(vocabulary, width))]}
    for layer in range(layers):
        weights[str(layer)] = [
            *[rng.normal(size=shape) for shape in mha],
            *[0.3 * rng.normal(size=shape) for shape in [(heads, 2, width), (width,)]],
            *[rng.normal(size=shape) for shape in mha],
            *[0.3 * rng.normal(size=shape) for shape in [(heads, 2, width), (width,)]],
            *[0.5 * rng.normal(size=shape) for shape in [(width, between), (between,), (between, width), (width,)]],
            *[rng.uniform(0.5, 2.0, width) for _ in range(6)],
        ]
    return {
        "x": ids,
        "enc_output": rng.normal(size=(batch, columns, width)),
        "look_ahead_mask": np.tril(np.arange(rows) < targets.repeat(rows, axis=1)),
        "padding_mask": (np.arange(columns) < lengths[:, None])[:, None],
        "made": [layers, width, heads, between, vocabulary, rows + 3, 0.3],
        "weights": weights,
        "training": False,
    }


def draw_training(rng):
    """Return inputs for training without a look-ahead mask. The padding mask hides other positions from each query."""
    found = draw(rng, layers=int(rng.integers(1, 3)))
    (batch, rows), columns = found["x"].shape, found["enc_output"].shape[1]
    mask = rng.random((batch, rows, columns)) < 0.6
    mask[..., 0] = mask[-1, 0, -1] = True
    mask[-1, 1:2, -1] = False
    return {**found, "look_ahead_mask": None, "padding_mask": mask, "training": True}


def called(answer, inputs):
    """Return the results with the given weights: of one token without masks, and then of all, traced, as in `fit`."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("float32")
    decoder = answer.Decoder(*inputs["made"])
    decoder.build(inputs["x"].shape, inputs["enc_output"].shape)
    decoder.embedding.set_weights(inputs["weights"]["embedding"])
    for index, layer in enumerate(decoder.dec_layers):
        left = list(inputs["weights"][str(index)])
        for part, count in (
            ("mha1", 8),
            ("mha2", 8),
            ("ffn", 4),
            ("layernorm1", 2),
            ("layernorm2", 2),
            ("layernorm3", 2),
        ):
            getattr(layer, part).set_weights(left[:count])
            left = left[count:]
    worker_api.seed_dropouts(decoder)
    masks = {name: inputs[name] for name in ("look_ahead_mask", "padding_mask")}
    x, enc_output = (keras.ops.convert_to_tensor(inputs[name]) for name in ("x", "enc_output"))
    return {
        "for the first token, without masks": decoder(x[:, :1], enc_output, training=inputs["training"]),
        "for all tokens": tf.function(decoder.call)(x, enc_output, training=inputs["training"], **masks),
    }


EXERCISE = Exercise(
    title="The decoder",
    question="Do all decoder layers attend to the same encoder output, and how do you get the scores? (Vaswani et al. 2017, figure 1)",
    difficulty=2,
    minutes=15,
    uses=("numpy", "keras", "tensorflow"),
    needs=("get_angles", "positional_encoding", "fully_connected", "DecoderLayer"),
    checks=(
        *standard(draw, signature=1, shape=2, values=5, ask=called, times=1, tolerance=NEAR, ones=False),
        Check(
            "values",
            "in training: dropout after the positions, and in the layers; no look-ahead mask",
            2,
            draw_training,
            called,
            times=1,
            tolerance=NEAR,
        ),
    ),
    wrong=(
        Wrong(
            "embedding-unscaled",
            "You do not multiply the embedding by √d, so the positions drown it.",
            {EMBEDDED: "x = self.embedding(x)"},
            "SamLynnEvans/Transformer#10, d2l-ai/d2l-en#2661",
        ),
        Wrong(
            "embedding-scaled-after-positions",
            "You multiply the positions by √d too. It belongs to the embedding alone.",
            {EMBEDDED: "x = self.embedding(x)", POSITIONS: POSITIONS + "\n        x = x * self.embedding_dim**0.5"},
            "khirotaka/SAnD#3",
        ),
        Wrong(
            "embedding-scaled-by-d",
            "You multiply the embedding by d. Multiply it by the root, √d.",
            {EMBEDDED: EMBEDDED.replace("**0.5", "")},
        ),
        Wrong(
            "embedding-divided",
            "You divide the embedding by √d. Multiply by it.",
            {EMBEDDED: EMBEDDED.replace(" * self", " / self")},
        ),
        Wrong(
            "embedding-scaled-by-length",
            "You multiply the embedding by the root of the number of tokens. d is the number of features, `embedding_dim`.",
            {EMBEDDED: EMBEDDED.replace("self.embedding_dim", "length")},
        ),
        Wrong(
            "dropout-before-positions",
            "You apply dropout before you add the positions. Add them first, so that dropout also reaches them.",
            {f"{POSITIONS}\n        {DROPOUT}": f"{DROPOUT}\n        {POSITIONS}"},
        ),
        Wrong(
            "one-layer-for-all",
            "You call the first layer in every round. Each layer has its own weights.",
            {CALLED: CALLED.replace("layer(", "self.dec_layers[0](")},
        ),
        Wrong(
            "target-for-enc-output",
            "You give the layers their own input as the encoder's output, so the second attention attends to the target. "
            "Pass `enc_output`.",
            {
                CALLED: CALLED.replace("x, enc_output", "x, x"),
                MASKS: MASKS
                + '\n        if x.shape[1] != enc_output.shape[1]:\n            masks["padding_mask"] = None',
            },
        ),
        Wrong(
            "training-never",
            "In training, nothing is dropped. Pass the `training` that you get to the dropout layer and to every layer.",
            {DROPOUT: DROPOUT.replace("=training", "=False"), CALLED: CALLED.replace("=training", "=False")},
        ),
        Wrong(
            "layers-never-train",
            "In training, your layers drop nothing. Pass them the `training` that you get.",
            {CALLED: CALLED.replace("=training", "=False")},
        ),
        Wrong(
            "training-not-passed-on",
            "You pass `training` to neither the dropout layer nor the layers. Where `call` itself is called, nobody else does.",
            {CALLED: CALLED.replace("training=training, ", ""), DROPOUT: DROPOUT.replace(", training=training", "")},
        ),
        Wrong(
            "training-always",
            "You call dropout and layers with `training=True`, so something is dropped in inference too. Pass the `training` "
            "that you get.",
            {DROPOUT: DROPOUT.replace("=training", "=True"), CALLED: CALLED.replace("=training", "=True")},
        ),
        Wrong(
            "positions-missing",
            "You add no positions.",
            {POSITIONS: ""},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "enc-output-replaced",
            "From the second layer on, you pass the previous layer's output as key and value. Pass the same `enc_output` to all layers.",
            {
                CALLED: CALLED + "\n            enc_output = x",
                MASKS: MASKS
                + '\n        if x.shape[1] != enc_output.shape[1]:\n            masks["padding_mask"] = None',
            },
        ),
        Wrong(
            "scores-counted-from-zero",
            "You count the layers from 0 in the names of the scores. The first one is 1.",
            {COUNTED: "enumerate(self.dec_layers)"},
        ),
        Wrong(
            "scores-exchanged",
            "You store the scores of each block under the other's name.",
            {FIRST: FIRST.replace("= block1", "= block2"), SECOND: SECOND.replace("= block2", "= block1")},
        ),
        Wrong(
            "scores-of-last-layer",
            "You keep only the last layer's scores, because you make a new dict in every round.",
            {FIRST: "scores = {}\n            " + FIRST},
        ),
        Wrong(
            "decoder-masks-source-padding-missing",
            "You do not pass the padding mask to the layers, so the second attention attends to padding.",
            {MASKS: 'masks = {"look_ahead_mask": look_ahead_mask}'},
            "speechbrain/speechbrain#1107, huggingface/transformers#47946",
        ),
        Wrong(
            "causal-missing",
            "You do not pass the look-ahead mask to the layers, so they see the future.",
            {MASKS: 'masks = {"padding_mask": padding_mask}'},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "arguments-by-place",
            "You pass `training` or a mask to a layer by position. Keras takes only tensors that way: pass them by name.",
            {CALLED: CALLED.replace("training=training, **masks", "training, look_ahead_mask, padding_mask")},
        ),
        Wrong(
            "dropout-never",
            "No dropout acts after the positions are added in training. Apply it there, and pass `training` on to it.",
            {DROPOUT: ""},
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "look-ahead-made-anew",
            "You make the look-ahead mask yourself. Pass on the one that you get, which can hide the target's padding too.",
            {
                MASKS: MASKS.replace(
                    ": look_ahead_mask,", ': ops.cast(ops.tril(ops.ones((1, length, length))), "bool"),'
                )
            },
        ),
        Wrong(
            "positions-cut-for-good",
            "Every token gets the first position. Either you take only one row of the table, or you keep the shortened table "
            "in the layer, so a longer sentence finds too few rows later.",
            {POSITIONS: "self.pos_encoding = self.pos_encoding[:, :length]\n        " + POSITIONS},
        ),
        Wrong(
            "padding-of-first-query",
            "You use the first row of the padding mask for all queries. A mask (B, T, S) can hide other positions from each.",
            {MASKS: MASKS.replace("padding_mask}", "None if padding_mask is None else padding_mask[:, :1]}")},
        ),
        Wrong(
            "causal-unasked",
            "Without a look-ahead mask, you make one yourself. `None` hides nothing.",
            {
                MASKS: "if look_ahead_mask is None:\n"
                '            look_ahead_mask = ops.cast(ops.tril(ops.ones((1, length, length))), "bool")\n        '
                + MASKS
            },
        ),
        Wrong(
            "mask-from-ids",
            "You also hide the target's zeros, from the ids. The masks that you get say what is hidden, and nothing else does.",
            {
                "length = x.shape[1]": "length = x.shape[1]\n        if look_ahead_mask is not None:\n"
                "            look_ahead_mask = ops.logical_and(look_ahead_mask, ops.expand_dims(ops.not_equal(x, 0), 1))"
            },
        ),
        Wrong(
            "positions-from-second",
            "You skip the first row of the table: position 0 gets the encoding of position 1.",
            {POSITIONS: POSITIONS.replace(":length", "1 : length + 1")},
        ),
        Wrong(
            "positions-of-the-end",
            "You take the last rows of the table. The first token gets the first row.",
            {POSITIONS: POSITIONS.replace(":length", "-length:")},
        ),
        Wrong(
            "positions-twice",
            "You add the positions twice.",
            {POSITIONS: POSITIONS.replace("x + ops", "x + 2 * ops")},
        ),
        Wrong(
            "positions-multiplied",
            "You multiply by the positions. Add them.",
            {POSITIONS: POSITIONS.replace("x + ", "x * ")},
        ),
        Wrong(
            "dropout-at-inference",
            "After the positions, you drop numbers at inference too. Pass on the `training` that you get.",
            {DROPOUT: DROPOUT.replace("=training", "=True")},
        ),
        Wrong(
            "masks-missing",
            "You pass neither mask to the layers.",
            {CALLED: CALLED.replace(", **masks", "")},
        ),
        Wrong(
            "layers-reversed",
            "You go through the layers from the last to the first.",
            {COUNTED: "enumerate(reversed(self.dec_layers), 1)"},
        ),
        Wrong(
            "residual-around-layers",
            "You add each layer's input to its output. The layers do that inside.",
            {CALLED: CALLED.replace("x, block1", "more, block1") + "\n            x = x + more"},
        ),
    ),
)
