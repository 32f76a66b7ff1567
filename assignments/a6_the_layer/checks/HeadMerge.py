"""The checks of `HeadMerge`, with other ways to put heads together."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard
from kmha.course.judging import right_weights, with_wide_kernel

KERNEL = (
    'self.kernel = self.add_weight(name="kernel", shape=(heads, size, self.output_dim), initializer="glorot_uniform")'
)
BIAS = 'self.bias = self.add_weight(name="bias", shape=(self.output_dim,), initializer="zeros")'
OUTPUTS = 'outputs = ops.einsum("BTHO,HOE->BTE", inputs, self.kernel)'
LAST = "return outputs if self.bias is None else outputs + self.bias"


def draw(rng):
    """Return heads and weights."""
    batch, positions, heads, size, features = sizes(rng, 5)
    return {
        "inputs": rng.normal(size=(batch, positions, heads, size)),
        "kernel": rng.normal(size=(heads, size, features)),
        "bias": rng.normal(size=(features,)),
    }


def draw_start(rng):
    return with_wide_kernel(draw(rng))


def called(answer, inputs):
    """Return the layer's result with the given weights."""
    import keras

    keras.config.set_dtype_policy("float64")
    layer = answer.HeadMerge(inputs["kernel"].shape[-1])
    layer.build(inputs["inputs"].shape)
    worker_api.set_weights(layer, {"kernel": inputs["kernel"], "bias": inputs["bias"]})
    return layer(keras.ops.convert_to_tensor(inputs["inputs"]))


def weights(answer, inputs):
    """Return the weights of new layers: in float64 with a bias and without, and in mixed precision."""
    import functools

    import keras

    keras.config.set_dtype_policy("float64")
    makes = functools.partial(answer.HeadMerge, inputs["kernel"].shape[-1], name="named")
    layers = [makes(), makes(use_bias=False), makes(dtype="mixed_float16")]
    return worker_api.new_weights(layers, inputs["inputs"], "BTHO,HOE->BTE", inputs["kernel"].shape)


def unknown(answer, inputs):
    """Return a traced call that fits any batch and any number of positions, and its gradient."""
    import keras
    import tensorflow as tf

    keras.config.set_dtype_policy("float64")
    x, kernel = inputs["inputs"], inputs["kernel"]
    layer = answer.HeadMerge(kernel.shape[-1])
    layer.build((None, None, *x.shape[2:]))
    worker_api.set_weights(layer, {"kernel": inputs["kernel"], "bias": inputs["bias"]})
    traced = tf.function(layer, input_signature=[tf.TensorSpec((None, None, *x.shape[2:]), "float64")])
    with tf.GradientTape() as tape:
        outputs = traced(x)
        loss = tf.reduce_sum(tf.square(outputs))
    return [outputs, traced(x[:1, :1]), *tape.gradient(loss, [layer.kernel.value, layer.bias.value])]


