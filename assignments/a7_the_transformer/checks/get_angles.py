"""What is checked of `get_angles`, and how exponents go wrong."""

import numpy as np

from kmha.course.exercises import Exercise, Wrong, sizes, standard

PAIR, POWER, LAST = "pair = k // 2", "power = np.power(10000.0, 2 * pair / d)", "return positions / power"


def draw(rng):
    """Some positions and some features of an embedding that has more of them."""
    count, features, more = sizes(rng, 3, least=3)
    d = features + more
    return {
        "positions": np.sort(rng.choice(60, count, replace=False))[:, None],
        "k": np.sort(rng.choice(d, features, replace=False))[None, :],
        "d": d,
    }


EXERCISE = Exercise(
    title="The angles of the positional encoding",
    question="Why does the code halve k where the formula has 2i? (jadore801120/attention-is-all-you-need-pytorch#32)",
    difficulty=1,
    minutes=8,
    checks=standard(draw, signature=1, shape=2, values=6, unchanged=1),
    wrong=(
        Wrong(
            "positions-exponent-per-feature",
            "The exponent is k/d for each feature: then sine and cosine of a pair have different angles. A pair's two "
            "features share one.",
            {POWER: "power = np.power(10000.0, k / d)"},
            "maxjcohen/transformer#62",
        ),
        Wrong(
            "positions-exponent-doubled-per-feature",
            "The exponent is 2k/d: it runs from 0 to nearly 2. In the formula 2i stands for the even feature itself; k "
            "is 2i or 2i + 1 already.",
            {POWER: "power = np.power(10000.0, 2 * k / d)"},
            "jadore801120/attention-is-all-you-need-pytorch#32, shenweichen/DeepCTR#379, Kyubyong/transformer#38, SamLynnEvans/Transformer#25",
        ),
        Wrong(
            "positions-exponent-halved",
            "The exponent is i/d: it runs from 0 to a half only. The formula's is twice as large.",
            {POWER: "power = np.power(10000.0, pair / d)"},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-exponent-positive",
            "The positions are multiplied by the power: the angles grow with the feature. They must shrink.",
            {LAST: "return positions * power"},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-base-1000",
            "What is raised to a power is 1,000 here; the formula has 10,000.",
            {POWER: POWER.replace("10000.0", "1000.0")},
            "maxjcohen/transformer#62",
        ),
        Wrong(
            "width-from-features",
            "The exponent is divided by the number of features in `k`: `d` is given, for `k` need not hold all.",
            {POWER: "power = np.power(10000.0, 2 * pair / k.shape[-1])"},
        ),
        Wrong(
            "exponent-whole-number",
            "The exponent is rounded down to a whole number, 0: // belongs to the pair, not to the division by d.",
            {POWER: "power = np.power(10000.0, 2 * pair // d)"},
            "zju3dv/LoFTR#41",
        ),
        Wrong(
            "positions-exponent-width-minus-one",
            "The exponent is divided by d - 1, so that it would end at 1: the formula divides by d.",
            {POWER: "power = np.power(10000.0, 2 * pair / (d - 1))"},
            "Vaswani et al. 2017, section 3.5",
        ),
    ),
)
