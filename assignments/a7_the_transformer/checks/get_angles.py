"""The checks of `get_angles`, with the usual mistakes in the exponent."""

import numpy as np

from kmha.course.exercises import Exercise, Wrong, sizes, standard

PAIR, POWER, LAST = "pair = k // 2", "power = np.power(10000.0, 2 * pair / d)", "return positions / power"


def draw(rng):
    """Return some of the positions and features of a larger embedding."""
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
            "Your exponent is k/d for each feature, so sine and cosine of a pair have different angles. The two features of a pair share one angle.",
            {POWER: "power = np.power(10000.0, k / d)"},
            "maxjcohen/transformer#62",
        ),
        Wrong(
            "positions-exponent-doubled-per-feature",
            "Your exponent is 2k/d, which runs from 0 to nearly 2. In the formula, 2i is the even feature itself; k is already 2i or 2i + 1.",
            {POWER: "power = np.power(10000.0, 2 * k / d)"},
            "jadore801120/attention-is-all-you-need-pytorch#32, shenweichen/DeepCTR#379, Kyubyong/transformer#38, SamLynnEvans/Transformer#25",
        ),
        Wrong(
            "positions-exponent-halved",
            "Your exponent is i/d, which runs only from 0 to a half. The formula's is twice as large.",
            {POWER: "power = np.power(10000.0, pair / d)"},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-exponent-positive",
            "You multiply the positions by the power, so the angles grow with the feature. They must shrink.",
            {LAST: "return positions * power"},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "positions-base-1000",
            "You raise 1,000 to a power. The formula has 10,000.",
            {POWER: POWER.replace("10000.0", "1000.0")},
            "maxjcohen/transformer#62",
        ),
        Wrong(
            "width-from-features",
            "You divide the exponent by the number of features in `k`. Divide by `d`, because `k` may hold only some of the features.",
            {POWER: "power = np.power(10000.0, 2 * pair / k.shape[-1])"},
        ),
        Wrong(
            "exponent-whole-number",
            "You round the exponent down to the whole number 0. Use // for the pair, not for the division by d.",
            {POWER: "power = np.power(10000.0, 2 * pair // d)"},
            "zju3dv/LoFTR#41",
        ),
        Wrong(
            "positions-exponent-width-minus-one",
            "You divide the exponent by d - 1, so that it ends at 1. The formula divides by d.",
            {POWER: "power = np.power(10000.0, 2 * pair / (d - 1))"},
            "Vaswani et al. 2017, section 3.5",
        ),
        Wrong(
            "pair-by-remainder",
            "You take the remainder k % 2, which tells sine from cosine. The pair of a feature is how many pairs come "
            "before it.",
            {PAIR: "pair = k % 2"},
        ),
        Wrong(
            "positions-numbered-anew",
            "You number the rows 0, 1, 2 and so on. `positions` may hold other numbers, or only some: use the numbers "
            "in it.",
            {LAST: "return np.arange(len(positions))[:, None] / power"},
        ),
        Wrong(
            "features-numbered-anew",
            "You number the columns 0, 1, 2 and so on. `k` may hold only some of the features: use the numbers in it.",
            {PAIR: "pair = np.arange(k.shape[1]) // 2"},
        ),
        Wrong(
            "positions-sines-taken",
            "You take the sine of the angles. Return the angles: sines and cosines come in the next exercise.",
            {LAST: "return np.sin(positions / power)"},
        ),
        Wrong(
            "sines-and-cosines-taken",
            "You take sines and cosines. Return the angles: sines and cosines come in the next exercise.",
            {
                LAST: "angles = positions / power\n"
                "    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])\n"
                "    return angles"
            },
        ),
        Wrong(
            "power-divided-by-width",
            "You divide the power by d. `a ** b / c` is `(a ** b) / c`: the exponent needs brackets around it.",
            {POWER: "power = np.power(10000.0, 2 * pair) / d"},
        ),
        Wrong(
            "rows-and-columns-numbered-anew",
            "You number rows and columns 0, 1, 2 and so on. `positions` and `k` may hold other numbers, or only some: use "
            "the numbers in them.",
            {PAIR: "pair = np.arange(k.shape[1]) // 2", LAST: "return np.arange(len(positions))[:, None] / power"},
        ),
    ),
)
