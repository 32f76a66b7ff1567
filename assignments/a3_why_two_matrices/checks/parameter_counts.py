"""What is checked of `parameter_counts`."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PAIR = "one_pair = 2 * features * size"
BILINEAR = "one_bilinear = features * features"
ALL = '"all_bilinears": one_bilinear * heads'
LARGEST = "(features - 1) // 2"


def draw(rng):
    """Heads, size and features, pairwise different."""
    features, size, heads = sizes(rng, 3, least=2, most=60)
    return {"features": features, "size": size, "heads": heads}


def draw_even(rng):
    """An even number of features, and the head size at which both cost the same."""
    size, heads = sizes(rng, 2, least=3, most=30)
    return {"features": 2 * size, "size": size, "heads": heads}


def draw_least(rng):
    """One feature or two: no pair costs less."""
    return {"features": int(rng.integers(1, 3)), "size": int(rng.integers(3, 6)), "heads": 2}


EXERCISE = Exercise(
    title="When two matrices cost less",
    question="Is it not inefficient to have two matrices of d_model · d_k elements each? (seed 002, the question)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=4),
        Check("edge", "with an even number of features, where both can cost the same", 3, draw_even),
        Check("edge", "with one feature or two, where no pair costs less", 1, draw_least),
    ),
    wrong=(
        Wrong(
            "one-matrix-of-the-pair",
            "Only one matrix of the pair is counted: query and key have a kernel each.",
            {PAIR: "one_pair = features * size"},
        ),
        Wrong(
            "all-heads-in-each",
            "The kernel of all heads together is counted for one head: a head's own part of it is (I, O).",
            {PAIR: PAIR + " * heads"},
            "seed 002, a comment: W^Q and W^K of d_model × d_model for every head",
        ),
        Wrong(
            "one-bilinear-for-all-heads",
            "There is one W for all heads: then all heads would have the same logits. Each needs its own.",
            {ALL: ALL.replace(" * heads", "")},
            "seed 002, an answer: several heads bring the number of parameters back up",
        ),
        Wrong(
            "bilinear-of-head-size",
            "W_i is counted as (O, O): its rows and columns are the features of the layer's inputs.",
            {BILINEAR: "one_bilinear = size * size"},
        ),
        Wrong(
            "tie-counts-as-cheaper",
            "A head size at which both cost the same is counted as cheaper: with an even I there is one.",
            {LARGEST: "features // 2"},
        ),
        Wrong(
            "break-even-of-one-matrix",
            "The largest cheaper size compares one matrix of the pair with W_i: the pair has two.",
            {LARGEST: "features - 1"},
        ),
        Wrong(
            "break-even-with-heads",
            "The number of heads is on one side of the comparison only: H pairs stand against H matrices W_i.",
            {LARGEST: "(features - 1) // (2 * heads)"},
        ),
        Wrong(
            "usual-size-for-break-even",
            "The usual size I / H is given as the largest cheaper one: it is a convention, and has nothing to do with "
            "where both cost the same.",
            {LARGEST: "features // heads"},
            "seed 002, the answers: d_k = d_model / h",
        ),
    ),
)
