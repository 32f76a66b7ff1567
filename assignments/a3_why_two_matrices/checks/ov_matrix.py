"""What is checked of `ov_matrix`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

MATRICES = "matrices = value_kernel @ output_kernel"
MIXED = '"BHTS,BSI->BHTI", scores, value'
SUMMANDS = '"BHTI,HIE->BHTE", mixed, matrices'
RETURN = "return matrices, summands, summands.sum(axis=1)"


def draw(rng):
    """Pairwise different sizes; the scores' rows sum to one."""
    batch, queries, keys, features, heads, size, outputs = sizes(rng, 7)
    scores = rng.dirichlet(np.ones(keys), size=(batch, heads, queries))
    return {
        "value": rng.normal(size=(batch, keys, features)),
        "scores": scores,
        "value_kernel": rng.normal(size=(heads, features, size)),
        "output_kernel": rng.normal(size=(heads, size, outputs)),
    }


def sums(inputs, result, expected):
    """The output of the answer is the sum of its summands, and the one of concatenated heads."""
    _, summands, output = (np.asarray(each) for each in result)
    heads = np.einsum("BHTS,BSI,HIO->BTHO", inputs["scores"], inputs["value"], inputs["value_kernel"])
    wide = inputs["output_kernel"].reshape(-1, inputs["output_kernel"].shape[-1])
    usual = heads.reshape(*heads.shape[:2], -1) @ wide
    if output.shape != usual.shape or not np.allclose(output, usual, rtol=0, atol=1e-8 * np.abs(usual).max()):
        return "the output is not that of the heads side by side, times the whole output kernel."
    if summands.ndim != 4 or not np.allclose(summands.sum(axis=1), output, rtol=0, atol=1e-8 * np.abs(usual).max()):
        return "the output is not the sum of what the heads add."
    return None


EXERCISE = Exercise(
    title="The other pair of matrices",
    question="Are there other matrices in a head of which only the product counts? (seed 002, carried on)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=2),
        Check("invariants", "the output is that of the usual layer, and the sum over the heads", 2, draw, judge=sums),
        *standard(draw, values=4, unchanged=1),
    ),
    wrong=(
        Wrong(
            "merge-averaged",
            "The heads' summands are averaged: concatenating and multiplying by W^O sums them.",
            {RETURN: RETURN.replace(".sum(", ".mean(")},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "heads-all-first",
            "Every head uses the first head's OV matrix: each has its own.",
            {SUMMANDS: '"BHTI,IE->BHTE", mixed, matrices[0]'},
        ),
        Wrong(
            "matrices-of-all-heads",
            "Every head's mixed features meet the sum of all OV matrices: H is summed over too early, and heads meet "
            "the matrices of others.",
            {SUMMANDS: '"BHTI,IE->BHTE", mixed, matrices.sum(axis=0)'},
        ),
        Wrong(
            "kernels-summed-alone",
            "The two kernels are summed over O each by itself: both need the same letter for O.",
            {MATRICES: 'matrices = np.einsum("HIO,HPE->HIE", value_kernel, output_kernel)'},
        ),
        Wrong(
            "values-not-mixed",
            "The scores are summed along their row before they meet the values: every position counts the same, since "
            "a row sums to one.",
            {MIXED: '"BHTU,BSI->BHTI", scores, value'},
        ),
        Wrong(
            "scores-of-all-heads",
            "The heads' scores are averaged before they mix: each head attends in its own way.",
            {MIXED: '"BHTS,BSI->BHTI", np.broadcast_to(scores.mean(axis=1, keepdims=True), scores.shape), value'},
        ),
        Wrong(
            "matrices-other-way-round",
            "The OV matrix is transposed, or made in the other order: a value's I features come in, E features go out.",
            {RETURN: RETURN.replace("return matrices", "return np.swapaxes(matrices, -1, -2)")},
        ),
        Wrong(
            "matrices-scaled",
            "The OV matrix is divided by √O: that belongs to the logits, not to the values.",
            {MATRICES: MATRICES + " / value_kernel.shape[-1] ** 0.5"},
        ),
    ),
)
