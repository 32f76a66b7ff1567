"""Checks of `fold_kernels`. W^Q leaves some heads as they are, so that the forum's equalities hold for these."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

FOLDED = "folded = kernel @ head_kernels"
PRINTED = "x @ kernel @ folded_head, queries @ head"
COMPARED = "np.allclose(one, other)"
RETURN = "return folded, np.array(holds)"


def keeping(rng, features, size):
    """Return a W^Q that leaves a part of the features as they are, and a basis that begins with that part."""
    basis = rng.normal(size=(features, features))
    values = np.where(np.arange(features) < size, 1.0, rng.uniform(1.3, 1.7, features))
    return basis @ np.diag(values) @ np.linalg.inv(basis), basis


def draw(rng):
    """Draw a W^Q that leaves a part of the features as they are, and one head whose kernel lies in that part.

    All output features of a second head but the last lie in it too, and a third head nearly does.
    """
    batch, positions, heads, size = sizes(rng, 4, least=3, most=8)
    features = size + heads + batch
    kernel, basis = keeping(rng, features, size)
    head_kernels = rng.normal(size=(heads, features, size))
    head_kernels[0] = basis[:, :size] @ rng.normal(size=(size, size))
    head_kernels[1 % heads, :, : size - 1] = basis[:, :size] @ rng.normal(size=(size, size - 1))
    if heads > 2:
        head_kernels[2] = basis[:, :size] @ rng.normal(size=(size, size)) + 1e-4 * head_kernels[2]
    order = rng.permutation(heads)
    return {"x": rng.normal(size=(batch, positions, features)), "kernel": kernel, "head_kernels": head_kernels[order]}


def draw_kept(rng):
    """Draw an x that W^Q leaves as it is, so that all equalities hold for any head."""
    batch, positions, heads, size = sizes(rng, 4, least=3, most=8)
    features = size + heads + batch
    kernel, basis = keeping(rng, features, size)
    return {
        "x": rng.normal(size=(batch, positions, size)) @ np.linalg.inv(basis)[:size],
        "kernel": kernel,
        "head_kernels": rng.normal(size=(heads, features, size)),
    }


def draw_but_one(rng):
    """Draw an x of which W^Q leaves all positions as they are, but for one of the last sentence: no equality holds."""
    found = draw_kept(rng)
    features, positions = len(found["kernel"]), found["x"].shape[1]
    found["x"][-1, rng.integers(positions)] = rng.normal(size=features)
    return found


def draw_identity(rng):
    """Draw a W^Q that is a projection: applied twice, it changes nothing more, for any head."""
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
    question="Does a layer learn both W^Q and W_i^Q, and is x W_i^{Q*} = x W^Q W_i^{Q*} = Q W_i^Q? (seed 002, an "
    "answer)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=2, values=6),
        Check("edge", "a W^Q that gives the same when it is applied twice", 3, draw_identity),
        Check("edge", "an x that W^Q leaves as it is", 1, draw_kept),
        Check("edge", "an x that W^Q leaves as it is, but for one position", 1, draw_but_one),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "all-taken-to-hold",
            "You found that every equality holds. The printed expression in the middle contains W^Q twice: compute it "
            "as it stands, without correcting it first.",
            {PRINTED: "x @ kernel @ head, queries @ head"},
            "seed 002, the second answer",
        ),
        Wrong(
            "folded-twice",
            "Your folded kernel contains W^Q twice. x is multiplied by it only once.",
            {FOLDED: "folded = kernel @ kernel @ head_kernels"},
            "seed 002, the second answer: x W^Q W_i^{Q*}",
        ),
        Wrong(
            "kernel-transposed",
            "You used W^Q transposed, as (out, in) instead of (in, out). x stands to its left, so its rows are the "
            "features of x.",
            {FOLDED: "folded = kernel.T @ head_kernels"},
            "PyTorch's nn.Linear holds its weight as (out, in)",
        ),
        Wrong(
            "not-folded",
            "You returned W_i^Q itself as the folded kernel. Multiply W^Q into it.",
            {FOLDED: "folded = head_kernels.copy()"},
        ),
        Wrong(
            "queries-projected-twice",
            "You found that x W^Q W_i^{Q*} equals Q W_i^Q for every head. Either you multiplied Q by the folded kernel, "
            "which already contains W^Q, or your pairs are in another order than in the docstring.",
            {PRINTED: "x @ kernel @ folded_head, queries @ folded_head"},
            "seed 002, the second answer",
        ),
        Wrong(
            "compared-exactly",
            "You compared the numbers exactly. The same sum in another order differs in its last digits: compare up "
            "to rounding.",
            {COMPARED: "bool(np.all(one == other))"},
        ),
        Wrong(
            "one-element-is-enough",
            "You checked only whether some elements agree. Two arrays differ as soon as one element does.",
            {COMPARED: "bool(np.isclose(one, other).any())"},
        ),
        Wrong(
            "heads-together",
            "You compared all heads at once. The answer differs from head to head: compare each by itself.",
            {RETURN: "return folded, np.array(holds) & np.all(holds, axis=0)"},
        ),
        Wrong(
            "x-not-used",
            "You compared the kernels without x. The equalities are about the products with this x, and these can be equal "
            "where the kernels are not.",
            {
                "x @ folded_head, x @ kernel @ folded_head, queries @ head": "folded_head, kernel @ folded_head, "
                "kernel @ head"
            },
        ),
        Wrong(
            "first-position-only",
            "You compare the first position only. Two expressions are equal if all of their elements are.",
            {COMPARED: "np.allclose(one[0, 0], other[0, 0])"},
        ),
        Wrong(
            "too-tolerant",
            "Your tolerance is too large: numbers that differ by a thousandth count as equal. `np.allclose` has a "
            "default.",
            {COMPARED: "np.allclose(one, other, rtol=1e-2, atol=1e-2)"},
        ),
    ),
)
