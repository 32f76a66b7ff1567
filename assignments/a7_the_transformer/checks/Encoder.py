"""The checks of `Encoder`: how embedding and positions come together, and the inputs of the layers."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

LENGTH = "length = x.shape[1]"
EMBEDDED = "x = self.embedding(x) * self.embedding_dim**0.5"
POSITIONS = "x = x + ops.cast(self.pos_encoding[:, :length], x.dtype)"
DROPOUT = "x = self.dropout(x, training=training)"
LOOP = "x = layer(x, training=training, mask=mask)"
NEAR = 1e-4  # the comparison is in float32, as learners may take √d of a float32 tensor


def draw(rng, layers=3):
    """Return ids with padding, a mask that hides a word too, and the weights of some layers."""
    batch, positions, heads, between = sizes(rng, 4, least=3, most=7)
    width, vocabulary = 2 * heads, 11
    ids = rng.integers(1, vocabulary, (batch, positions))
    ids[:, -1] = 0
    ids[-1] = rng.integers(1, vocabulary, positions)
    mask = np.not_equal(ids, 0)[:, None]
    mask[-1, 0, 0] = False
    weights = {"embedding": [0.5 * rng.normal(size=(vocabulary, width))]}
    for layer in range(layers):
        weights[str(layer)] = [
            *[rng.normal(size=shape) for shape in 3 * [(width, heads, 2), (heads, 2)]],
            *[0.3 * rng.normal(size=shape) for shape in [(heads, 2, width), (width,)]],
            *[0.5 * rng.normal(size=shape) for shape in [(width, between), (between,), (between, width), (width,)]],
            *[rng.uniform(0.5, 2.0, width) for _ in range(4)],
        ]
    return {
        "x": ids,
        "mask": mask,
        "made": [layers, width, heads, between, vocabulary, positions + 3, 0.3],
        "weights": weights,
        "training": False,
    }


def draw_training(rng):
    """Return inputs for training, with a mask (B, S, S) that hides other positions from each query."""
    found = draw(rng, layers=int(rng.integers(1, 3)))
    batch, positions = found["x"].shape
    mask = rng.random((batch, positions, positions)) < 0.6
    mask[..., 0] = mask[-1, 0, -1] = True
    mask[-1, 1:2, -1] = False
    return {**found, "mask": mask, "training": True}


def called(answer, inputs):
    """Return the results with the given weights: of one token without masks, and then of all, traced, as in `fit`."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("float32")
    encoder = answer.Encoder(*inputs["made"])
    encoder.build(inputs["x"].shape)
    encoder.embedding.set_weights(inputs["weights"]["embedding"])
    for index, layer in enumerate(encoder.enc_layers):
        arrays = inputs["weights"][str(index)]
        for part, its in (("mha", arrays[:8]), ("ffn", arrays[8:12]), ("layernorm1", arrays[12:14])):
            getattr(layer, part).set_weights(its)
        layer.layernorm2.set_weights(arrays[14:])
    worker_api.seed_dropouts(encoder)
    x, training = keras.ops.convert_to_tensor(inputs["x"]), inputs["training"]
    return {
        "for the first token, without a mask": encoder(x[:, :1], training=training),
        "for all tokens": tf.function(encoder.call)(x, training=training, mask=inputs["mask"]),
    }


