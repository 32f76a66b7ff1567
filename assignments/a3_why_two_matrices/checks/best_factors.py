"""What is checked of `best_factors`: the product alone, since the factors are not unique."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

RETURN = "return left[:, :rank] * singular[:rank], right_transposed[:rank].T"


def draw(rng):
    """A matrix of full rank, and a lower rank."""
    rank, features = sorted(sizes(rng, 2, least=2, most=7))
    return {"bilinear": rng.normal(size=(features, features)), "rank": rank}


def draw_exact(rng):
    """A product of two kernels: nothing is lost."""
    rank, features = sorted(sizes(rng, 2, least=2, most=8))
    query_kernel, key_kernel = rng.normal(size=(2, features, rank))
    return {"bilinear": query_kernel @ key_kernel.T, "rank": rank}


def product(answer, inputs):
    """What does not hang on the choice of the factors."""
    left, right = (np.asarray(each) for each in answer.best_factors(**inputs))
    fit = left.ndim == right.ndim == 2 and left.shape[1] == right.shape[1]
    return {"left": list(left.shape), "right": list(right.shape), "product": left @ right.T if fit else None}


def shapes(inputs, result, expected):
    for name in ("left", "right"):
        if list(result[name]) != list(expected[name]):
            return f"`{name}` has the shape {tuple(result[name])}, expected {tuple(expected[name])}."
    return None


def distance(inputs, result, expected):
    """Eckart–Young: the distance is that of the singular values that were dropped."""
    if np.shape(result["product"]) != expected["product"].shape:
        return "`left @ right.T` has not the shape of W, or cannot be computed."
    singular = np.linalg.svd(inputs["bilinear"], compute_uv=False)
    least = np.sqrt(np.sum(singular[inputs["rank"] :] ** 2))
    far = np.linalg.norm(inputs["bilinear"] - result["product"])
    if not abs(far - least) <= 1e-6 * singular[0]:
        return f"`left @ right.T` is {far:.4g} away from W, and there is a product of this rank that is nearer."
    return None


def values(inputs, result, expected):
    if np.shape(result["product"]) != expected["product"].shape:
        return "`left @ right.T` has not the shape of W, or cannot be computed."
    if not np.allclose(result["product"], expected["product"], rtol=0, atol=1e-6 * np.abs(expected["product"]).max()):
        return "`left @ right.T` is not the nearest matrix of this rank."
    return None


EXERCISE = Exercise(
    title="The nearest pair of kernels",
    question="Can one matrix W be replaced by two thin ones afterwards? (seed 002: define only a W_i)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1),
        Check("shape", "both factors are (I, r)", 1, draw, product, shapes),
        Check("invariants", "what is lost is what the dropped singular values hold", 2, draw, product, distance),
        Check("values", "the product of the factors is right", 4, draw, product, values),
        Check("edge", "a W that is a product of two such matrices is kept whole", 1, draw_exact, product, values),
        *standard(draw, unchanged=1, ask=product),
    ),
    wrong=(
        Wrong(
            "singular-values-missing",
            "The singular values are in neither factor: the product only turns, and does not stretch.",
            {RETURN: RETURN.replace(" * singular[:rank]", "")},
        ),
        Wrong(
            "singular-values-twice",
            "The singular values are in both factors whole: in the product they are squared.",
            {RETURN: RETURN.replace("[:rank].T", "[:rank].T * singular[:rank]")},
        ),
        Wrong(
            "singular-values-root-once",
            "The root of the singular values is in one factor only: the product has the root of each.",
            {RETURN: RETURN.replace("singular[:rank]", "np.sqrt(singular[:rank])")},
        ),
        Wrong(
            "smallest-kept",
            "The smallest singular values are kept: NumPy gives them from large to small.",
            {RETURN: RETURN.replace(":rank", "-rank:")},
        ),
        Wrong(
            "vt-for-v",
            "Columns of V^T are taken in place of columns of V: `svd` returns V transposed already.",
            {RETURN: RETURN.replace("right_transposed[:rank].T", "right_transposed[:, :rank]")},
            "numpy.linalg.svd: it returns vh",
        ),
        Wrong(
            "right-transposed",
            "The right factor is (r, I): it is to have the shape of W^K, (I, r), and is transposed in the product "
            "only.",
            {RETURN: RETURN.replace("[:rank].T", "[:rank]")},
        ),
        Wrong(
            "factors-exchanged",
            "The factors are exchanged: left · right^T is W transposed.",
            {RETURN: "return right_transposed[:rank].T * singular[:rank], left[:, :rank]"},
        ),
        Wrong(
            "columns-cut",
            "W's own first r columns are kept and the rest is 0: that has rank r, but is not the nearest.",
            {RETURN: "return bilinear[:, :rank], np.eye(len(bilinear))[:, :rank]"},
        ),
        Wrong(
            "qr-cut",
            "The decomposition is cut where its columns are not ordered by what they hold (QR): the first r columns of "
            "W are kept whole, and the others lose what they need not lose.",
            {
                RETURN: "orthogonal, triangular = np.linalg.qr(bilinear)\n"
                "    return orthogonal[:, :rank], triangular[:rank].T"
            },
        ),
        Wrong(
            "eigenvalues",
            "Eigenvalues and eigenvectors are used: W is not symmetric, its eigenvectors are not at right angles, and "
            "the largest eigenvalues do not give the nearest matrix.",
            {
                RETURN: "values, vectors = np.linalg.eig(bilinear)\n"
                "    kept = np.argsort(-np.abs(values))[:rank]\n"
                "    return vectors[:, kept] * values[kept], vectors[:, kept]"
            },
        ),
        Wrong(
            "symmetric-only",
            "The decomposition is one of symmetric matrices: W_i is not symmetric, query and key have different "
            "kernels.",
            {
                RETURN: "values, vectors = np.linalg.eigh((bilinear + bilinear.T) / 2)\n"
                "    kept = np.argsort(-np.abs(values))[:rank]\n"
                "    return vectors[:, kept] * values[kept], vectors[:, kept]"
            },
        ),
    ),
)
