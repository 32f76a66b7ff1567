"""Checks of `full_width_heads`."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PARAMETERS = "parameters = 4 * num_heads * features * size"
PAIRS = "pairs = num_heads * positions * positions"
PAIR = "pair = 2 * features * size"
MULTIPLICATIONS = "positions * parameters + 2 * pairs * size"
SCORES = '"scores": pairs'
RANK = '"rank": size'
CHEAPEST = "min(pair, features**2)"
RETURN = 'return {"thin": cost(features // num_heads), "full": cost(features)}'


def draw(rng):
    """Draw pairwise different numbers, with several features for each of two heads or more."""
    positions, size, heads = sizes(rng, 3, least=3, most=20)
    return {"positions": positions, "features": heads * size, "num_heads": heads}


def draw_two(rng):
    """Draw two heads, for which W_i has as many parameters as a thin pair."""
    positions, size = sizes(rng, 2, least=3, most=20)
    return {"positions": positions, "features": 2 * size, "num_heads": 2}


def draw_one(rng):
    positions, features = sizes(rng, 2, least=3, most=20)
    return {"positions": positions, "features": features, "num_heads": 1}


def judge_times(inputs, result, expected):
    """Compare the two layers of the answer with each other."""
    thin, full = result["thin"], result["full"]
    for name in ("parameters", "multiplications", "rank"):
        if full[name] != inputs["num_heads"] * thin[name]:
            return f"{name!r} of the full heads is not num_heads times that of the thin ones."
    if full["scores"] != thin["scores"]:
        return "the numbers of scores differ, although both layers have as many heads and positions."
    return None


EXERCISE = Exercise(
    title="Heads as wide as the model",
    question="What does it cost if W^Q and W^K of each head have d_model × d_model elements? (seed 002, a comment on "
    "arXiv:1906.07510)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check(
            "invariants", "full heads cost num_heads times as much, and have as many scores", 2, draw, judge=judge_times
        ),
        *standard(draw, values=4),
        Check("edge", "two heads", 1, draw_two),
        Check("edge", "one head, which is as wide as the model anyway", 1, draw_one),
    ),
    wrong=(
        Wrong(
            "layers-exchanged",
            "You exchanged the two layers. Thin heads have the size I/H, full heads the size I.",
            {RETURN: 'return {"thin": cost(features), "full": cost(features // num_heads)}'},
        ),
        Wrong(
            "full-kernel-counted-once",
            "You counted one kernel of I × I for all full heads together. Every head has its own.",
            {RETURN: 'return {"thin": cost(features // num_heads), "full": cost(features // num_heads)}'},
            "seed 002",
        ),
        Wrong(
            "all-heads-in-each",
            "You took I × I for the kernel of each thin head. That is the kernel of all heads together; each head's own "
            "part of it is (I, O).",
            {RETURN: 'return {"thin": cost(features), "full": cost(features)}'},
            "seed 002, a comment",
        ),
        Wrong(
            "full-counts-squared",
            "You made the full heads H times too wide. They have I features each, not H · I.",
            {RETURN: RETURN.replace("cost(features)}", "cost(features * num_heads)}")},
        ),
        Wrong(
            "output-kernel-forgotten",
            "You left the output kernel out. It grows with the heads too: (H, O, I).",
            {PARAMETERS: PARAMETERS.replace("4 *", "3 *")},
        ),
        Wrong(
            "output-kernel-of-one-width",
            "You counted the output kernel as I × I. It receives all heads side by side, so it has H · O rows.",
            {PARAMETERS: "parameters = 3 * num_heads * features * size + features**2"},
        ),
        Wrong(
            "value-stays-thin",
            "You widened only query and key. Here value and output have full width too.",
            {PARAMETERS: "parameters = 2 * num_heads * features * size + 2 * features**2"},
            "seed 002, the comment names only W^Q and W^K",
        ),
        Wrong(
            "mix-forgotten",
            "You counted the multiplications of the scores, but not of the mix. The scores multiply the values too.",
            {MULTIPLICATIONS: MULTIPLICATIONS.replace("2 * pairs", "pairs")},
        ),
        Wrong(
            "scores-of-one-head",
            "You counted the scores and the mix of one head. All heads compute their own.",
            {PAIRS: "pairs = positions * positions"},
        ),
        Wrong(
            "projections-only",
            "You counted the projections only. The scores and the mix multiply too, and they grow with T².",
            {MULTIPLICATIONS: "positions * parameters"},
        ),
        Wrong(
            "positions-forgotten",
            "You counted the projections for one position. Each of the T positions goes through them.",
            {MULTIPLICATIONS: MULTIPLICATIONS.replace("positions * parameters", "parameters")},
        ),
        Wrong(
            "scores-have-features",
            "You counted the scores with O features each. A score is one number for a pair of positions.",
            {SCORES: '"scores": pairs * size'},
        ),
        Wrong(
            "rank-of-the-model",
            "You gave W_i the rank I in both layers. It is (I, I), but as the product of two thin matrices it cannot have "
            "a higher rank than their common size.",
            {RANK: '"rank": features'},
            "seed 002, a comment: the product is rank deficient",
        ),
        Wrong(
            "pair-of-full-heads",
            "You took the pair for the full heads too. There the pair and W_i can have the same ranks. Which of the two has "
            "fewer parameters?",
            {CHEAPEST: "pair"},
        ),
        Wrong(
            "bilinear-always",
            "You took W_i for the thin heads too. With more than two heads, the thin pair has fewer parameters.",
            {CHEAPEST: "features**2"},
            "seed 002: define only a W_i",
        ),
        Wrong(
            "one-matrix-of-the-pair",
            "You counted only one matrix of the pair. Query and key have a kernel each.",
            {PAIR: "pair = features * size"},
        ),
    ),
)
