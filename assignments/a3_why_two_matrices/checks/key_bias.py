"""Checks of `key_bias`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

CHANGE = 'change = np.einsum("BHTO,HO->BHT", queries, key_bias)'
WITHOUT = "without = queries @ np.swapaxes(keys, -1, -2)"
KEYS = "keys + key_bias[:, None, :]"
BIAS = " + query_bias[:, None, :])"


def draw(rng):
    """Draw pairwise different sizes."""
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


def draw_single(rng):
    """Draw one sentence, one query and one head."""
    found = draw(rng)
    alone = {name: array[:1] for name, array in found.items()}
    return {**alone, "query": found["query"][:1, :1]}


def draw_large(rng):
    """Draw a key bias so large that the scores with it round differently from those without it."""
    found = draw(rng)
    return {**found, "key_bias": 40 * found["key_bias"]}


def both_scores(answer, inputs):
    """Return both scores, and whether each was computed from its own logits: then rounding makes them differ.

    They differ by about 1e-14. In single precision, digits say little, and neither do scores of 0 and 1.
    """
    result = answer.key_bias(**inputs)
    if not isinstance(result, tuple | list) or len(result) != 3:
        return {"scores": result, "apart": False}
    one, other = (np.asarray(each) for each in result[1:])
    if one.shape != other.shape or one.dtype != np.float64 or one.size <= 100:
        return {"scores": [one, other], "apart": True}
    clear = (one > 1e-3) & (one < 0.99)
    apart = not clear.any() or bool(np.any(np.abs(one - other)[clear] > 3e-15 * one[clear]))
    return {"scores": [one, other], "apart": apart}


def judge_scores(inputs, result, expected):
    """Compare the two scores of the answer with each other."""
    if not isinstance(result["scores"], tuple | list) or len(result["scores"]) != 2:
        return "it does not return three arrays."
    one, other = (np.asarray(each) for each in result["scores"])
    shape = expected["scores"][0].shape
    if one.shape != shape or other.shape != shape:
        return f"the scores have the shapes {one.shape} and {other.shape}, expected {shape}."
    if not np.allclose(one, other, rtol=0, atol=1e-8):
        return "the scores with the key bias differ from those without it, although it adds the same number to a whole row."
    if not result["apart"]:
        return "both scores come from one computation. Compute each from its own logits: they round differently."
    return None


EXERCISE = Exercise(
    title="The bias that does nothing",
    question="What is left of the biases if only the product of query and key counts? (seed 002, carried on)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check(
            "invariants",
            "the scores with and without the key bias are the same",
            2,
            draw_large,
            both_scores,
            judge_scores,
        ),
        *standard(draw, values=4),
        Check("edge", "one sentence with one query, and one head", 1, draw_single),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "query-bias-missing",
            "You left out the query bias. It meets the keys too, and what it adds differs from key to key.",
            {BIAS: ")"},
        ),
        Wrong(
            "change-without-query-bias",
            "Your change lacks the product of the two biases. The query already has its bias when it meets the key "
            "bias.",
            {CHANGE: CHANGE.replace("queries", "queries - scale * query_bias[:, None, :]")},
        ),
        Wrong(
            "change-not-scaled",
            "You returned the change before scaling. Return what is added to the scaled logits.",
            {CHANGE: CHANGE.replace("queries", "queries / scale")},
        ),
        Wrong(
            "change-scaled-twice",
            "You scaled the change twice, which divides it by O instead of √O.",
            {CHANGE: CHANGE.replace("queries", "queries * scale")},
        ),
        Wrong(
            "change-of-biases-alone",
            "You returned only b^Q · b^K. The key bias also meets the projected query, and that part differs from row "
            "to row.",
            {CHANGE: CHANGE.replace("queries", "queries * 0 + scale * query_bias[:, None, :]")},
        ),
        Wrong(
            "both-biases-dropped",
            "In the scores without the key bias, you left out the query bias as well. The query bias does change the "
            "scores: keep it.",
            {WITHOUT: "without = (queries - scale * query_bias[:, None, :]) @ np.swapaxes(keys, -1, -2)"},
        ),
        Wrong(
            "scores-computed-once",
            "You computed the scores once and returned them twice. They are the same, and that is what you are to show: "
            "compute both, with the key bias and without it.",
            {
                "return change, softmax(with_bias), softmax(without)": "return change, softmax(without), softmax(without)"
            },
        ),
        Wrong(
            "query-bias-only-in-change",
            "You left out the query bias in both scores. It does change them: only the key bias does not.",
            {
                WITHOUT: "without = (queries - scale * query_bias[:, None, :]) @ np.swapaxes(keys, -1, -2)",
                "with_bias = queries @": "with_bias = (queries - scale * query_bias[:, None, :]) @",
            },
        ),
        Wrong(
            "query-bias-not-scaled",
            "You added the query bias after scaling. The scale belongs to the whole product, so to the bias too.",
            {
                'scale * (np.einsum("BTI,HIO->BHTO", query, query_kernel) + query_bias[:, None, :])': 'scale * np.einsum("BTI,HIO->BHTO", query, query_kernel) + query_bias[:, None, :]'
            },
        ),
        Wrong(
            "bias-multiplied",
            "You multiplied the bias by the key. A bias is added, the same to every key.",
            {KEYS: "keys + key_bias[:, None, :] * keys"},
        ),
        Wrong(
            "softmax-over-queries",
            "You took the softmax over the queries. Along a column, the key bias does not add a constant. Take the "
            "softmax over the keys.",
            {
                "logits.max(axis=-1, keepdims=True)": "logits.max(axis=-2, keepdims=True)",
                "powers.sum(axis=-1, keepdims=True)": "powers.sum(axis=-2, keepdims=True)",
            },
        ),
        Wrong(
            "scale-missing",
            "You did not divide the logits by √O, so they are too large, and so is the change.",
            {"scale = query_kernel.shape[-1] ** -0.5": "scale = 1.0"},
        ),
        Wrong(
            "axes-squeezed",
            "You remove all axes of size 1. With one sentence, one head or one query, these axes have to stay.",
            {CHANGE: "change = np.squeeze(queries @ key_bias[:, :, None])"},
        ),
        Wrong(
            "scores-not-scaled",
            "You took the softmax of logits that are not divided by √O. Scale them first, as for the change.",
            {
                "return change, softmax(with_bias), softmax(without)": "return change, softmax(with_bias / scale), softmax(without / scale)"
            },
        ),
        Wrong(
            "scores-subtracted",
            "You subtracted the scores, which are the same. The change is what the key bias adds to the logits, before the "
            "softmax.",
            {CHANGE: "change = np.zeros(queries.shape[:-1])"},
        ),
        Wrong(
            "scale-of-features",
            "You divided by √I, the root of the number of input features. O is the last size of the kernels.",
            {"scale = query_kernel.shape[-1] ** -0.5": "scale = query_kernel.shape[1] ** -0.5"},
        ),
    ),
)
