"""Checks of `ov_matrix`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

MATRICES = "matrices = value_kernel @ output_kernel"
MIXED = '"BHTS,BSI->BHTI", scores, value'
SUMMANDS = '"BHTI,HIE->BHTE", mixed, matrices'
RETURN = "return matrices, summands, summands.sum(axis=1)"


def draw(rng):
    """Draw pairwise different sizes, and scores whose rows sum to one."""
    batch, queries, keys, features, heads, size, outputs = sizes(rng, 7)
    scores = rng.dirichlet(np.ones(keys), size=(batch, heads, queries))
    return {
        "value": rng.normal(size=(batch, keys, features)),
        "scores": scores,
        "value_kernel": rng.normal(size=(heads, features, size)),
        "output_kernel": rng.normal(size=(heads, size, outputs)),
    }


def judge_sums(inputs, result, expected):
    """Compare the answer's output with the sum of its summands, and with that of concatenated heads."""
    _, summands, output = (np.asarray(each) for each in result)
    heads = np.einsum("BHTS,BSI,HIO->BTHO", inputs["scores"], inputs["value"], inputs["value_kernel"])
    wide = inputs["output_kernel"].reshape(-1, inputs["output_kernel"].shape[-1])
    usual = heads.reshape(*heads.shape[:2], -1) @ wide
    if output.shape != usual.shape or not np.allclose(output, usual, rtol=0, atol=1e-8 * np.abs(usual).max()):
        return "the output is not the product of the heads side by side with the whole output kernel."
    if summands.ndim != 4 or not np.allclose(summands.sum(axis=1), output, rtol=0, atol=1e-8 * np.abs(usual).max()):
        return "the output is not the sum of the heads' summands."
    return None


EXERCISE = Exercise(
    title="The other pair of matrices",
    question="Does a head contain another pair of matrices that matters only through its product? (seed 002, carried on)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=2),
        Check(
            "invariants",
            "the output is that of the usual layer, and the sum of the summands",
            2,
            draw,
            judge=judge_sums,
        ),
        *standard(draw, values=4, unchanged=1),
    ),
    wrong=(
        Wrong(
            "merge-averaged",
            "You averaged the summands of the heads. Concatenating the heads and multiplying by W^O sums them.",
            {RETURN: RETURN.replace(".sum(", ".mean(")},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "heads-all-first",
            "You used the first head's OV matrix for every head. Each head has its own.",
            {SUMMANDS: '"BHTI,IE->BHTE", mixed, matrices[0]'},
        ),
        Wrong(
            "matrices-of-all-heads",
            "You summed the OV matrices over the heads, so each head meets the matrices of the others. Keep H until "
            "the last sum.",
            {SUMMANDS: '"BHTI,IE->BHTE", mixed, matrices.sum(axis=0)'},
        ),
        Wrong(
            "output-kernel-of-all-heads",
            "You summed the output kernels over the heads. Each head has its own part of W^O: give both kernels the "
            "same letter for H.",
            {MATRICES: 'matrices = np.einsum("HIO,GOE->HIE", value_kernel, output_kernel)'},
        ),
        Wrong(
            "softmax-again",
            "You took a softmax of the scores. They are probabilities already: each row sums to one.",
            {
                MATRICES: MATRICES + "\n    scores = np.exp(scores)\n"
                "    scores = scores / scores.sum(axis=-1, keepdims=True)"
            },
        ),
        Wrong(
            "kernels-summed-alone",
            "You summed each of the two kernels over O by itself. Give both the same letter for O.",
            {MATRICES: 'matrices = np.einsum("HIO,HPE->HIE", value_kernel, output_kernel)'},
        ),
        Wrong(
            "values-not-mixed",
            "You summed the scores along each row before they met the values. A row sums to one, so every position "
            "counts the same. Multiply first.",
            {MIXED: '"BHTU,BSI->BHTI", scores, value'},
        ),
        Wrong(
            "scores-of-all-heads",
            "You averaged the scores of the heads before the mix. Each head attends in its own way.",
            {MIXED: '"BHTS,BSI->BHTI", np.broadcast_to(scores.mean(axis=1, keepdims=True), scores.shape), value'},
        ),
        Wrong(
            "matrices-other-way-round",
            "You transposed the OV matrix, or multiplied in the other order. The I features of a value come in, and E "
            "features go out: (I, E).",
            {RETURN: RETURN.replace("return matrices", "return np.swapaxes(matrices, -1, -2)")},
        ),
        Wrong(
            "matrices-scaled",
            "You divided the OV matrix by √O. That scale belongs to the logits, not to the values.",
            {MATRICES: MATRICES + " / value_kernel.shape[-1] ** 0.5"},
        ),
        Wrong(
            "summands-side-by-side",
            "You put the summands of the heads side by side. Each of them is as wide as the output already: sum them.",
            {
                RETURN: "joined = np.concatenate(list(np.swapaxes(summands, 0, 1)), axis=-1)\n"
                "    return matrices, summands, joined"
            },
        ),
    ),
)
