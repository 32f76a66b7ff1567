"""What is checked of `rank_of_bilinear`: heads of different ranks and very different scales."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRODUCT = "bilinear = query_kernel @ np.swapaxes(key_kernel, -1, -2)"
COMPARED = "singular > tolerance * singular[:, :1]"
RANKS = "ranks = np.sum(singular > tolerance * singular[:, :1], axis=-1)"
BOUND = "return min(features, size), ranks"
SINGULAR = "singular = np.linalg.svd(bilinear, compute_uv=False)"


def draw(rng):
    """A head of small numbers and one of large, three of lower rank, and more."""
    heads, size = sizes(rng, 2, least=4, most=7)
    features = size + int(rng.integers(2, 5))
    if features == heads:
        features += 3
    query, key = rng.normal(size=(2, heads, features, size))
    order = rng.permutation(heads)
    if heads >= 4 and size >= 3:
        query[order[0]] *= 1e-6
        key[order[0]] *= 1e-6
        query[order[1]] *= 1e5
        key[order[1]] *= 1e5
        key[order[1], :, 1] = 2 * key[order[1], :, 0]
        query[order[2], :, 0] = 0
        key[order[2], :, 1] = 0
        query[order[3], :, 2] = query[order[3], :, 0] - query[order[3], :, 1]
    return {"query_kernel": query, "key_kernel": key, "tolerance": 1e-8}


def draw_wide(rng):
    """O larger than I."""
    heads, features = sizes(rng, 2, least=2, most=5)
    query, key = rng.normal(size=(2, heads, features, 2 * features + 3))
    return {"query_kernel": query, "key_kernel": key, "tolerance": 1e-8}


def draw_zeros(rng):
    """A head whose kernels have nothing to do with each other: W_i is zeros."""
    heads, features = sizes(rng, 2, least=2, most=5)
    query, key = rng.normal(size=(2, heads, features, 2))
    head = int(rng.integers(heads))
    query[head, :, 0] = 0
    key[head, :, 1] = 0
    return {"query_kernel": query, "key_kernel": key, "tolerance": 1e-8}


EXERCISE = Exercise(
    title="What two thin matrices cannot make",
    question="Can the pair W_i^Q and W_i^K make every W_i? (seed 002, a comment: the product is rank deficient)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=4),
        Check("edge", "with O larger than I", 1, draw_wide),
        Check("edge", "with a head whose W_i is zeros", 2, draw_zeros),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "bound-for-rank",
            "The bound is given as the rank of every head: it says what is possible, and a head can have less.",
            {RANKS: "ranks = np.full(len(query_kernel), min(features, size))"},
            "seed 002, a comment",
        ),
        Wrong(
            "least-of-both-ranks",
            "The rank is taken to be the lower one of the two kernels' ranks: the product's can be lower than both.",
            {
                RANKS: "both = [np.linalg.svd(each, compute_uv=False) for each in (query_kernel, key_kernel)]\n"
                "    ranks = np.min([np.sum(each > tolerance * each[:, :1], axis=-1) for each in both], axis=0)"
            },
        ),
        Wrong(
            "rank-of-query-kernel",
            "The rank is that of the query's kernel: the key's has a say in the product too.",
            {SINGULAR: SINGULAR.replace("bilinear", "query_kernel")},
        ),
        Wrong(
            "tolerance-missing",
            "Every singular value that is not exactly 0 counts: rounding alone makes values near 1e-16 of the largest.",
            {COMPARED: "singular > 0"},
        ),
        Wrong(
            "tolerance-absolute",
            "The tolerance is compared with the singular values as they are: a head with small numbers loses its rank, "
            "one with large numbers gains some from rounding.",
            {COMPARED: "singular > tolerance"},
        ),
        Wrong(
            "largest-of-all-heads",
            "The largest singular value is that of all heads: a head of small numbers is measured by another one's.",
            {COMPARED: "singular > tolerance * singular.max()"},
        ),
        Wrong(
            "zeros-count",
            "In a W_i of zeros every singular value is as large as the bound, 0, and counts: it has rank 0.",
            {COMPARED: COMPARED.replace(">", ">=")},
        ),
        Wrong(
            "bound-is-size",
            "The bound is O even where O is larger than I: an (I, I) matrix has at most I independent columns.",
            {BOUND: "return size, ranks"},
        ),
        Wrong(
            "heads-together",
            "One rank is computed, of the heads' sum, and given to all: every head has its own W_i.",
            {PRODUCT: PRODUCT + "\n    bilinear = np.broadcast_to(bilinear.sum(axis=0), bilinear.shape)"},
        ),
    ),
)
