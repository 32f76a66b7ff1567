"""The checks of `HeadProjection`, with what handmade layers often lack."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

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
    """Return the weights' shapes, order and initial values, with a bias and without, and whether it computes without."""
    import keras

    keras.config.set_dtype_policy("float64")
    heads, _, size = inputs["kernel"].shape
    layers = [answer.HeadProjection(heads, size, use_bias=use_bias, name="named") for use_bias in (True, False)]
    outputs = [layer(keras.ops.convert_to_tensor(inputs["inputs"])) for layer in layers]
    first, second = (np.asarray(layer.kernel) for layer in layers)
    shape, largest = first.shape, float(np.abs(first).max())
    alone = np.einsum("BTI,HIO->BTHO", inputs["inputs"], second) if shape == inputs["kernel"].shape else None
    limit = (6 / (np.prod(shape[:-2]) * sum(shape[-2:]))) ** 0.5  # as Keras counts
    return {
        "kernel": first.shape,
        "bias": tuple(layers[0].bias.shape),
        "order": [tuple(weight.shape) for weight in layers[0].weights],
        "dtypes": [keras.backend.standardize_dtype(weight.dtype) for weight in layers[0].weights],
        "trainable": [len(layer.trainable_weights) for layer in layers],
        "bias at the start": layers[0].bias,
        "without a bias": layers[1].bias,
        "the sum without a bias": outputs[1] is not None
        and alone is not None
        and np.shape(outputs[1]) == alone.shape
        and np.allclose(outputs[1], alone),
        "name": layers[0].name,
        "kernel as from glorot_uniform": 0.5 * limit <= largest <= 1.001 * limit,
        "kernel varies at the start": float(np.std(first)) > 0.01,
        "kernel has both signs at the start": float(first.min()) < 0 < float(first.max()),
        "every kernel starts from its own numbers": not np.array_equal(first, second),
    }


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


def right_weights(inputs, result, expected):
    """Compare each result of `weights`, and describe the first difference."""
    for name in ("kernel", "bias"):
        if tuple(result[name]) != tuple(expected[name]):
            return f"`{name}` has the shape {tuple(result[name])}, expected {tuple(expected[name])}."
    for count, wanted, which in zip(result["trainable"], expected["trainable"], ("with", "without"), strict=True):
        if count != wanted:
            return f"{which} a bias {count} of its weights are trained, expected {wanted}."
    if np.any(result["bias at the start"]):
        return "`bias` does not start from zeros."
    if result["without a bias"] is not None:
        return "without a bias, `bias` is not `None`."
    if not result["the sum without a bias"]:
        return "without a bias, the result is not the product of inputs and kernel."
    if [tuple(shape) for shape in result["order"]] != [tuple(shape) for shape in expected["order"]]:
        return "its weights are not the kernel and then the bias."
    if list(result["dtypes"]) != list(expected["dtypes"]):
        return f"in a layer of float64 its weights are {' and '.join(result['dtypes'])}."
    if not result["kernel varies at the start"]:
        return "all elements of `kernel` start from nearly the same number."
    if not result["kernel has both signs at the start"]:
        return "all elements of `kernel` start with the same sign."
    if not result["every kernel starts from its own numbers"]:
        return "the kernels of two layers start from the same numbers."
    if not result["kernel as from glorot_uniform"]:
        return "`kernel` starts from numbers that are larger or smaller than those of `glorot_uniform`."
    if result["name"] != expected["name"]:
        return "the layer does not have the name that it was made with."
    return None


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
            "its weights: shapes, order, how they start, trainable, with a bias and without",
            2,
            draw,
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
    ),
)
