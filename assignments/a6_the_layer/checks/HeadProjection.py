"""The checks of `HeadProjection`, with what handmade layers often lack."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard
from kmha.course.judging import right_weights, with_wide_kernel

KERNEL = (
    'self.kernel = self.add_weight(name="kernel", shape=(heads, input_shape[-1], size), initializer="glorot_uniform")'
)
BIAS = 'self.bias = self.add_weight(name="bias", shape=(heads, size), initializer="zeros")'
OUTPUTS = 'outputs = ops.einsum("BTI,HIO->BTHO", inputs, self.kernel)'
LAST = "return outputs if self.bias is None else outputs + self.bias"
FORBIDDEN = ("EinsumDense", "Dense", "MultiHeadAttention", "GroupQueryAttention", "Attention", "AdditiveAttention")


def draw(rng):
    """Return an input and the weights."""
    batch, positions, features, heads, size = sizes(rng, 5)
    return {
        "inputs": rng.normal(size=(batch, positions, features)),
        "kernel": rng.normal(size=(heads, features, size)),
        "bias": rng.normal(size=(heads, size)),
    }


def draw_start(rng):
    return with_wide_kernel(draw(rng))


def called(answer, inputs):
    """Return the layer's result with the given weights."""
    import keras

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["kernel"].shape
    layer = answer.HeadProjection(heads, size)
    layer.build(inputs["inputs"].shape)
    worker_api.set_weights(layer, {"kernel": inputs["kernel"], "bias": inputs["bias"]})
    return layer(keras.ops.convert_to_tensor(inputs["inputs"]))


def weights(answer, inputs):
    """Return the weights of new layers: in float64 with a bias and without, and in mixed precision."""
    import functools

    import keras

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["kernel"].shape
    makes = functools.partial(answer.HeadProjection, heads, size, name="named")
    layers = [makes(), makes(use_bias=False), makes(dtype="mixed_float16")]
    return worker_api.new_weights(layers, inputs["inputs"], "BTI,HIO->BTHO", inputs["kernel"].shape)


def gradients(answer, inputs):
    """Return the gradient of the sum of squares with respect to the weights."""
    import keras
    import tensorflow as tf

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["kernel"].shape
    layer = answer.HeadProjection(heads, size)
    layer.build(inputs["inputs"].shape)
    worker_api.set_weights(layer, {"kernel": inputs["kernel"], "bias": inputs["bias"]})
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(layer(tf.constant(inputs["inputs"]))))
    return tape.gradient(loss, [layer.kernel.value, layer.bias.value])


def unknown(answer, inputs):
    """Return a traced call that fits any batch and any number of positions."""
    import keras
    import tensorflow as tf

    keras.config.set_dtype_policy("float64")
    x = inputs["inputs"]
    heads, _, size = inputs["kernel"].shape
    layer = answer.HeadProjection(heads, size)
    layer.build((None, None, x.shape[-1]))
    worker_api.set_weights(layer, {"kernel": inputs["kernel"], "bias": inputs["bias"]})
    traced = tf.function(layer, input_signature=[tf.TensorSpec((None, None, x.shape[-1]), "float64")])
    symbolic = layer(keras.Input((None, x.shape[-1])))
    return [traced(x), traced(x[:1, :1]), len(symbolic.shape)]


