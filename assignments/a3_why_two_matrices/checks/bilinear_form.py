"""Checks of `bilinear_form`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FORM = '"HIO,HJO->HIJ", query_kernel, key_kernel'
BILINEAR = '"BTI,HIJ,BSJ->BHTS", query, bilinear, key'
QUERY = '"BTI,HIO->BHTO", query, query_kernel'
KEY = '"BSI,HIO->BHSO", key, key_kernel'
PRODUCT = "projected_query @ np.swapaxes(projected_key, -1, -2)"
RETURN = "return bilinear, from_bilinear, from_projections"


def arrays(rng, batch, queries, keys, features, heads, size):
    """Return query, key and kernels of these sizes."""
    return {
        "query": rng.normal(size=(batch, queries, features)),
        "key": rng.normal(size=(batch, keys, features)),
        "query_kernel": rng.normal(size=(heads, features, size)),
        "key_kernel": rng.normal(size=(heads, features, size)),
    }


def draw(rng):
    """Draw pairwise different sizes."""
    return arrays(rng, *sizes(rng, 6))


def draw_cancelling(rng):
    """Draw long sentences with few features, and short ones with many features.

    `np.einsum` with `optimize` multiplies the kernels first in long sentences, and projects first in short ones. So it
    computes the logits in one of the two as from W_i, and in the other as from the projections, whatever is written.
    """
    batch, queries, keys, heads = sizes(rng, 4, least=3, most=6)  # without `optimize`, a product of four is slow
    short = arrays(rng, batch, queries, keys, batch * max(queries, keys) + 1, heads, 2)
    features, size, heads, batch, queries, keys = sorted(sizes(rng, 6))
    long = arrays(rng, batch, queries, keys, features, heads, size)
    return {"long": cancelling(long), "short": cancelling(short)}


def cancelling(found):
    """Return the arrays with keys whose logit with the first query of their sentence is nearly 0 in the first head.

    What is left after the terms cancel shows how each way rounds.
    """
    bilinear = found["query_kernel"][0] @ found["key_kernel"][0].T
    for queries, keys in zip(found["query"], found["key"], strict=True):
        direction = queries[0] @ bilinear
        keys -= np.outer(keys @ direction / (direction @ direction), (1 - 1e-6) * direction)
    return found


def both_ways(answer, inputs):
    """Return both logits, and whether each was computed for itself: then rounding makes them differ somewhere.

    Where the terms cancel, two ways differ by about 1e-10 of what is left. A copy does not, even if it was scaled. In
    single precision, digits say little.
    """
    logits, apart = [], False
    for case in inputs.values():
        result = answer.bilinear_form(**case)
        if not isinstance(result, tuple | list) or len(result) != 3:
            return {"logits": result, "apart": False}
        one, other = (np.asarray(each) for each in result[1:])
        logits.append([one, other])
        if one.shape != other.shape or one.dtype != np.float64 or one.size <= 100:
            apart = True
            continue
        left = np.abs(one) < 1e-4 * np.abs(one).max()
        apart = apart or not left.any() or bool(np.any(np.abs(one - other)[left] > 1e-13 * np.abs(one)[left]))
    return {"logits": logits, "apart": apart}


def judge_logits(inputs, result, expected):
    """Compare the two logits of the answer with each other."""
    if not isinstance(result["logits"], list) or len(result["logits"]) != len(inputs):
        return "it does not return three arrays."
    for (one, other), (wanted, _) in zip(result["logits"], expected["logits"], strict=True):
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape:
            return f"the logits from W_i have the shape {one.shape}, those from the projections {other.shape}."
        if not np.allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(wanted).max()):
            return "the logits from W_i differ from those from the projections, although both are the same product."
    if not result["apart"]:
        return (
            "your two logits agree in every digit, so they were computed in one way. Compute one from W_i and the other "
            "from the projected query and key."
        )
    return None


EXERCISE = Exercise(
    title="One matrix instead of two?",
    question="Why two matrices W_i^Q and W_i^K, if only their product is used? (seed 002, the question)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=2),
        Check("invariants", "both ways give the same logits", 1, draw_cancelling, both_ways, judge_logits),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "bilinear-transposed",
            "You made W_i the other way round, with the key's features as rows. Its rows belong to the query's "
            "features and its columns to the key's.",
            {FORM: FORM.replace("->HIJ", "->HJI")},
            "seed 002: W_i = W_i^Q (W_i^K)^T, in this order",
        ),
        Wrong(
            "bilinear-given-transposed",
            "Your logits are right, but you returned W_i the other way round. Its rows belong to the query's features.",
            {RETURN: RETURN.replace("return bilinear", "return np.swapaxes(bilinear, -1, -2)")},
        ),
        Wrong(
            "kernel-reshaped",
            "You transposed the key kernel with a reshape. That keeps the order in memory, and mixes up rows and "
            "columns. Exchange the axes.",
            {FORM: '"HIO,HOJ->HIJ", query_kernel, key_kernel.reshape(len(key_kernel), key_kernel.shape[-1], -1)'},
        ),
        Wrong(
            "bilinear-within-head",
            "Your W_i has the axes of the head's O features. You summed over the I features, which should be left. "
            "Sum over O.",
            {
                FORM: '"HIO,HIP->HOP", query_kernel, key_kernel',
                BILINEAR: '"BTI,HIO,HOP,BSJ,HJP->BHTS", query, query_kernel, bilinear, key, key_kernel',
            },
        ),
        Wrong(
            "sums-multiplied",
            "You summed each kernel over its O features before multiplying, so W_i has rank one. Give both kernels "
            "the same letter for O.",
            {FORM: FORM.replace("HJO", "HJP")},
            "seed 002 calls W_i an outer product",
        ),
        Wrong(
            "one-kernel",
            "You used the query kernel for the key too. Then W_i is symmetric, and a pair of positions gets the same "
            "logit in both directions. Use the key kernel for the key.",
            {FORM: '"HIO,HJO->HIJ", query_kernel, query_kernel', KEY: '"BSI,HIO->BHSO", key, query_kernel'},
        ),
        Wrong(
            "kernels-exchanged",
            "You exchanged the kernels: the query went through the key kernel, and the key through the query kernel.",
            {
                FORM: '"HIO,HJO->HIJ", key_kernel, query_kernel',
                QUERY: QUERY.replace("query_kernel", "key_kernel"),
                KEY: KEY.replace("key_kernel", "query_kernel"),
            },
        ),
        Wrong(
            "heads-summed",
            "You summed over the heads. Every head has its own W_i and its own logits.",
            {
                FORM: FORM.replace("->HIJ", "->IJ"),
                BILINEAR: '"BTI,IJ,BSJ->BTS", query, bilinear, key',
                PRODUCT: f"({PRODUCT}).sum(axis=1)",
            },
        ),
        Wrong(
            "scaled-here",
            "You divided the logits by √O. Return them before they are scaled.",
            {
                RETURN: "root = query_kernel.shape[-1] ** 0.5\n"
                "    return bilinear, from_bilinear / root, from_projections / root"
            },
        ),
        Wrong(
            "computed-once",
            "You computed the logits once and returned them twice. Compute them in both ways: once from W_i, and once from "
            "the projected query and key.",
            {PRODUCT: "from_bilinear * 1.0"},
        ),
        Wrong(
            "keys-as-rows",
            "You made the keys the rows of the logits. The order is (B, H, T, S): a row for each query.",
            {BILINEAR: BILINEAR.replace("->BHTS", "->BHST"), PRODUCT: f"np.swapaxes({PRODUCT}, -1, -2)"},
        ),
        Wrong(
            "kernels-multiplied-by-element",
            "You multiplied the kernels element by element, (H, I, O). Each of the query's I features meets each of the "
            "key's: the result is (H, I, I).",
            {
                'np.einsum("HIO,HJO->HIJ", query_kernel, key_kernel)': "query_kernel * key_kernel",
                BILINEAR: '"BTI,HIO,BSI->BHTS", query, bilinear, key',
            },
        ),
        Wrong(
            "key-with-query-kernel",
            "You projected the key with the query's kernel. It has a kernel of its own.",
            {KEY: KEY.replace("key_kernel", "query_kernel")},
        ),
    ),
)
