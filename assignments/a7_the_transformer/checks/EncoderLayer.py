"""The checks of `EncoderLayer`: what is added to what, and when it is normalized."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

ATTENTION = "attention = self.mha(x, x, attention_mask=mask, training=training)"
BLOCK1 = "block1 = self.layernorm1(x + attention)"
FORWARD = "forward = self.dropout_ffn(self.ffn(block1), training=training)"
LAST = "return self.layernorm2(block1 + forward)"


def attention(rng, heads, size, width):
    """Return weights for Keras' layer, in its order."""
    found = []
    for _ in range(3):
        found += [rng.normal(size=(width, heads, size)), rng.normal(size=(heads, size))]
    return [*found, 0.3 * rng.normal(size=(heads, size, width)), rng.normal(size=(width,))]


def draw(rng):
    """Return a padding mask that hides something in every sentence but one."""
    batch, positions, heads, size, between = sizes(rng, 5, least=3, most=8)
    width = heads * size
    lengths = rng.integers(1, positions, batch)
    lengths[-1] = positions
    weights = {
        "mha": attention(rng, heads, size, width),
        "ffn": [
            rng.normal(size=(width, between)),
            rng.normal(size=(between,)),
            0.3 * rng.normal(size=(between, width)),
            rng.normal(size=(width,)),
        ],
    }
    for name in ("layernorm1", "layernorm2"):
        weights[name] = [rng.uniform(0.5, 2.0, width), rng.normal(size=(width,))]
    return {
        "x": rng.normal(size=(batch, positions, width)),
        "mask": (np.arange(positions) < lengths[:, None])[:, None],
        "made": [width, heads, between, 0.3],
        "weights": weights,
        "training": False,
    }


def draw_rows(rng):
    """Return a mask (B, S, S) that hides other positions from each query."""
    found = draw(rng)
    batch, positions, _ = found["x"].shape
    mask = found["mask"] & (rng.random((batch, positions, positions)) < 0.7)
    mask[..., 0] = mask[-1, 0, -1] = True
    mask[-1, 1:2, -1] = False
    return {**found, "mask": mask}


def draw_training(rng):
    """Return inputs for training, without a mask."""
    return {**draw(rng), "mask": None, "training": True}


