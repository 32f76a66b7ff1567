"""The checks of `program_15`. The mistake in it is `positions-exponent-doubled-per-feature`."""

from kmha.course.exercises import Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, mistake_is_named

MISTAKE = "positions-exponent-doubled-per-feature"
EXPONENT = "(2 * (feature // 2) / width)"
ENCODING = "np.where(feature % 2 == 0, np.sin(angle), np.cos(angle))"


def draw(rng):
    batch, positions, pairs, tokens = sizes(rng, 4, least=3)
    return {
        "ids": rng.integers(0, tokens, size=(batch, positions)),
        "table": rng.normal(scale=0.1, size=(tokens, 2 * pairs)),
    }


EXERCISE = Exercise(
    title="Program 15: tokens and positions",
    question="Why is half of the positional encoding the same at all positions? (jadore801120/attention-is-all-you-need-pytorch#32, shenweichen/DeepCTR#379, Kyubyong/transformer#38, SamLynnEvans/Transformer#25)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "positions-exponent-doubled-per-feature",
            NOT_FIXED,
            {EXPONENT: "(2 * feature / width)"},
            "jadore801120/attention-is-all-you-need-pytorch#32, shenweichen/DeepCTR#379, Kyubyong/transformer#38, SamLynnEvans/Transformer#25",
        ),
        Wrong(
            "positions-exponent-per-feature",
            "Your exponents stay below 1 now, but sine and cosine of a pair still have different ones.",
            {EXPONENT: "(feature / width)"},
            "maxjcohen/transformer#62",
        ),
        Wrong(
            "positions-exponent-halved",
            "Sine and cosine of a pair agree now, but your exponents end before 1/2: the 2 of 2i is missing.",
            {EXPONENT: "(feature // 2 / width)"},
        ),
        Wrong(
            "positions-exponent-doubled",
            "Sine and cosine of a pair agree now, but your exponents still run up to 2: you double 2i once more.",
            {EXPONENT: "(4 * (feature // 2) / width)"},
            "SamLynnEvans/Transformer#25",
        ),
        Wrong(
            "positions-exponent-from-one",
            "You count the pairs from 1, so the fastest frequency is missing.",
            {EXPONENT: "(2 * (feature // 2 + 1) / width)"},
        ),
        Wrong(
            "positions-exponent-cosine-next",
            "Your cosines have the next pair's exponent: you rounded an odd number up to the next even one.",
            {EXPONENT: "((feature + feature % 2) / width)"},
            "YutaroOgawa/pytorch_advanced#79",
        ),
        Wrong(
            "positions-halves",
            "Your exponents are right. But your sines fill the first half of the features and your cosines the second; here they alternate.",
            {ENCODING: "np.concatenate([np.sin(angle[:, ::2]), np.cos(angle[:, ::2])], axis=1)"},
            "tensorflow/text#1122, tatp22/multidim-positional-encoding#20, tensorflow/tensor2tensor#1925",
        ),
    ),
)