EXERCISE = Exercise(
    title="The encoder",
    question="Why is the embedding multiplied by √d, and where are the positions added? (Vaswani et al. 2017, sections "
    "3.4 and 3.5)",
    difficulty=2,
    minutes=15,
    uses=("numpy", "keras", "tensorflow"),
    needs=("get_angles", "positional_encoding", "fully_connected", "EncoderLayer"),
    checks=(
        *standard(draw, signature=1, shape=1, values=6, ask=called, times=1, tolerance=NEAR),
        Check(
            "values",
            "in training: dropout after the positions, and in the layers",
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
            "embedding-scaled-by-width",
            "You multiply the embedding by d: the root is missing.",
            {EMBEDDED: EMBEDDED.replace("**0.5", "")},
            "SamLynnEvans/Transformer#10",
        ),
        Wrong(
            "embedding-scaled-after-positions",
            "You multiply the positions by √d too. It belongs to the embedding alone.",
            {EMBEDDED: "x = self.embedding(x)", POSITIONS: POSITIONS + "\n        x = x * self.embedding_dim**0.5"},
            "khirotaka/SAnD#3",
        ),
        Wrong(
            "positions-missing",
            "You add no positions, so the encoder cannot tell the order of the tokens.",
            {POSITIONS: ""},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-one-for-all",
            "You give all tokens the encoding of one position: you index the table with the length instead of slicing it.",
            {POSITIONS: POSITIONS.replace(":length", "length : length + 1")},
            "DiffPoseTalk/DiffPoseTalk#20",
        ),
        Wrong(
            "positions-in-every-layer",
            "You add the positions in every layer. Add them once, below the first.",
            {POSITIONS: "", LOOP: "x = x + ops.cast(self.pos_encoding[:, :length], x.dtype)\n            " + LOOP},
        ),
        Wrong(
            "positions-in-every-layer-too",
            "You add the positions below the first layer, and in every layer again. Add them once, below the first.",
            {LOOP: "x = x + ops.cast(self.pos_encoding[:, :length], x.dtype)\n            " + LOOP},
        ),
        Wrong(
            "mask-argument-ignored",
            "You do not pass the mask to the layers, so they attend to padding.",
            {LOOP: LOOP.replace(", mask=mask", "")},
            "hao-ai-lab/FastVideo#1383, lucidrains/flamingo-pytorch#10",
        ),
        Wrong(
            "layers-from-embedding",
            "You pass the embedding to every layer, so only the last layer's result counts. Pass each layer the output of the one before.",
            {DROPOUT: DROPOUT + "\n        embedded = x", LOOP: LOOP.replace("layer(x", "layer(embedded")},
        ),
        Wrong(
            "arguments-by-place",
            "You pass `training` or a mask to a layer by position. Keras takes only tensors that way: pass them by name.",
            {LOOP: LOOP.replace("training=training, mask=mask", "training, mask")},
        ),
        Wrong(
            "dropout-never",
            "No dropout acts after the positions are added in training. Apply it there, and pass `training` on to it.",
            {DROPOUT: ""},
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "mask-from-ids",
            "You make the mask from the ids instead of passing on the one that you get, which can hide words too.",
            {
                LENGTH: LENGTH
                + "\n        if mask is not None:\n            mask = ops.expand_dims(ops.not_equal(x, 0), 1)"
            },
        ),
        Wrong(
            "positions-cut-for-good",
            "Every token gets the first position. Either you take only one row of the table, or you keep the shortened table "
            "in the layer, so a longer sentence finds too few rows later.",
            {POSITIONS: "self.pos_encoding = self.pos_encoding[:, :length]\n        " + POSITIONS},
        ),
        Wrong(
            "mask-of-first-query",
            "You use the first row of the mask for all queries. A mask (B, S, S) can hide other positions from each.",
            {LOOP: LOOP.replace("mask=mask", "mask=None if mask is None else mask[:, :1]")},
        ),
        Wrong(
            "embedding-divided",
            "You divide the embedding by √d. Multiply by it.",
            {EMBEDDED: EMBEDDED.replace(" * self", " / self")},
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
            "dropout-before-positions",
            "You apply dropout before you add the positions. Add them first, so that dropout also reaches them.",
            {f"{POSITIONS}\n        {DROPOUT}": f"{DROPOUT}\n        {POSITIONS}"},
        ),
        Wrong(
            "dropout-between-layers",
            "You apply dropout after every layer too. The layers have their own inside.",
            {LOOP: LOOP + "\n            x = self.dropout(x, training=training)"},
        ),
        Wrong(
            "training-not-in-layers",
            "In training, your layers drop nothing. Pass `training` to them.",
            {LOOP: LOOP.replace("training=training, ", "")},
        ),
        Wrong(
            "training-not-passed-on",
            "You pass `training` to neither the dropout layer nor the layers. Where `call` itself is called, nobody else does.",
            {LOOP: LOOP.replace("training=training, ", ""), DROPOUT: DROPOUT.replace(", training=training", "")},
        ),
        Wrong(
            "training-always",
            "You call the layers with `training=True`, so something is dropped at inference too.",
            {LOOP: LOOP.replace("=training", "=True")},
        ),
        Wrong(
            "one-layer-for-all",
            "You call the first layer in every round. Each layer has its own weights.",
            {LOOP: LOOP.replace("layer(", "self.enc_layers[0](")},
        ),
        Wrong(
            "layers-reversed",
            "You go through the layers from the last to the first.",
            {
                "        for layer in self.enc_layers:\n            x =": "        for layer in reversed(self.enc_layers):\n            x ="
            },
        ),
        Wrong(
            "returned-inside-loop",
            "Only your first layer is called: the `return` stands inside the loop.",
            {LOOP: LOOP.replace("x = ", "return ")},
        ),
        Wrong(
            "residual-around-layers",
            "You add each layer's input to its output. The layers do that inside.",
            {LOOP: LOOP.replace("= ", "= x + ", 1)},
        ),
        Wrong(
            "mask-in-first-layer-only",
            "Only the first layer gets the mask. All layers need it.",
            {LOOP: LOOP.replace("mask=mask", "mask=mask if layer is self.enc_layers[0] else None")},
        ),
    ),
)