def called(answer, inputs):
    """Return the layer's result with the given weights, from a traced call, as `fit` makes it."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy("float64")
    layer = answer.EncoderLayer(*inputs["made"])
    layer.build(inputs["x"].shape)
    worker_api.set_weights(layer, inputs["weights"])
    x = keras.ops.convert_to_tensor(inputs["x"])
    return tf.function(layer.call)(x, training=inputs["training"], mask=inputs["mask"])


EXERCISE = Exercise(
    title="The encoder layer",
    question="What is added to what, and does the addition come before the normalization or after it? (asked in tensorflow/models#7533; "
    "harvardnlp/annotated-transformer#1)",
    difficulty=2,
    minutes=20,
    uses=("numpy", "keras", "tensorflow"),
    needs=("fully_connected",),
    checks=(
        *standard(draw, signature=1, shape=1, values=5, ask=called, times=1, ones=False),
        Check("edge", "a mask that hides other positions from each query, (B, S, S)", 1, draw_rows, called, times=1),
        Check(
            "values",
            "in training: dropout in the attention, and on the fully connected part",
            2,
            draw_training,
            called,
            times=1,
        ),
    ),
    wrong=(
        Wrong(
            "residual-missing-attention",
            "You normalize the attention's output alone: the residual connection around the attention is missing.",
            {BLOCK1: "block1 = self.layernorm1(attention)"},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "residual-missing-feed-forward",
            "You left out the residual connection around the fully connected part.",
            {LAST: "return self.layernorm2(forward)"},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "residual-feed-forward-from-input",
            "Your second sum starts from x. Start from the fully connected part's input.",
            {LAST: "return self.layernorm2(x + forward)"},
            "strutive07/transformer-tensorflow2.0#14, JanSchm/CapMarket#8",
        ),
        Wrong(
            "feed-forward-input-of-attention",
            "You pass the attention's bare output to the fully connected part, without residual connection and normalization.",
            {"self.ffn(block1)": "self.ffn(attention)"},
            "Vaswani et al. 2017, section 3.3",
        ),
        Wrong(
            "norm-before",
            "You put the normalizations before the sublayers (pre-norm). Here, as in the paper, they follow the sums.",
            {
                ATTENTION: "normed = self.layernorm1(x)\n        attention = self.mha(normed, normed, attention_mask=mask, training=training)",
                BLOCK1: "block1 = x + attention",
                "self.ffn(block1)": "self.ffn(self.layernorm2(block1))",
                LAST: "return block1 + forward",
            },
            "hkproj/pytorch-transformer#14, d2l-ai/d2l-en#803",
        ),
        Wrong(
            "norm-inside-residual",
            "You normalize only the sublayer's output and then add x. Normalize the sum.",
            {BLOCK1: "block1 = x + self.layernorm1(attention)", LAST: "return block1 + self.layernorm2(forward)"},
            "keitakurita/Practical_NLP_in_PyTorch#1, harvardnlp/annotated-transformer#110",
        ),
        Wrong(
            "norm-missing-feed-forward",
            "You left out the second normalization.",
            {LAST: "return block1 + forward"},
            "Vaswani et al. 2017, section 3.1",
        ),
        Wrong(
            "norm-shared-last-1",
            "You use the first normalization for the second sum too. Each sum has its own gain and bias.",
            {LAST: "return self.layernorm1(block1 + forward)"},
            "bentrevett/pytorch-seq2seq#100, allenai/OLMo#222, henry9zhr/QANet-pytorch#7",
        ),
        Wrong(
            "mask-argument-ignored",
            "Your mask does not reach the attention, so it attends to padding. Pass it by its name, attention_mask: Keras takes an unnamed fourth argument for another mask.",
            {ATTENTION: "attention = self.mha(x, x, training=training)"},
            "hao-ai-lab/FastVideo#1383, lucidrains/flamingo-pytorch#10",
        ),
        Wrong(
            "dropout-never",
            "No dropout acts after the fully connected part in training. Apply it there, and pass `training` on to it.",
            {FORWARD: "forward = self.ffn(block1)"},
            "tensorflow/tensorflow#42625",
        ),
        Wrong(
            "dropout-after-residual",
            "You apply dropout to the sum, which drops x too. Apply it to the fully connected part's output.",
            {
                FORWARD: "forward = self.ffn(block1)",
                LAST: "return self.layernorm2(self.dropout_ffn(block1 + forward, training=training))",
            },
        ),
        Wrong(
            "mask-of-first-query",
            "You use the first row of the mask for all queries. A mask (B, S, S) can hide other positions from each.",
            {ATTENTION: ATTENTION.replace("attention_mask=mask", "value_mask=None if mask is None else mask[:, 0]")},
        ),
        Wrong(
            "training-not-passed-on",
            "You pass `training` to neither the attention nor the dropout layer. Where `call` itself is called, nobody else does.",
            {
                ATTENTION: ATTENTION.replace(", training=training", ""),
                FORWARD: FORWARD.replace(", training=training", ""),
            },
        ),
        Wrong(
            "training-not-in-attention",
            "In training, the attention drops no scores. Pass `training` to it.",
            {ATTENTION: ATTENTION.replace(", training=training", "")},
        ),
        Wrong(
            "dropout-at-inference-in-attention",
            "The attention drops scores at inference too. Pass it the `training` that you get.",
            {ATTENTION: ATTENTION.replace("=training", "=True")},
        ),
        Wrong(
            "dropout-at-inference",
            "After the fully connected part, you drop numbers at inference too. Pass on the `training` that you get.",
            {FORWARD: FORWARD.replace("=training", "=True")},
        ),
        Wrong(
            "training-always",
            "You call attention and dropout with `training=True`, so numbers are dropped at inference too.",
            {ATTENTION: ATTENTION.replace("=training", "=True"), FORWARD: FORWARD.replace("=training", "=True")},
        ),
        Wrong(
            "norms-exchanged",
            "You exchanged the two normalizations. The first belongs to the sum after the attention; each has its own gain and bias.",
            {BLOCK1: BLOCK1.replace("norm1", "norm2"), LAST: LAST.replace("norm2", "norm1")},
        ),
        Wrong(
            "norm-shared-first-2",
            "You use the second normalization for the first sum too. Each sum has its own gain and bias.",
            {BLOCK1: BLOCK1.replace("norm1", "norm2")},
        ),
        Wrong(
            "norm-missing-attention",
            "You left out the first normalization.",
            {BLOCK1: "block1 = x + attention"},
        ),
        Wrong(
            "norm-inside-residual-attention",
            "After the attention, you normalize only its output and then add x. Normalize the sum.",
            {BLOCK1: "block1 = x + self.layernorm1(attention)"},
        ),
        Wrong(
            "norm-inside-residual-feed-forward",
            "At the end, you normalize only the fully connected part's output and then add its input. Normalize the sum.",
            {LAST: "return block1 + self.layernorm2(forward)"},
        ),
        Wrong(
            "feed-forward-from-input",
            "The fully connected part gets x. It gets the first normalization's output.",
            {FORWARD: FORWARD.replace("block1", "x")},
        ),
        Wrong(
            "feed-forward-missing",
            "You left out the fully connected part.",
            {FORWARD: FORWARD.replace("self.ffn(block1)", "block1")},
        ),
        Wrong(
            "mask-inverted",
            "Your mask hides what it should show. True means *attend*, in Keras' layer too.",
            {ATTENTION: ATTENTION.replace("=mask", "=None if mask is None else keras.ops.logical_not(mask)")},
        ),
        Wrong(
            "causal-unasked",
            "Your attention hides the future as well. An encoder sees the whole sentence, except for what the mask hides.",
            {ATTENTION: ATTENTION.replace("mask=mask", "mask=mask, use_causal_mask=True")},
        ),
        Wrong(
            "dropout-after-attention-too",
            "You apply dropout to the attention's output as well. Here it acts on the scores, inside the attention, and after the fully connected part.",
            {BLOCK1: BLOCK1.replace("attention", "self.dropout_ffn(attention, training=training)")},
        ),
        Wrong(
            "dropout-after-norm",
            "You apply dropout after the last normalization. Apply it to the fully connected part's output, before it is added.",
            {
                FORWARD: "forward = self.ffn(block1)",
                LAST: "return self.dropout_ffn(self.layernorm2(block1 + forward), training=training)",
            },
        ),
        Wrong(
            "dropout-before-feed-forward",
            "You apply dropout before the fully connected part. Apply it to its output.",
            {FORWARD: "forward = self.ffn(self.dropout_ffn(block1, training=training))"},
        ),
        Wrong(
            "feed-forward-twice",
            "You call the fully connected part twice, the second time on its own output.",
            {FORWARD: FORWARD.replace("self.ffn(block1)", "self.ffn(self.ffn(block1))")},
        ),
        Wrong(
            "residual-attention-twice",
            "You add the attention's output twice.",
            {BLOCK1: BLOCK1.replace("attention", "2 * attention")},
        ),
        Wrong(
            "residual-subtracted",
            "You subtract the attention's output from x. Add it.",
            {BLOCK1: BLOCK1.replace("+", "-")},
        ),
        Wrong(
            "norm-of-input-too",
            "You normalize x before the first sum. Only the sum is normalized.",
            {BLOCK1: BLOCK1.replace("x + ", "self.layernorm1(x) + ")},
        ),
    ),
)
