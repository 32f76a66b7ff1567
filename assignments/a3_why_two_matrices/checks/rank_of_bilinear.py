"""Checks of `rank_of_bilinear`, with heads of different ranks and very different scales."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRODUCT = "bilinear = query_kernel @ np.swapaxes(key_kernel, -1, -2)"
COMPARED = "singular > tolerance * singular[:, :1]"
RANKS = "ranks = np.sum(singular > tolerance * singular[:, :1], axis=-1)"
BOUND = "return min(features, size), ranks"
SINGULAR = "singular = np.linalg.svd(bilinear, compute_uv=False)"


def draw(rng):
    """Draw heads that include one of small numbers, one of large numbers, and three of lower rank.

    The tolerance decides on the rank of the head of small numbers. In that of large numbers, one column of the key is
    orthogonal to those of the query, so that W_i has fewer eigenvalues than its rank. Four more heads have a singular
    value near the bound, or near its root. `mislead_qr` draws one more.
    """
    tolerance = 10.0 ** -int(rng.integers(3, 9))
    heads, size = sizes(rng, 2, least=4, most=7)
    features = size + int(rng.integers(2, 5))
    heads += 5 * (heads >= 4)
    if features == heads:
        features += 3
    query, key = rng.normal(size=(2, heads, features, size))
    order = rng.permutation(heads)
    if heads >= 9 and size >= 3:
        query[order[0]] *= 1e-6
        key[order[0]] *= 1e-6
        key[order[0], :, 0] *= 0.01 * tolerance
        query[order[1]] *= 1e5
        key[order[1]] *= 1e5
        key[order[1], :, 1] = 2 * key[order[1], :, 0]
        column, others = key[order[1], :, 2], query[order[1]]
        key[order[1], :, 2] = column - others @ np.linalg.lstsq(others, column, rcond=None)[0]
        query[order[2], :, 0] = 0
        key[order[2], :, 1] = 0
        query[order[3], :, 2] = query[order[3], :, 0] - query[order[3], :, 1]
        near = (0.7 * tolerance, 1.3 * tolerance, 2.7 * tolerance, tolerance**0.5 / 3)
        for head, value in zip(order[4:8], near, strict=True):
            query[head], key[head] = np.linalg.qr(rng.normal(size=(2, features, size)))[0]
            query[head, :, -1] *= value  # W_i has this singular value, and 1 as often as O - 1
        mislead_qr(query[order[8]], key[order[8]])
    return {"query_kernel": query, "key_kernel": key, "tolerance": tolerance}


def mislead_qr(query, key):
    """Change the kernels of a head so that W_i has only O rows that are not zeros, and begins with a column of zeros.

    Its triangular factor then has one number less on its diagonal than the rank.
    """
    query[query.shape[-1] :] = 0
    key[0] = 0


def draw_wide(rng):
    """Draw O larger than I."""
    heads, features = sizes(rng, 2, least=2, most=5)
    query, key = rng.normal(size=(2, heads, features, 2 * features + 3))
    return {"query_kernel": query, "key_kernel": key, "tolerance": 1e-8}


def draw_zeros(rng):
    """Draw a head whose kernels share no direction, so that W_i is zero.

    No head has as high a rank as it could have.
    """
    heads, features = sizes(rng, 2, least=2, most=5)
    query, key = rng.normal(size=(2, heads, features, 2))
    head = int(rng.integers(heads))
    query[:, :, 0] = 0
    key[head, :, 1] = 0
    return {"query_kernel": query, "key_kernel": key, "tolerance": 1e-8}


EXERCISE = Exercise(
    title="What two thin matrices cannot make",
    question="Can the product of W_i^Q and W_i^K be any matrix W_i? (seed 002, a comment: the product is rank deficient)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=4),
        Check("edge", "O larger than I", 1, draw_wide),
        Check("edge", "a head whose W_i is zeros", 2, draw_zeros),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "bound-for-rank",
            "You returned the bound as the rank of every head. The bound says what is possible; a head can have less.",
            {RANKS: "ranks = np.full(len(query_kernel), min(features, size))"},
            "seed 002, a comment",
        ),
        Wrong(
            "least-of-both-ranks",
            "You took the lower rank of the two kernels. The rank of their product can be lower than both: compute it "
            "from W_i.",
            {
                RANKS: "both = [np.linalg.svd(each, compute_uv=False) for each in (query_kernel, key_kernel)]\n"
                "    ranks = np.min([np.sum(each > tolerance * each[:, :1], axis=-1) for each in both], axis=0)"
            },
        ),
        Wrong(
            "rank-of-query-kernel",
            "You returned the rank of the query kernel. The key kernel matters too: compute the rank of the product.",
            {SINGULAR: SINGULAR.replace("bilinear", "query_kernel")},
        ),
        Wrong(
            "tolerance-missing",
            "You counted every singular value that is not exactly 0. Rounding alone leaves values near 1e-16 of the "
            "largest: use the tolerance.",
            {COMPARED: "singular > 0"},
        ),
        Wrong(
            "tolerance-of-numpy",
            "You left the tolerance to `matrix_rank`. Its own lies near the rounding of the numbers. Use the one that "
            "you are given.",
            {RANKS: "ranks = np.linalg.matrix_rank(bilinear)"},
        ),
        Wrong(
            "largest-rank-for-bound",
            "You returned the largest rank that you found as the bound. The bound says what is possible, and follows "
            "from the shapes.",
            {BOUND: "return int(ranks.max()), ranks"},
        ),
        Wrong(
            "tolerance-absolute",
            "You compared the singular values with the tolerance itself. Then a head of small numbers loses rank, and "
            "one of large numbers gains some from rounding. Multiply the tolerance by the largest singular value.",
            {COMPARED: "singular > tolerance"},
        ),
        Wrong(
            "largest-of-all-heads",
            "You used the largest singular value of all heads, so a head of small numbers is measured by another "
            "head. Use the largest of each head.",
            {COMPARED: "singular > tolerance * singular.max()"},
        ),
        Wrong(
            "mean-for-largest",
            "You multiplied the tolerance by the mean of the singular values. The mean is smaller than the largest "
            "one, so you count too many. Multiply by the largest.",
            {COMPARED: "singular > tolerance * singular.mean(axis=-1, keepdims=True)"},
        ),
        Wrong(
            "sum-for-largest",
            "You multiplied the tolerance by the sum of the singular values. The sum is larger than the largest one, so "
            "you miss some. Multiply by the largest.",
            {COMPARED: "singular > tolerance * singular.sum(axis=-1, keepdims=True)"},
        ),
        Wrong(
            "norm-for-largest",
            "You multiplied the tolerance by the norm of W_i, the root of the sum of all squared singular values. It is "
            "larger than the largest singular value, so you miss some.",
            {COMPARED: "singular > tolerance * np.linalg.norm(singular, axis=-1, keepdims=True)"},
        ),
        Wrong(
            "squares-compared",
            "You compared the squares of the singular values. A square falls below the tolerance much earlier than the "
            "number itself. Compare the singular values.",
            {COMPARED: "singular**2 > tolerance * singular[:, :1] ** 2"},
        ),
        Wrong(
            "diagonal-of-qr",
            "You counted the numbers on the diagonal of a QR factor. They are not the singular values, and one of them "
            "can be 0 although no rank is lost.",
            {
                SINGULAR: "singular = np.abs(np.diagonal(np.linalg.qr(bilinear)[1], axis1=-2, axis2=-1))\n"
                "    singular = np.sort(singular, axis=-1)[:, ::-1]"
            },
        ),
        Wrong(
            "zeros-count",
            "If W_i is zeros, every singular value equals the bound, 0, and you counted it. Such a W_i has rank 0.",
            {COMPARED: COMPARED.replace(">", ">=")},
        ),
        Wrong(
            "bound-is-size",
            "You returned O as the bound even if O is larger than I. An (I, I) matrix has at most I independent "
            "columns.",
            {BOUND: "return size, ranks"},
        ),
        Wrong(
            "heads-together",
            "You computed a single rank, that of the sum of the heads, and gave it to all. Every head has its own W_i.",
            {PRODUCT: PRODUCT + "\n    bilinear = np.broadcast_to(bilinear.sum(axis=0), bilinear.shape)"},
        ),
        Wrong(
            "eigenvalues",
            "You counted eigenvalues. A matrix can have fewer of them than its rank: that of [[0, 1], [0, 0]] is 1, "
            "and both its eigenvalues are 0.",
            {SINGULAR: "singular = np.sort(np.abs(np.linalg.eigvals(bilinear)), axis=-1)[:, ::-1]"},
        ),
    ),
)
