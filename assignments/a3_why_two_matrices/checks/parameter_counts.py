"""Checks of `parameter_counts`."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PAIR = "one_pair = 2 * features * size"
BILINEAR = "one_bilinear = features * features"
ALL = '"all_bilinears": one_bilinear * heads'
LARGEST = "(features - 1) // 2"


def draw(rng):
    """Draw pairwise different numbers of heads, sizes and features."""
    features, size, heads = sizes(rng, 3, least=2, most=60)
    return {"features": features, "size": size, "heads": heads}


def draw_even(rng):
    """Draw an even number of many features, and the head size at which both cost the same."""
    size, heads = sizes(rng, 2, least=3, most=30)
    return {"features": 100 * size, "size": 50 * size, "heads": heads}


def draw_least(rng):
    """Draw one or two features, for which no pair costs less."""
    return {"features": int(rng.integers(1, 3)), "size": int(rng.integers(3, 6)), "heads": 2}


def even_and_odd(answer, inputs):
    """Call with the even number of features and with the odd one after it, for which both never cost the same."""
    more = {**inputs, "features": inputs["features"] + 1}
    return [answer.parameter_counts(**inputs), answer.parameter_counts(**more)]


EXERCISE = Exercise(
    title="When do two matrices cost less?",
    question="Is it not inefficient to have two matrices of d_model · d_k elements each? (seed 002, the question)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=4),
        Check(
            "edge",
            "many features: an even number, for which both can cost the same, and an odd one",
            3,
            draw_even,
            even_and_odd,
        ),
        Check("edge", "one or two features, for which no pair costs less", 1, draw_least),
    ),
    wrong=(
        Wrong(
            "one-matrix-of-the-pair",
            "You counted only one matrix of the pair. Query and key have a kernel each.",
            {PAIR: "one_pair = features * size"},
        ),
        Wrong(
            "all-heads-in-each",
            "You counted the kernel of all heads together for one head. Each head's own part of it is (I, O).",
            {PAIR: PAIR + " * heads"},
            "seed 002, a comment: W^Q and W^K of d_model × d_model for every head",
        ),
        Wrong(
            "one-bilinear-for-all-heads",
            "You counted one W for all heads. Then all heads would have the same logits; each needs its own W_i.",
            {ALL: ALL.replace(" * heads", "")},
            "seed 002, an answer: several heads bring the number of parameters back up",
        ),
        Wrong(
            "bilinear-of-head-size",
            "You counted W_i as (O, O). Its rows and columns are the features of the layer's inputs: it is (I, I).",
            {BILINEAR: "one_bilinear = size * size"},
        ),
        Wrong(
            "tie-counts-as-cheaper",
            "You counted a head size at which both cost the same as cheaper. If I is even, there is such a size.",
            {LARGEST: "features // 2"},
        ),
        Wrong(
            "half-less-one",
            "You subtract one from half of I. That is right if I is even. If I is odd, I / 2 is not an integer, and "
            "you leave out a size that is cheaper.",
            {LARGEST: "max(features // 2 - 1, 0)"},
        ),
        Wrong(
            "half-less-one-negative",
            "You subtract one from half of I. That is right if I is even. If I is odd, I / 2 is not an integer, and "
            "you leave out a size that is cheaper; for I = 1 the result is even negative.",
            {LARGEST: "features // 2 - 1"},
        ),
        Wrong(
            "break-even-of-one-matrix",
            "For the largest cheaper size, you compared one matrix of the pair with W_i. The pair has two.",
            {LARGEST: "features - 1"},
        ),
        Wrong(
            "break-even-with-heads",
            "You put the number of heads on only one side of the comparison. H pairs stand against H matrices W_i.",
            {LARGEST: "(features - 1) // (2 * heads)"},
        ),
        Wrong(
            "usual-size-for-break-even",
            "You returned the usual size I / H as the largest cheaper size. It is only a convention; compare the two "
            "costs.",
            {LARGEST: "features // heads"},
            "seed 002, the answers: d_k = d_model / h",
        ),
        Wrong(
            "sizes-tried-up-to-some",
            "You try head sizes, but not all of them. The largest one can be nearly half of I, however large I is.",
            {LARGEST: "max((o for o in range(64) if 2 * o < features), default=0)"},
        ),
    ),
)
