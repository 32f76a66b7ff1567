"""The checks of `fully_connected`, with the usual mistakes in activations."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FIRST = 'first = keras.layers.Dense(fully_connected_dim, activation="relu")'
SECOND = "second = keras.layers.Dense(embedding_dim)"
LAST = "return keras.Sequential([first, second])"


def draw(rng):
    """Return an input and the weights."""
    batch, positions, width, between = sizes(rng, 4, least=3)
    return {
        "x": rng.normal(size=(batch, positions, width)),
        "weights": [
            rng.normal(size=(width, between)),
            rng.normal(size=(between,)),
            rng.normal(size=(between, width)),
            rng.normal(size=(width,)),
        ],
    }


def called(answer, inputs):
    """Return the result with the given weights."""
    import keras

    keras.config.set_dtype_policy("float64")
    model = answer.fully_connected(*inputs["weights"][0].shape)
    model(inputs["x"])
    model.set_weights(inputs["weights"])
    return model(inputs["x"])


def parts(answer, inputs):
    """Return the shapes of the result and the weights, how these begin, and what kind of model it is in training."""
    import keras

    model = answer.fully_connected(*inputs["weights"][0].shape)
    result = model(inputs["x"])
    large = answer.fully_connected(40, 60)
    large(np.zeros((1, 1, 40)))
    kernels = [each for each in large.get_weights() if each.ndim == 2]
    # `Dense` begins with Glorot's uniform distribution between these limits.
    limits = [(6 / sum(each.shape)) ** 0.5 for each in kernels]
    keras.config.set_dtype_policy("float64")
    square = answer.fully_connected(6, 6)
    square(np.zeros((1, 1, 6)))
    alike = [each for each in square.get_weights() if each.ndim == 2]
    return {
        "shapes": [tuple(result.shape), *(tuple(each.shape) for each in model.weights)],
        "trained": len(model.trainable_weights),
        "losses": len(model.losses),
        "begin with one number": [bool(np.ptp(each) < 1e-9) for each in model.get_weights()],
        "begin alike": len(alike) > 1 and np.array_equal(alike[0], alike[1]),
        "dtypes": sorted({str(each.dtype) for each in square.weights}),
        "biases": [float(np.abs(each).max()) for each in model.get_weights() if each.ndim == 1],
        "spread": [float(each.std() / limit * 3**0.5) for each, limit in zip(kernels, limits, strict=True)],
        "largest": [float(np.abs(each).max() / limit) for each, limit in zip(kernels, limits, strict=True)],
        "is made anew": answer.fully_connected(4, 7) is not answer.fully_connected(4, 7),
        "is a Sequential": isinstance(model, keras.Sequential),
        "is the same in training": all(
            np.allclose(model(inputs["x"], training=True), result, atol=1e-6) for _ in range(20)
        ),
    }


def right_parts(inputs, result, expected):
    """Check the shapes of the weights, in their order, and the rest of `parts`."""
    if not result["is a Sequential"]:
        return "the model is no `keras.Sequential`."
    if not result["is the same in training"]:
        return "in training the model gives other numbers. It is two dense layers and nothing else."
    if result["trained"] != expected["trained"]:
        return f"{result['trained']} of its weights are trained, expected {expected['trained']}."
    if result["losses"]:
        return "the model adds losses of its own."
    if result["begin with one number"] != expected["begin with one number"] or any(result["biases"]):
        return "its weights do not begin as those of a `Dense`: kernels with random numbers, biases with zeros."
    if any(abs(each - 1) > 0.06 for each in result["spread"]) or any(each > 1.001 for each in result["largest"]):
        return "its kernels begin with other numbers than those of a `Dense` that gets no further arguments."
    if result["begin alike"]:
        return "both kernels begin with the same numbers, as with one seed. Those of a `Dense` are drawn anew."
    if result["dtypes"] != expected["dtypes"]:
        return f"with the dtype policy float64, its weights are {', '.join(result['dtypes'])}. Give `Dense` no dtype."
    if not result["is made anew"]:
        return "two calls return the same model. All layers of the Transformer would share its weights."
    found, wanted = ([tuple(shape) for shape in each["shapes"][1:]] for each in (result, expected))
    return None if found == wanted else f"the shapes of its weights are {found}, expected {wanted}."


EXERCISE = Exercise(
    title="The fully connected part",
    question="How wide is the part between the attention layers, and where is its activation? (Vaswani et al. 2017, section 3.3)",
    difficulty=1,
    minutes=8,
    uses=("numpy", "keras", "tensorflow"),
    checks=(
        *standard(draw, signature=1, shape=1, values=6, ask=called, times=2),
        Check(
            "invariants",
            "a `Sequential` with the right weights, which are trained and begin as usual, and nothing random in it",
            2,
            draw,
            parts,
            right_parts,
            times=1,
        ),
    ),
    wrong=(
        Wrong(
            "kernels-begin-alike",
            "Both kernels begin with the same numbers, because they have one seed. Give `Dense` no initializer.",
            {
                FIRST: FIRST.replace(")", ", kernel_initializer=keras.initializers.GlorotUniform(seed=0))"),
                SECOND: SECOND.replace(")", ", kernel_initializer=keras.initializers.GlorotUniform(seed=0))"),
            },
        ),
        Wrong(
            "dtype-of-its-own",
            "You give `Dense` a dtype. Then it does not follow the dtype policy of the model. Give it none.",
            {
                FIRST: FIRST.replace(")", ', dtype="float32")'),
                SECOND: SECOND.replace(")", ', dtype="float32")'),
            },
        ),
        Wrong(
            "feed-forward-activation-missing",
            "You left out the activation. Two dense layers are then a single linear map.",
            {FIRST: FIRST.replace(', activation="relu"', "")},
            "d2l-ai/d2l-en#1564, spring-media/TransformerTTS#102",
        ),
        Wrong(
            "feed-forward-activation-after-second",
            "Your relu follows the second layer. It belongs between the two.",
            {
                FIRST: FIRST.replace(', activation="relu"', ""),
                SECOND: SECOND.replace("dim)", 'dim, activation="relu")'),
            },
            "goruck/nilm#1",
        ),
        Wrong(
            "feed-forward-activation-after-both",
            "You put a relu after the second layer too. Then nothing negative is ever added to the embedding.",
            {SECOND: SECOND.replace("dim)", 'dim, activation="relu")')},
            "namedtensor/notation#72",
        ),
        Wrong(
            "feed-forward-activation-gelu",
            "You use gelu, as BERT does. The paper uses relu.",
            {FIRST: FIRST.replace("relu", "gelu")},
            "Vaswani et al. 2017, section 3.3",
        ),
        Wrong(
            "feed-forward-widths-exchanged",
            "You exchanged the widths. The result must have the input's width, so that it can be added to it.",
            {
                FIRST: FIRST.replace("fully_connected_dim", "embedding_dim"),
                SECOND: SECOND.replace("embedding", "fully_connected"),
            },
        ),
        Wrong(
            "feed-forward-bias2-missing",
            "Your second layer has no bias.",
            {SECOND: SECOND.replace("dim)", "dim, use_bias=False)")},
            "Vaswani et al. 2017, section 3.3",
        ),
        Wrong(
            "feed-forward-three-layers",
            "You have one layer too many. One goes up to the larger width, and one comes down.",
            {LAST: "return keras.Sequential([first, keras.layers.Dense(fully_connected_dim), second])"},
        ),
        Wrong(
            "feed-forward-dropout-inside",
            "You put dropout between the two layers. Here it follows the second, and the layer that uses your model applies it.",
            {LAST: "return keras.Sequential([first, keras.layers.Dropout(0.1), second])"},
        ),
        Wrong(
            "feed-forward-frozen",
            "The weights of your first layer are not trained. Leave `trainable` out.",
            {FIRST: FIRST.replace('"relu")', '"relu", trainable=False)')},
        ),
        Wrong(
            "feed-forward-from-zeros",
            "Your second kernel begins with zeros. Leave `kernel_initializer` out, so that it begins with random numbers.",
            {SECOND: SECOND.replace("dim)", 'dim, kernel_initializer="zeros")')},
        ),
        Wrong(
            "feed-forward-other-initializer",
            "Your kernels begin with other random numbers. Leave `kernel_initializer` out: the default is Glorot's.",
            {FIRST: FIRST.replace('"relu")', '"relu", kernel_initializer="he_normal")')},
        ),
        Wrong(
            "feed-forward-model-kept",
            "You keep the model, and return it again for the same sizes. All layers then share one set of weights. Make a "
            "new one in every call.",
            {
                LAST: "kept = fully_connected.__dict__.setdefault((embedding_dim, fully_connected_dim), keras.Sequential([first, second]))\n"
                "    return kept"
            },
        ),
        Wrong(
            "feed-forward-functional",
            "You return a functional model. A `keras.Sequential` is asked for.",
            {
                LAST: "inputs = keras.Input((None, embedding_dim))\n"
                "    return keras.Model(inputs, second(first(inputs)))"
            },
        ),
    ),
)
