"""Checks of `addons_forward`, which also compare it with the mistakes of the bank."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

THIRD = "value = inputs[2] if len(inputs) == 3 else key"
VALUES = 'value = np.einsum("BSI,HIO->BSHO", value, value_kernel)'
SCALE = "np.sqrt(query.shape[-1])"
SOFTMAX = (
    "powers = np.exp(logits - logits.max(axis=-1, keepdims=True))\n"
    "    scores = powers / powers.sum(axis=-1, keepdims=True)"
)


def draw_inputs(rng, three):
    """Draw numbers that are large enough for clearly unequal scores."""
    batch, rows, columns, features, heads, size, width = sizes(rng, 7)
    inputs = [rng.normal(size=(batch, positions, features)) for positions in (rows, columns, columns)]
    kernels = {f"{role}_kernel": rng.normal(size=(heads, features, size)) / 2 for role in ("query", "key", "value")}
    return {"inputs": inputs[: 3 if three else 2], **kernels, "output_kernel": rng.normal(size=(heads, size, width))}


def draw(rng):
    return draw_inputs(rng, three=True)


def draw_two(rng):
    """Draw inputs with T = S, so that no shape reveals whose positions are mixed."""
    found = draw_inputs(rng, three=False)
    _, key = found["inputs"]
    return {**found, "inputs": [rng.normal(size=key.shape), key]}


def draw_source(rng):
    """Draw a target and a source of another length."""
    return draw_inputs(rng, three=False)


def draw_both(rng):
    """Draw a list of three, and one of two."""
    found = draw_inputs(rng, three=True)
    return {**found, "two": [array.copy() for array in found["inputs"][:2]]}


def both(answer, inputs):
    """Call with each of the two lists."""
    kernels = {name: array for name, array in inputs.items() if name not in ("inputs", "two")}
    return [answer.addons_forward(inputs=inputs[name], **kernels) for name in ("inputs", "two")]


def draw_large(rng):
    """Draw logits of several thousand, whose exponentials overflow."""
    found = draw_inputs(rng, three=True)
    return {**found, "query_kernel": found["query_kernel"] * 1e3}


def reordered(answer, inputs):
    """Compute the output as it is, with the source positions reversed, and with the query positions reversed."""
    query, key, value = inputs["inputs"]
    plain = answer.addons_forward(**inputs)
    source = answer.addons_forward(**{**inputs, "inputs": [query, key[:, ::-1], value[:, ::-1]]})
    target = answer.addons_forward(**{**inputs, "inputs": [query[:, ::-1], key, value]})
    return {"plain": plain, "source": source, "target": target}


def judge_order(inputs, result, expected):
    plain = result["plain"]
    if np.shape(plain) != np.shape(expected["plain"]):
        return "the output does not have the shape (B, T, E)."
    if not np.allclose(result["source"], plain):
        return "the output changes when the positions of key and value are both put into the same new order."
    if not np.allclose(result["target"], plain[:, ::-1]):
        return "reversing the positions of the query does not reverse the output."
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
    question="Where in the layer are Q, K and V, and what happens to them? (seed 000, a course forum)",
    difficulty=2,
    minutes=25,
    checks=(
        *standard(draw, signature=1, shape=1, values=6),
        Check("edge", "with a list of two, the key is also the input of the value", 2, draw_two),
        Check("edge", "a list of two, with a target and a source of different lengths", 1, draw_source),
        Check("invariants", "the order of the source positions makes no difference", 1, draw, reordered, judge_order),
        Check("edge", "logits of several thousand give finite numbers", 2, draw_large),
        *standard(draw_both, unchanged=1, ask=both),
    ),
    wrong=(
        Wrong(
            "inputs-key-value-swapped",
            "You read the list as [query, value, key]. That is the order of the built-in layer's arguments. In this "
            "layer's list the key comes before the value.",
            {
                "query, key = inputs[0], inputs[1]": "query, key = inputs[0], inputs[-1]",
                THIRD: "value = inputs[1]",
            },
            "seed 000; the order of keras-team/keras#19257",
        ),
        Wrong(
            "inputs-value-is-key",
            "You never used the value in the list. The key stands in for the value only if the list has two arrays.",
            {THIRD: "value = key"},
            "Khaliladib11/Transformer-from-scratch#1",
        ),
        Wrong(
            "missing-value-is-projected-key",
            "With a list of two, you mix the projected key. The *input* of the key is the input of the value too, and the "
            "value has a kernel of its own.",
            {VALUES: VALUES + " if len(inputs) == 3 else key"},
        ),
        Wrong(
            "missing-value-is-query",
            "You used the query where the value is missing. The scores are about the positions of the key, so use the "
            "key.",
            {THIRD: "value = inputs[2] if len(inputs) == 3 else query"},
            "tensorflow/tensorflow#34809",
        ),
        Wrong(
            "always-three",
            "You always unpacked the list into three arrays. Handle a list of two as well: then the key is the value.",
            {
                "query, key = inputs[0], inputs[1]\n    " + THIRD: "query, key, value = inputs",
            },
        ),
        Wrong(
            "scale-missing",
            "You did not divide the logits by √O.",
            {" / " + SCALE: ""},
            "PAIR-code/tiny-transformers#71",
        ),
        Wrong(
            "scale-features",
            "You divided the logits by √I, the root of the number of input features. A dot product of two heads has O "
            "terms, so divide by √O.",
            {SCALE: "np.sqrt(inputs[0].shape[-1])"},
            "FareedKhan-dev/train-llm-from-scratch#3, karpathy/ng-video-lecture#6",
        ),
        Wrong(
            "softmax-over-queries",
            "You took the softmax over the queries. For each query, the weights of the source positions must sum to "
            "one.",
            {SOFTMAX: SOFTMAX.replace("axis=-1", "axis=-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "softmax-overflow",
            "The exponentials of your large logits overflow, and ∞/∞ is NaN. Subtract the largest logit of each row "
            "first.",
            {"np.exp(logits - logits.max(axis=-1, keepdims=True))": "np.exp(logits)"},
            "pytorch/executorch#18407",
        ),
        Wrong(
            "kernels-key-for-value",
            "You projected the value with the key kernel. Each role has its own kernel.",
            {"value, value_kernel)": "value, key_kernel)"},
            "yflyzhang/AnnotatedTransformer#1",
        ),
        Wrong(
            "mix-key",
            "You mixed the keys with the scores. Keys are compared; values are mixed.",
            {"scores, value)": "scores, key)"},
            "fchollet/deep-learning-with-python-notebooks#261",
        ),
        Wrong(
            "list-extended",
            "You append the key to the list that you were given. Its owner then has a list of three.",
            {THIRD: "if len(inputs) == 2:\n        inputs.append(key)\n    value = inputs[2]"},
        ),
        Wrong(
            "value-popped",
            "You took the value out of the list that you were given. Its owner now has a list of two.",
            {THIRD: "value = inputs.pop() if len(inputs) == 3 else key"},
        ),
        Wrong(
            "inputs-stacked",
            "You made one array of the list. Query and key can have different lengths, T and S.",
            {"query, key = inputs[0], inputs[1]": "query, key = np.stack(inputs) if len(inputs) == 2 else inputs[:2]"},
        ),
        Wrong(
            "softmax-not-normalised",
            "You did not divide the exponentials by their sum. The scores of a query must sum to one.",
            {"scores = powers / powers.sum(axis=-1, keepdims=True)": "scores = powers"},
        ),
        Wrong(
            "merge-divided-by-heads",
            "You averaged what the heads add to the output. Sum it.",
            {
                'return np.einsum("BTHO,HOE->BTE", mixed, output_kernel)': 'return np.einsum("BTHO,HOE->BTE", mixed, output_kernel) / len(output_kernel)'
            },
        ),
        Wrong(
            "merge-projection-missing",
            "You returned the heads side by side. Multiply each by its part of the output kernel, and sum.",
            {'return np.einsum("BTHO,HOE->BTE", mixed, output_kernel)': "return mixed.reshape(*mixed.shape[:2], -1)"},
        ),
    ),
    bank=trial,
)