EXERCISE = Exercise(
    title="The merge of the heads",
    question="Are heads concatenated, added or averaged, and is W^O one matrix or h? (seeds 001 and 003)",
    difficulty=1,
    minutes=10,
    uses=("numpy", "keras", "tensorflow"),
    forbids=("EinsumDense", "Dense", "MultiHeadAttention", "GroupQueryAttention", "Attention", "AdditiveAttention"),
    checks=(
        *standard(draw, signature=1, shape=1, values=4, ask=called, times=2),
        Check(
            "invariants",
            "its weights: shapes, order, dtypes, how they start, trainable, with a bias and without",
            2,
            draw_start,
            weights,
            right_weights,
            times=1,
        ),
        Check(
            "unknown batch",
            "traced for any batch and any number of positions, with gradients",
            2,
            draw,
            unknown,
            times=1,
        ),
    ),
    wrong=(
        Wrong(
            "heads-interleaved",
            "You joined the heads feature by feature. The rows of the kernel are head by head: all features of the first head "
            "come first.",
            {
                OUTPUTS: "inputs = ops.reshape(ops.swapaxes(inputs, 2, 3), ops.shape(inputs))\n        " + OUTPUTS,
            },
        ),
        Wrong(
            "kernel-too-large-at-start",
            "Your kernel starts from a normal distribution with the standard deviation 1, so the sums grow with their "
            "length. `glorot_uniform` starts smaller, the more features there are.",
            {KERNEL: KERNEL.replace('"glorot_uniform"', "keras.initializers.RandomNormal(stddev=1.0)")},
        ),
        Wrong(
            "kernel-of-another-initializer",
            "Your kernel starts from numbers of another size than those of `glorot_uniform`, which looks at both the input "
            "and the output.",
            {KERNEL: KERNEL.replace("glorot_uniform", "lecun_uniform")},
        ),
        Wrong(
            "bias-from-ones",
            "Your bias starts from ones. A bias starts from zeros, so that an untrained layer adds nothing.",
            {BIAS: BIAS.replace("zeros", "ones")},
        ),
        Wrong(
            "bias-from-noise",
            'Your bias starts from random numbers, the default of `add_weight`. Pass `initializer="zeros"`.',
            {BIAS: BIAS.replace(', initializer="zeros"', "")},
        ),
        Wrong(
            "bias-missing-output",
            "You make the bias but never add it.",
            {LAST: "return outputs"},
            "sbryngelson/ANEForge#253, paiml/aprender#2769, shadowpa0327/Palu#8",
        ),
        Wrong(
            "bias-output-per-head",
            "You add the bias in every head, so H times. Add it once, to the sum of the heads.",
            {LAST: "return outputs if self.bias is None else outputs + inputs.shape[2] * self.bias"},
            "once per group of heads: Wenyueh/MinivLLM#80, PaddlePaddle/Paddle#35186",
        ),
        Wrong(
            "merge-divided-by-heads",
            "You average the heads' products. W^O adds them.",
            {OUTPUTS: OUTPUTS + " / inputs.shape[2]"},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "merge-summed",
            "You add the heads before the kernel, so that all go through the same (O, E). Each head has its own.",
            {OUTPUTS: 'outputs = ops.einsum("BTO,OE->BTE", ops.sum(inputs, axis=2), self.kernel[0])'},
            "awf/functional-transformer#8",
        ),
        Wrong(
            "merge-first-head-only",
            "You use only the first head's result.",
            {OUTPUTS: 'outputs = ops.einsum("BTO,OE->BTE", inputs[:, :, 0], self.kernel[0])'},
            "Vaswani et al. 2017, section 3.2.2",
        ),
        Wrong(
            "merge-kernel-size-first",
            "You exchange features and heads when you flatten the kernel: you read it as (O, H) instead of (H, O).",
            {
                OUTPUTS: "heads, size, features = self.kernel.shape\n"
                "        flat = ops.reshape(ops.transpose(self.kernel, (1, 0, 2)), (heads, size, features))\n"
                '        outputs = ops.einsum("BTHO,HOE->BTE", inputs, flat)'
            },
            "Vaswani et al. 2017, section 3.2.2",
        ),
        Wrong(
            "kernel-as-matrix",
            "Your kernel is one matrix (H·O, E), as in torch. Here it keeps its three axes, (H, O, E).",
            {
                "shape=(heads, size, self.output_dim)": "shape=(heads * size, self.output_dim)",
                OUTPUTS: "rows = ops.reshape(inputs, (*ops.shape(inputs)[:2], self.kernel.shape[0]))\n"
                "        outputs = ops.matmul(rows, self.kernel)",
            },
            "seed 001",
        ),
        Wrong(
            "merge-rectified",
            "You apply a relu to the output. Nothing follows W^O.",
            {OUTPUTS: OUTPUTS.replace("= ops", "= ops.relu(ops") + ")"},
            "Kyubyong/transformer#17",
        ),
        Wrong(
            "returned-only-with-bias",
            "Without a bias your layer returns nothing. Return the outputs in that case too.",
            {LAST: "if self.bias is not None:\n            return outputs + self.bias"},
        ),
        Wrong(
            "bias-made-first",
            "You make the bias before the kernel. `get_weights` and `set_weights` go by the order in which they are made.",
            {KERNEL: "", BIAS: BIAS + "\n        " + KERNEL},
        ),
        Wrong(
            "kernel-same-in-every-layer",
            "You gave the initializer a seed, so all of your layers start from the same kernel.",
            {KERNEL: KERNEL.replace('"glorot_uniform"', "keras.initializers.GlorotUniform(seed=1)")},
        ),
        Wrong(
            "weights-always-float32",
            "You fixed a dtype, that of the weights or that of the product in `call`. Leave it out: the weights get the "
            "layer's own, and the result follows.",
            {
                KERNEL: KERNEL.replace("shape=", 'dtype="float32", shape='),
                BIAS: BIAS.replace("shape=", 'dtype="float32", shape='),
            },
        ),
        Wrong(
            "weights-compute-dtype",
            "You gave the weights the dtype that the layer computes in. In mixed precision they are float32, because small "
            "steps of the training would be lost in float16. Leave `dtype` out.",
            {
                KERNEL: KERNEL.replace("shape=", "dtype=self.compute_dtype, shape="),
                BIAS: BIAS.replace("shape=", "dtype=self.compute_dtype, shape="),
            },
        ),
        Wrong(
            "float64-everywhere",
            "You compute in float64 whatever the layer's dtype. Inputs and weights come to `call` in the layer's own dtype.",
            {
                OUTPUTS: OUTPUTS.replace(
                    "inputs, self.kernel", 'ops.cast(inputs, "float64"), ops.cast(self.kernel, "float64")'
                ),
                LAST: 'return outputs if self.bias is None else outputs + ops.cast(self.bias, "float64")',
            },
        ),
        Wrong(
            "merge-largest",
            "You take the largest product of all heads. W^O adds them.",
            {OUTPUTS: 'outputs = ops.max(ops.einsum("BTHO,HOE->BTHE", inputs, self.kernel), axis=2)'},
        ),
    ),
)
