"""Checks of `best_factors`. They compare only the product, because the factors are not unique."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

RETURN = "return left[:, :rank] * singular[:rank], right_transposed[:rank].T"


def draw(rng):
    """Draw a matrix of full rank, and a lower rank."""
    rank, features = sorted(sizes(rng, 2, least=2, most=7))
    return {"bilinear": rng.normal(size=(features, features)), "rank": rank}


def draw_exact(rng):
    """Draw a product of two kernels, so that nothing is lost."""
    rank, features = sorted(sizes(rng, 2, least=2, most=8))
    query_kernel, key_kernel = rng.normal(size=(2, features, rank))
    return {"bilinear": query_kernel @ key_kernel.T, "rank": rank}


def draw_ends(rng):
    """Draw a matrix of full rank, and the ranks 1 and I, and two matrices of lower rank than is asked for.

    Their singular values are exactly 0, so that whoever divides by them gets NaN.
    """
    (features,) = sizes(rng, 1, least=3, most=7)
    whole, one, none = rng.normal(size=(features, features)), *np.zeros((2, features, features))
    one[0, 0] = rng.uniform(1, 3)
    return {"bilinear": [whole, whole, one, none], "ranks": [1, features, min(2, features), 1]}


def product(answer, inputs):
    """Return what does not depend on the choice of the factors."""
    left, right = (np.asarray(each) for each in answer.best_factors(**inputs))
    fit = left.ndim == right.ndim == 2 and left.shape[1] == right.shape[1]
    return {"left": list(left.shape), "right": list(right.shape), "product": left @ right.T if fit else None}


def product_of_each(answer, inputs):
    """Return the product of the factors for each matrix and rank."""
    factors = [answer.best_factors(*each) for each in zip(inputs["bilinear"], inputs["ranks"], strict=True)]
    return [np.asarray(left) @ np.asarray(right).T for left, right in factors]


def judge_shapes(inputs, result, expected):
    for name in ("left", "right"):
        if list(result[name]) != list(expected[name]):
            return f"`{name}` has the shape {tuple(result[name])}, expected {tuple(expected[name])}."
    return None if np.shape(result["product"]) == expected["product"].shape else "`left @ right.T` is not (I, I)."


def judge_distance(inputs, result, expected):
    """Compare the distance with that of the dropped singular values (Eckart–Young)."""
    if np.shape(result["product"]) != expected["product"].shape:
        return "`left @ right.T` does not have the shape of W, or cannot be computed."
    if len(result["left"]) == 2 and result["left"][1] > inputs["rank"]:
        return f"the factors have {result['left'][1]} columns, more than the rank that is asked for."
    singular = np.linalg.svd(inputs["bilinear"], compute_uv=False)
    least = np.sqrt(np.sum(singular[inputs["rank"] :] ** 2))
    far = np.linalg.norm(inputs["bilinear"] - result["product"])
    if not abs(far - least) <= 1e-6 * singular[0]:
        return f"`left @ right.T` is {far:.4g} away from W, but a product of this rank can be nearer."
    return None


def judge_product(inputs, result, expected):
    if np.shape(result["product"]) != expected["product"].shape:
        return "`left @ right.T` does not have the shape of W, or cannot be computed."
    if not np.allclose(result["product"], expected["product"], rtol=0, atol=1e-6 * np.abs(expected["product"]).max()):
        return "`left @ right.T` is not the nearest matrix of this rank."
    return None


def judge_products(inputs, result, expected):
    for place, (found, right) in enumerate(zip(result, expected, strict=True)):
        problem = judge_product(inputs, {"product": found}, {"product": right})
        if problem:
            what = ("", "", " and a W of rank 1", " and a W of zeros")[place]
            return f"for the rank {inputs['ranks'][place]}{what}, {problem}"
    return None


EXERCISE = Exercise(
    title="The nearest pair of kernels",
    question="Can you replace one matrix W by two thin ones afterwards? (seed 002: define only a W_i)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1),
        Check("shape", "both factors are (I, r)", 1, draw, product, judge_shapes),
        Check("invariants", "the loss is that of the dropped singular values", 2, draw, product, judge_distance),
        Check("values", "the product of the factors is right", 3, draw, product, judge_product),
        Check(
            "edge", "a W that is a product of two such matrices loses nothing", 1, draw_exact, product, judge_product
        ),
        Check(
            "edge",
            "the least rank, 1, and the full rank, I; a W of lower rank than r, or of zeros",
            1,
            draw_ends,
            product_of_each,
            judge_products,
        ),
        *standard(draw, unchanged=1, ask=product),
    ),
    wrong=(
        Wrong(
            "singular-values-missing",
            "You left the singular values out of both factors. Then the product only rotates and does not stretch. "
            "Multiply one factor by them.",
            {RETURN: RETURN.replace(" * singular[:rank]", "")},
        ),
        Wrong(
            "singular-values-twice",
            "You multiplied both factors by the singular values, so the product has their squares. Multiply only one "
            "factor, or both by the roots.",
            {RETURN: RETURN.replace("[:rank].T", "[:rank].T * singular[:rank]")},
        ),
        Wrong(
            "singular-values-root-once",
            "You multiplied only one factor by the roots of the singular values. The product then has the roots; both "
            "factors need them.",
            {RETURN: RETURN.replace("singular[:rank]", "np.sqrt(singular[:rank])")},
        ),
        Wrong(
            "smallest-kept",
            "You kept the smallest singular values. NumPy returns them from large to small: keep the first r.",
            {RETURN: RETURN.replace(":rank", "-rank:")},
        ),
        Wrong(
            "vt-for-v",
            "You took columns of V^T for columns of V. `svd` returns V already transposed.",
            {RETURN: RETURN.replace("right_transposed[:rank].T", "right_transposed[:, :rank]")},
            "numpy.linalg.svd: it returns vh",
        ),
        Wrong(
            "right-transposed",
            "Your right factor is (r, I). It has the shape of W^K, (I, r), and is transposed only in the product.",
            {RETURN: RETURN.replace("[:rank].T", "[:rank]")},
        ),
        Wrong(
            "factors-exchanged",
            "You exchanged the factors: left · right^T is the transpose of W.",
            {RETURN: "return right_transposed[:rank].T * singular[:rank], left[:, :rank]"},
        ),
        Wrong(
            "rank-ignored",
            "You returned factors with I columns, so nothing is lost and nothing is saved. Each factor has r columns.",
            {RETURN: "return bilinear, np.eye(len(bilinear))"},
        ),
        Wrong(
            "columns-cut",
            "You kept the first r columns of W and set the rest to 0. That has rank r, but it is not the nearest such "
            "matrix.",
            {RETURN: "return bilinear[:, :rank], np.eye(len(bilinear))[:, :rank]"},
        ),
        Wrong(
            "qr-cut",
            "You cut a QR decomposition, whose columns are not ordered by how much they hold. It keeps the first r "
            "columns of W whole and loses more of the others than necessary. Use the singular value decomposition.",
            {
                RETURN: "orthogonal, triangular = np.linalg.qr(bilinear)\n"
                "    return orthogonal[:, :rank], triangular[:rank].T"
            },
        ),
        Wrong(
            "eigenvalues",
            "You used eigenvalues and eigenvectors. W is not symmetric, so its eigenvectors are not orthogonal, and "
            "its largest eigenvalues do not give the nearest matrix. Use singular values.",
            {
                RETURN: "values, vectors = np.linalg.eig(bilinear)\n"
                "    kept = np.argsort(-np.abs(values))[:rank]\n"
                "    return vectors[:, kept] * values[kept], vectors[:, kept]"
            },
        ),
        Wrong(
            "symmetric-only",
            "You used a decomposition for symmetric matrices. W_i is not symmetric, because query and key have "
            "different kernels.",
            {
                RETURN: "values, vectors = np.linalg.eigh((bilinear + bilinear.T) / 2)\n"
                "    kept = np.argsort(-np.abs(values))[:rank]\n"
                "    return vectors[:, kept] * values[kept], vectors[:, kept]"
            },
        ),
        Wrong(
            "divided-by-zero",
            "You divide by singular values. They are 0 if W has a lower rank than r.",
            {RETURN: "return left[:, :rank] * singular[:rank], bilinear.T @ left[:, :rank] / singular[:rank]"},
        ),
    ),
)
