"""What is checked of `addons_forward`; the mistakes of the bank are compared too."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

THIRD = "value = inputs[2] if len(inputs) == 3 else key"
SCALE = "np.sqrt(query.shape[-1])"
SOFTMAX = (
    "powers = np.exp(logits - logits.max(axis=-1, keepdims=True))\n"
    "    scores = powers / powers.sum(axis=-1, keepdims=True)"
)


def some(rng, three):
    """Larger numbers than a normal draw, so that the scores are far from equal."""
    batch, rows, columns, features, heads, size, width = sizes(rng, 7)
    inputs = [rng.normal(size=(batch, positions, features)) for positions in (rows, columns, columns)]
    kernels = {f"{role}_kernel": rng.normal(size=(heads, features, size)) / 2 for role in ("query", "key", "value")}
    return {"inputs": inputs[: 3 if three else 2], **kernels, "output_kernel": rng.normal(size=(heads, size, width))}


def draw(rng):
    return some(rng, three=True)


def draw_two(rng):
    """T = S: no shape tells whose positions are mixed."""
    found = some(rng, three=False)
    _, key = found["inputs"]
    return {**found, "inputs": [rng.normal(size=key.shape), key]}


def draw_large(rng):
    """Logits of some thousands, whose exponentials overflow."""
    found = some(rng, three=True)
    return {**found, "query_kernel": found["query_kernel"] * 1e3}


def reordered(answer, inputs):
    """With the source positions in the opposite order, and the query positions too."""
    query, key, value = inputs["inputs"]
    plain = answer.addons_forward(**inputs)
    source = answer.addons_forward(**{**inputs, "inputs": [query, key[:, ::-1], value[:, ::-1]]})
    target = answer.addons_forward(**{**inputs, "inputs": [query[:, ::-1], key, value]})
    return {"plain": plain, "source": source, "target": target}


def order(inputs, result, expected):
    plain = result["plain"]
    if np.shape(plain) != np.shape(expected["plain"]):
        return "the output has not the shape (B, T, E)."
    if not np.allclose(result["source"], plain):
        return "the output changes when key and value have their positions in another order, both the same."
    if not np.allclose(result["target"], plain[:, ::-1]):
        return "with the query's positions reversed, the output is not the reversed output."
    return None


def trial(inputs):
    from kmha.verify.chains import Trial

    arrays = inputs["inputs"]
    query, key = arrays[:2]
    weights = {f"{role}/kernel": inputs[f"{role}_kernel"] for role in ("query", "key", "value")}
    weights["attention_output/kernel"] = inputs["output_kernel"]
    return Trial("addons", query, key, arrays[2] if len(arrays) == 3 else key, weights)


EXERCISE = Exercise(
    title="The whole layer in six equations",
    question="Where in the layer are Q, K and V, and what becomes of them? (seed 000, a course's forum)",
    difficulty=2,
    minutes=25,
    checks=(
        *standard(draw, signature=1, shape=1, values=6, unchanged=1),
        Check("edge", "a list of two: the key is the value", 3, draw_two),
        Check("invariants", "the order of the source positions makes no difference", 1, draw, reordered, order),
        Check("edge", "logits of some thousands give finite numbers", 2, draw_large),
    ),
    wrong=(
        Wrong(
            "inputs-key-value-swapped",
            "The list is read as [query, value, key]: that is the order of the built-in layer's arguments; the list of "
            "this layer has the key before the value.",
            {
                "query, key = inputs[0], inputs[1]": "query, key = inputs[0], inputs[-1]",
                THIRD: "value = inputs[1]",
            },
            "seed 000; the order of keras-team/keras#19257",
        ),
        Wrong(
            "inputs-value-is-key",
            "The value of the list is not used: the key is the value only where the list has two arrays.",
            {THIRD: "value = key"},
            "Khaliladib11/Transformer-from-scratch#1",
        ),
        Wrong(
            "missing-value-is-query",
            "Where the value is missing, the query is put in its place: its positions are not those that the "
            "scores are "
            "about. What is mixed belongs to the key.",
            {THIRD: "value = inputs[2] if len(inputs) == 3 else query"},
            "tensorflow/tensorflow#34809",
        ),
        Wrong(
            "always-three",
            "A list of two cannot be taken apart into three.",
            {
                "query, key = inputs[0], inputs[1]\n    " + THIRD: "query, key, value = inputs",
            },
        ),
        Wrong(
            "scale-missing",
            "The logits are not divided by √O.",
            {" / " + SCALE: ""},
            "PAIR-code/tiny-transformers#71",
        ),
        Wrong(
            "scale-features",
            "The logits are divided by √I, the root of the input's features: a dot product of two heads has O terms, "
            "not I.",
            {SCALE: "np.sqrt(inputs[0].shape[-1])"},
            "FareedKhan-dev/train-llm-from-scratch#3, karpathy/ng-video-lecture#6",
        ),
        Wrong(
            "softmax-over-queries",
            "The softmax runs over the queries: for a query the weights do not sum to one.",
            {SOFTMAX: SOFTMAX.replace("axis=-1", "axis=-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "softmax-overflow",
            "The exponentials of large logits overflow, and ∞/∞ is NaN: nothing is taken off the logits before.",
            {"np.exp(logits - logits.max(axis=-1, keepdims=True))": "np.exp(logits)"},
            "pytorch/executorch#18407",
        ),
        Wrong(
            "kernels-key-for-value",
            "The value is projected with the key's kernel: each role has its own.",
            {"value, value_kernel)": "value, key_kernel)"},
            "yflyzhang/AnnotatedTransformer#1",
        ),
        Wrong(
            "mix-key",
            "The scores mix the keys: keys are compared, values are mixed.",
            {"scores, value)": "scores, key)"},
            "fchollet/deep-learning-with-python-notebooks#261",
        ),
    ),
    bank=trial,
)
