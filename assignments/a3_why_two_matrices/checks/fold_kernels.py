"""What is checked of `fold_kernels`: W^Q leaves some heads as they are, so that the printed chain holds for these."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FOLDED = "folded = kernel @ head_kernels"
PRINTED = "x @ kernel @ folded_head, queries @ head"
COMPARED = "np.allclose(one, other)"
RETURN = "return folded, np.array(holds)"


def draw(rng):
    """W^Q leaves a part of the features as they are, and the kernels of one head lie in that part.

    Of another head only the last output feature does not lie in it.
    """
    batch, positions, heads, size = sizes(rng, 4, least=3, most=8)
    features = size + heads + batch
    basis = rng.normal(size=(features, features))
    values = np.where(np.arange(features) < size, 1.0, rng.uniform(1.3, 1.7, features))
    kernel = basis @ np.diag(values) @ np.linalg.inv(basis)
    head_kernels = rng.normal(size=(heads, features, size))
    head_kernels[0] = basis[:, :size] @ rng.normal(size=(size, size))
    head_kernels[1 % heads, :, : size - 1] = basis[:, :size] @ rng.normal(size=(size, size - 1))
    order = rng.permutation(heads)
    return {"x": rng.normal(size=(batch, positions, features)), "kernel": kernel, "head_kernels": head_kernels[order]}


def draw_identity(rng):
    """W^Q is a projection: a second one changes nothing, for any head."""
    batch, positions, heads, size, features = sizes(rng, 5)
    direction = rng.normal(size=(features, 1))
    kernel = np.eye(features) - direction @ direction.T / np.sum(direction**2)
    return {
        "x": rng.normal(size=(batch, positions, features)),
        "kernel": kernel,
        "head_kernels": rng.normal(size=(heads, features, size)),
    }


EXERCISE = Exercise(
    title="Folded once, not twice",
    question="Are W^Q and W_i^Q both learned, and is x W_i^{Q*} = x W^Q W_i^{Q*} = Q W_i^Q? (seed 002, an answer)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=2, values=8),
        Check("edge", "a W^Q that is the same when it is applied twice", 3, draw_identity),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "all-taken-to-hold",
            "Every equality holds in this answer. As it is printed the expression in the middle has W^Q in it twice: "
            "it is to be computed as it stands, not put right first.",
            {PRINTED: "x @ kernel @ head, queries @ head"},
            "seed 002, the second answer",
        ),
        Wrong(
            "folded-twice",
            "W^Q is in the folded kernel twice: x is multiplied by it once.",
            {FOLDED: "folded = kernel @ kernel @ head_kernels"},
            "seed 002, the second answer: x W^Q W_i^{Q*}",
        ),
        Wrong(
            "kernel-transposed",
            "W^Q is used transposed, (out, in) in place of (in, out): x stands on its left, so its rows are x's "
            "features.",
            {FOLDED: "folded = kernel.T @ head_kernels"},
            "PyTorch's nn.Linear holds its weight as (out, in)",
        ),
        Wrong(
            "not-folded",
            "The folded kernel is W_i^Q itself: W^Q is not in it.",
            {FOLDED: "folded = head_kernels.copy()"},
        ),
        Wrong(
            "queries-projected-twice",
            "Q is multiplied by the folded kernel: W^Q is in Q already.",
            {PRINTED: "x @ kernel @ folded_head, queries @ folded_head"},
            "seed 002, the second answer",
        ),
        Wrong(
            "compared-exactly",
            "The numbers are compared exactly: the same sum in another order differs in its last digits.",
            {COMPARED: "bool(np.all(one == other))"},
        ),
        Wrong(
            "one-element-is-enough",
            "Not every element is compared, only whether some agree: one that differs is enough for two arrays to "
            "differ.",
            {COMPARED: "bool(np.isclose(one, other).any())"},
        ),
        Wrong(
            "heads-together",
            "All heads are compared at once: the question is for every head, and the answer differs from head to head.",
            {RETURN: "return folded, np.array(holds) & np.all(holds, axis=0)"},
        ),
    ),
)
