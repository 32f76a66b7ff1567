"""Checks of `fold_biases`. A layer must compute the same with the new biases."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

MOVED = 'np.einsum("HO,HOE->E", value_bias, output_kernel)'
QUERY = "query_bias.copy()"
VALUE = "np.zeros_like(value_bias)"
OUTPUT = "output_bias + moved"
RETURN = "return query_bias.copy(), np.zeros_like(key_bias), np.zeros_like(value_bias), output_bias + moved"


def draw(rng):
    """Draw pairwise different sizes."""
    heads, size, outputs = sizes(rng, 3)
    query_bias, key_bias, value_bias = rng.normal(size=(3, heads, size))
    return {
        "query_bias": query_bias,
        "key_bias": key_bias,
        "value_bias": value_bias,
        "output_kernel": rng.normal(size=(heads, size, outputs)),
        "output_bias": rng.normal(size=outputs),
    }


def layer_output(query_bias, key_bias, value_bias, output_kernel, output_bias):
    """Return a layer's output with these biases. The rest of the layer is the same in every call."""
    heads, size = np.shape(query_bias)
    rng = np.random.default_rng(1706)
    x = rng.normal(size=(4, 5))
    query, key, value = (
        np.einsum("PI,HIO->HPO", x, rng.normal(size=(heads, 5, size))) + np.asarray(bias)[:, None]
        for bias in (query_bias, key_bias, value_bias)
    )
    powers = np.exp(query @ np.swapaxes(key, -1, -2) / np.sqrt(size))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    return np.einsum("HTS,HSO,HOE->TE", scores, value, output_kernel) + output_bias


def biases(answer, inputs):
    """Return the biases, and whether each is a new array."""
    found = answer.fold_biases(**inputs)
    new = []
    for place, each in enumerate(found):
        others = (*inputs.values(), *found[:place])
        new.append(not any(np.shares_memory(np.asarray(each), np.asarray(other)) for other in others))
    return {"biases": found, "new": new}


def judge_layer(inputs, result, expected):
    """Compare the layer with the old biases and with the new ones."""
    names = ("query_bias", "key_bias", "value_bias", "output_bias")
    for name, bias, new in zip(names, result["biases"], result["new"], strict=True):
        if np.shape(bias) != inputs[name].shape:
            return f"{name} has the shape {np.shape(bias)}, expected {inputs[name].shape}."
        if not new:
            return f"{name} is not a new array: whoever changes it changes an argument or another result."
    new = inputs | dict(zip(names, result["biases"], strict=True))
    if not np.allclose(
        layer_output(**inputs), layer_output(**new), rtol=0, atol=1e-8 * np.abs(layer_output(**inputs)).max()
    ):
        return "with these biases the output of the layer changes."
    return None


EXERCISE = Exercise(
    title="Which biases do you need?",
    question="Do all four projections need a bias? (seed 002, carried on; openai/whisper's key projection has none)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("invariants", "a layer computes the same with the new biases", 3, draw, biases, judge_layer),
        *standard(draw, values=4, unchanged=1),
    ),
    wrong=(
        Wrong(
            "query-bias-dropped",
            "You dropped the query bias along with the key bias. What it adds differs from key to key, and the "
            "softmax sees that. Keep it.",
            {QUERY: "np.zeros_like(query_bias)"},
        ),
        Wrong(
            "moved-subtracted",
            "You subtracted what the value bias adds. The output bias must now add it instead.",
            {OUTPUT: "output_bias - moved"},
        ),
        Wrong(
            "heads-summed-apart",
            "You summed the value biases and the output kernels over the heads, each by itself. Then every bias meets "
            "the kernels of all heads. Give both the same letter for the heads.",
            {MOVED: "value_bias.sum(axis=0) @ output_kernel.sum(axis=0)"},
        ),
        Wrong(
            "query-bias-for-key-bias",
            "You dropped the query bias and kept the key bias. It is the other way round: what the key bias adds is the "
            "same for all keys of a query, and the softmax does not see it.",
            {QUERY: "np.zeros_like(query_bias)", "np.zeros_like(key_bias)": "key_bias.copy()"},
        ),
        Wrong(
            "key-bias-kept",
            "You kept the key bias. What it adds is the same for all keys of a query, and the softmax does not see it: "
            "return zeros.",
            {"np.zeros_like(key_bias)": "key_bias.copy()"},
        ),
        Wrong(
            "key-bias-moved-to-output",
            "You moved the key bias into the output bias, as the value bias. Keys are never mixed, and their bias has no "
            "effect, so there is nothing to move.",
            {MOVED: MOVED.replace("value_bias", "value_bias + key_bias")},
        ),
        Wrong(
            "query-bias-moved-to-output",
            "You moved the query bias into the output bias. What it adds to the logits differs from key to key: keep it in "
            "its place.",
            {MOVED: MOVED.replace("value_bias", "value_bias + query_bias"), QUERY: "np.zeros_like(query_bias)"},
        ),
        Wrong(
            "key-bias-moved-to-query",
            "You added the key bias to the query bias. The key bias has no effect on the scores, so there is nothing "
            "to keep.",
            {QUERY: "query_bias + key_bias"},
        ),
        Wrong(
            "value-bias-dropped",
            "You dropped the value bias and nothing replaces it. Every position of the output now lacks a constant "
            "vector: add it to the output bias.",
            {OUTPUT: "output_bias.copy()"},
        ),
        Wrong(
            "value-bias-kept-and-moved",
            "You moved the value bias into the output bias but also kept it in its place, so it counts twice. Return "
            "zeros for the value bias.",
            {VALUE: "value_bias.copy()"},
        ),
        Wrong(
            "output-bias-replaced",
            "You dropped the output's own bias. Add the part from the values to it.",
            {OUTPUT: "moved"},
        ),
        Wrong(
            "heads-averaged",
            "You averaged over the heads. The output projection sums over them.",
            {MOVED: MOVED + " / len(value_bias)"},
        ),
        Wrong(
            "kernel-summed-alone",
            "You summed the output kernel over its O features before it met the value bias. Each feature of the bias "
            "has its own row of the kernel.",
            {MOVED: MOVED.replace("HOE->E", "HPE->E")},
        ),
        Wrong(
            "changed-in-place",
            "You changed the arguments themselves. Whoever owns them now finds other biases in them: return new "
            "arrays.",
            {
                RETURN: "key_bias[:] = 0\n    value_bias[:] = 0\n    output_bias += moved\n"
                "    return query_bias, key_bias, value_bias, output_bias"
            },
        ),
        Wrong(
            "zeros-shared",
            "You return the same array of zeros twice. Whoever changes the bias of the key then changes that of the value.",
            {
                RETURN: "zeros = np.zeros_like(key_bias)\n    return query_bias.copy(), zeros, zeros, output_bias + moved"
            },
        ),
    ),
)
