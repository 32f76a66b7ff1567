"""What is checked of `bilinear_form`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FORM = '"HIO,HJO->HIJ", query_kernel, key_kernel'
BILINEAR = '"BTI,HIJ,BSJ->BHTS", query, bilinear, key'
QUERY = '"BTI,HIO->BHTO", query, query_kernel'
KEY = '"BSI,HIO->BHSO", key, key_kernel'
PRODUCT = "projected_query @ np.swapaxes(projected_key, -1, -2)"
RETURN = "return bilinear, from_bilinear, from_projections"


def draw(rng):
    """Pairwise different sizes."""
    batch, queries, keys, features, heads, size = sizes(rng, 6)
    return {
        "query": rng.normal(size=(batch, queries, features)),
        "key": rng.normal(size=(batch, keys, features)),
        "query_kernel": rng.normal(size=(heads, features, size)),
        "key_kernel": rng.normal(size=(heads, features, size)),
    }


def both_agree(inputs, result, expected):
    """The two logits of the answer itself."""
    _, one, other = (np.asarray(each) for each in result)
    if one.shape != other.shape:
        return f"the logits made of W_i have the shape {one.shape}, those of the projections {other.shape}."
    if not np.allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(expected[1]).max()):
        return "the logits made of W_i and those of the projections differ, and they are the same product."
    return None


EXERCISE = Exercise(
    title="One matrix in place of two",
    question="Why two matrices W_i^Q and W_i^K, when only their product is used? (seed 002, the question)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=2),
        Check("invariants", "both ways give the same logits", 1, draw, judge=both_agree),
        *standard(draw, values=5, unchanged=1),
    ),
    wrong=(
        Wrong(
            "bilinear-transposed",
            "W_i is the other way round: its rows belong to the key's features and its columns to the query's.",
            {FORM: FORM.replace("->HIJ", "->HJI")},
            "seed 002: W_i = W_i^Q (W_i^K)^T, in this order",
        ),
        Wrong(
            "bilinear-given-transposed",
            "The logits are right, but W_i is given the other way round: its rows belong to the query's features.",
            {RETURN: RETURN.replace("return bilinear", "return np.swapaxes(bilinear, -1, -2)")},
        ),
        Wrong(
            "kernel-reshaped",
            "The key's kernel is transposed by a reshape: that keeps the order in memory, and mixes its rows and "
            "columns.",
            {FORM: '"HIO,HOJ->HIJ", query_kernel, key_kernel.reshape(len(key_kernel), key_kernel.shape[-1], -1)'},
        ),
        Wrong(
            "bilinear-within-head",
            "W_i has the axes of the head's O features: the I features are summed over, which are what should be left.",
            {
                FORM: '"HIO,HIP->HOP", query_kernel, key_kernel',
                BILINEAR: '"BTI,HIO,HOP,BSJ,HJP->BHTS", query, query_kernel, bilinear, key, key_kernel',
            },
        ),
        Wrong(
            "sums-multiplied",
            "Each kernel is summed over its O features by itself before they are multiplied: both need the same letter "
            "for O, or W_i has rank one.",
            {FORM: FORM.replace("HJO", "HJP")},
            "seed 002 calls W_i an outer product",
        ),
        Wrong(
            "one-kernel",
            "The query's kernel is used for the key too: W_i becomes symmetric, and a pair of positions gets the same "
            "logit in both directions.",
            {FORM: '"HIO,HJO->HIJ", query_kernel, query_kernel', KEY: '"BSI,HIO->BHSO", key, query_kernel'},
        ),
        Wrong(
            "kernels-exchanged",
            "The kernels are exchanged: the query goes through the key's, and the key through the query's.",
            {
                FORM: '"HIO,HJO->HIJ", key_kernel, query_kernel',
                QUERY: QUERY.replace("query_kernel", "key_kernel"),
                KEY: KEY.replace("key_kernel", "query_kernel"),
            },
        ),
        Wrong(
            "heads-summed",
            "The heads are summed: every head has a W_i of its own, and logits of its own.",
            {
                FORM: FORM.replace("->HIJ", "->IJ"),
                BILINEAR: '"BTI,IJ,BSJ->BTS", query, bilinear, key',
                PRODUCT: f"({PRODUCT}).sum(axis=1)",
            },
        ),
        Wrong(
            "scaled-here",
            "The logits are divided by √O: the text asks for them before they are scaled.",
            {
                RETURN: "root = query_kernel.shape[-1] ** 0.5\n"
                "    return bilinear, from_bilinear / root, from_projections / root"
            },
        ),
        Wrong(
            "keys-as-rows",
            "The keys are the rows of the logits: the order is (B, H, T, S), a row for each query.",
            {BILINEAR: BILINEAR.replace("->BHTS", "->BHST"), PRODUCT: f"np.swapaxes({PRODUCT}, -1, -2)"},
        ),
    ),
)