EXERCISE = Exercise(
    title="The projection into heads, as a layer",
    question="How do you write a Keras layer whose kernel has the shape used in TensorFlow Addons, (heads, in, head size)? (seed 000)",
    difficulty=2,
    minutes=20,
    uses=("numpy", "keras", "tensorflow"),
    forbids=FORBIDDEN,
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
        Check("gradient", "the gradients of kernel and bias", 1, draw, gradients, times=1),
        Check("unknown batch", "it can be traced for any batch and any number of positions", 1, draw, unknown, times=1),
    ),
    wrong=(
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
            "bias-missing",
            "You make the bias but never add it.",
            {LAST: "return outputs"},
            "sbryngelson/ANEForge#253",
        ),
        Wrong(
            "heads-first",
            "You put the heads before the positions, (B, H, T, O). The projection keeps the positions where they were.",
            {
                OUTPUTS: OUTPUTS.replace("->BTHO", "->BHTO"),
                LAST: "return outputs + self.bias[:, None] if self.use_bias else outputs",
            },
        ),
        Wrong(
            "heads-all-first",
            "Every head computes what the first head computes. You do not use the kernel's other matrices.",
            {OUTPUTS: 'outputs = ops.einsum("BTI,HIO->BTHO", inputs, ops.zeros_like(self.kernel) + self.kernel[:1])'},
            "Vaswani et al. 2017, section 3.2.2",
        ),
        Wrong(
            "kernel-input-first",
            "Your kernel is (I, H, O), as in Keras' own layer. Here it is (H, I, O), as in TensorFlow Addons.",
            {
                "(heads, input_shape[-1], size)": "(input_shape[-1], heads, size)",
                OUTPUTS: OUTPUTS.replace("HIO->", "IHO->"),
            },
            "seed 000; keras.layers.MultiHeadAttention",
        ),
        Wrong(
            "bias-of-first-head",
            "Your bias is (O,), the same for all heads. Each head has its own: (H, O).",
            {BIAS: BIAS.replace("(heads, size)", "(size,)")},
            "Vaswani et al. 2017, section 3.2.2",
        ),
        Wrong(
            "weights-not-trainable",
            "Your kernel is not trainable, so an optimizer would leave it as it was drawn.",
            {KERNEL: KERNEL.replace("shape=", "trainable=False, shape=")},
        ),
        Wrong(
            "numpy-inside",
            "Your `call` computes with NumPy. That works on a batch of numbers, but it has no gradient and cannot be traced.",
            {
                OUTPUTS: 'import numpy as np\n        outputs = np.einsum("BTI,HIO->BTHO", inputs, self.kernel)',
                LAST: "return ops.convert_to_tensor(outputs if self.bias is None else outputs + np.asarray(self.bias))",
            },
        ),
        Wrong(
            "batch-size-fixed",
            "You read the batch size or the number of positions from the shape, where it is `None` while a model is traced.",
            {
                OUTPUTS: OUTPUTS + "\n        batch, length = inputs.shape[:2]\n"
                "        outputs = ops.reshape(outputs, (batch, length, self.num_heads, self.key_dim))"
            },
        ),
        Wrong(
            "bias-always",
            "You make a bias with `use_bias=False` too.",
            {"if self.use_bias:": "if True:"},
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
            "You fixed the dtype of the weights. Leave it out, and they get the layer's own.",
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
            "heads-reshaped",
            "You bring the heads to their place with a reshape. A reshape keeps the order of the numbers; a transpose moves axes.",
            {
                OUTPUTS: "outputs = ops.reshape(\n            ops.matmul(inputs[:, None], self.kernel), (-1, ops.shape(inputs)[1], self.num_heads, self.key_dim)\n        )"
            },
        ),
        Wrong(
            "kernel-reshaped",
            "You reshape the kernel (H, I, O) to a matrix (I, H·O). That mixes heads and features: transpose it to (I, H, O) first.",
            {
                OUTPUTS: "matrix = ops.reshape(self.kernel, (-1, self.num_heads * self.key_dim))\n        outputs = ops.reshape(inputs @ matrix, (-1, ops.shape(inputs)[1], self.num_heads, self.key_dim))"
            },
        ),
        Wrong(
            "projection-scaled",
            "You divide the projection by √O. The scale belongs to the logits, not here.",
            {OUTPUTS: OUTPUTS + " / self.key_dim**0.5"},
        ),
        Wrong(
            "projection-rectified",
            "You apply a relu to the projection. A projection is linear.",
            {OUTPUTS: OUTPUTS + "\n        outputs = ops.relu(outputs)"},
        ),
        Wrong(
            "kernel-starts-at-zero",
            "Your kernel starts from zeros, so all heads compute the same, and stay alike in training.",
            {KERNEL: KERNEL.replace("glorot_uniform", "zeros")},
        ),
        Wrong(
            "kernel-without-gradient",
            "Your kernel gets no gradient: something between it and the result cuts it off.",
            {OUTPUTS: OUTPUTS.replace("self.kernel", "ops.stop_gradient(self.kernel)")},
        ),
        Wrong(
            "bias-not-trainable",
            "Your bias is not trainable, so an optimizer would leave it at zero.",
            {BIAS: BIAS.replace("shape=", "trainable=False, shape=")},
        ),
    ),
)
