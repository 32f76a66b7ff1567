"""What is checked of `key_bias`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

CHANGE = 'change = np.einsum("BHTO,HO->BHT", queries, key_bias)'
WITHOUT = "without = queries @ np.swapaxes(keys, -1, -2)"
KEYS = "keys + key_bias[:, None, :]"
BIAS = " + query_bias[:, None, :])"


def draw(rng):
    """Pairwise different sizes."""
    batch, queries, keys, features, heads, size = sizes(rng, 6)
    kernels = rng.normal(size=(2, heads, features, size)) / np.sqrt(features)
    return {
        "query": rng.normal(size=(batch, queries, features)),
        "key": rng.normal(size=(batch, keys, features)),
        "query_kernel": kernels[0],
        "query_bias": rng.normal(size=(heads, size)),
        "key_kernel": kernels[1],
        "key_bias": rng.normal(size=(heads, size)),
    }


def same_scores(inputs, result, expected):
    """The two scores of the answer itself."""
    _, one, other = (np.asarray(each) for each in result)
    if one.shape != expected[1].shape or other.shape != expected[2].shape:
        return f"the scores have the shapes {one.shape} and {other.shape}, expected {expected[1].shape}."
    if not np.allclose(one, other, rtol=0, atol=1e-8):
        return "the scores with the key's bias differ from those without it: it adds the same to a whole row."
    return None


EXERCISE = Exercise(
    title="The bias that does nothing",
    question="What is left of the biases when only the product of query and key counts? (seed 002, carried on)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("invariants", "the scores with and without the key's bias are the same", 2, draw, judge=same_scores),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "query-bias-missing",
            "The query's bias is left out: it meets the keys too, and what it adds differs from key to key.",
            {BIAS: ")"},
        ),
        Wrong(
            "change-without-query-bias",
            "The change lacks the product of the two biases: the query has its bias when it meets the key's.",
            {CHANGE: CHANGE.replace("queries", "queries - scale * query_bias[:, None, :]")},
        ),
        Wrong(
            "change-not-scaled",
            "The change is given before it is scaled: the scaled logits are asked for.",
            {CHANGE: CHANGE.replace("queries", "queries / scale")},
        ),
        Wrong(
            "change-scaled-twice",
            "The change is scaled twice: divided by O in place of √O.",
            {CHANGE: CHANGE.replace("queries", "queries * scale")},
        ),
        Wrong(
            "change-of-biases-alone",
            "The change is b^Q · b^K alone: the key's bias also meets the projected query, and differs from row to "
            "row.",
            {CHANGE: CHANGE.replace("queries", "queries * 0 + scale * query_bias[:, None, :]")},
        ),
        Wrong(
            "both-biases-dropped",
            "Without the key's bias the query's is missing as well: that one changes the scores.",
            {WITHOUT: "without = (queries - scale * query_bias[:, None, :]) @ np.swapaxes(keys, -1, -2)"},
        ),
        Wrong(
            "bias-multiplied",
            "The bias is multiplied by the key as well: a bias is added, the same to every key.",
            {KEYS: "keys + key_bias[:, None, :] * keys"},
        ),
        Wrong(
            "softmax-over-queries",
            "The softmax runs over the queries: along a column what the key's bias adds is not constant, and matters.",
            {
                "logits.max(axis=-1, keepdims=True)": "logits.max(axis=-2, keepdims=True)",
                "powers.sum(axis=-1, keepdims=True)": "powers.sum(axis=-2, keepdims=True)",
            },
        ),
        Wrong(
            "scale-missing",
            "The logits are not divided by √O: they are too large, and so is the change.",
            {"scale = query_kernel.shape[-1] ** -0.5": "scale = 1.0"},
        ),
    ),
)
