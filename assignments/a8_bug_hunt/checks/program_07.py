"""The checks of `program_07`. The mistake in it is `causal-wrong-corner`."""

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "causal-wrong-corner"
TRIANGLE = "np.tri(rows, columns, dtype=bool)"


def arrays(rng, longer):
    """Return inputs in which T and S differ by at least two; `longer` decides whether there are more queries than keys."""
    batch, heads, size, few, more = sizes(rng, 5, least=3)
    few, more = sorted((few, more))
    rows, columns = (more + 2, few) if longer else (few, more + 2)
    query = rng.normal(size=(batch, heads, rows, size))
    query[::2] *= 100  # so that no finite number but a very negative one hides a logit
    key, value = (rng.normal(size=(batch, heads, columns, size)) for _ in range(2))
    return {"query": query, "key": key, "value": value}


def draw(rng):
    """Return fewer queries than keys."""
    return arrays(rng, longer=False)


def more_queries(rng):
    return arrays(rng, longer=True)


def trial(inputs):
    """Return the call for the bank."""
    return Trial("asked", inputs["query"], inputs["key"], inputs["value"], causal=True, fill=-1e9)


EXERCISE = Exercise(
    title="Program 7: a causal mask that is not square",
    question="Which corner is a causal mask aligned to when T and S differ? (pytorch/pytorch#103082, ml-explore/mlx#2835, Dao-AILab/flash-attention#517, NVIDIA/cutlass#2336)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1, tolerance=EXACT),
        Check("edge", "more queries than keys", 1, more_queries),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "causal-wrong-corner",
            NOT_FIXED,
            {TRIANGLE: "np.tri(rows, columns, columns - rows, dtype=bool)"},
            "pytorch/pytorch#103082, ml-explore/mlx#2835, Dao-AILab/flash-attention#517, NVIDIA/cutlass#2336",
        ),
        Wrong(
            "causal-corner-moved-twice",
            "You shifted the triangle to the other side. With fewer queries than keys, the first queries see nothing.",
            {TRIANGLE: "np.tri(rows, columns, rows - columns, dtype=bool)"},
        ),
        Wrong(
            "causal-moved-with-more-queries",
            "You shift the triangle to the other side if there are more queries than keys. It should not be shifted then "
            "either.",
            {TRIANGLE: "np.tri(rows, columns, max(rows - columns, 0), dtype=bool)"},
        ),
        Wrong(
            "causal-right-with-more-keys",
            "You no longer shift the triangle if there are more keys than queries. With more queries than keys you still "
            "do, and the first queries see nothing.",
            {TRIANGLE: "np.tri(rows, columns, min(columns - rows, 0), dtype=bool)"},
        ),
        Wrong(
            "causal-never-negative",
            "You shift the triangle only if there are more keys than queries. It should not be shifted then either.",
            {TRIANGLE: "np.tri(rows, columns, max(columns - rows, 0), dtype=bool)"},
        ),
        Wrong(
            "causal-strict",
            "A position does not see itself: you wrote s < t instead of s ≤ t.",
            {TRIANGLE: "np.tri(rows, columns, -1, dtype=bool)"},
            "pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965",
        ),
        Wrong(
            "causal-one-ahead",
            "A position sees the next one: you wrote s ≤ t + 1 instead of s ≤ t.",
            {TRIANGLE: "np.tri(rows, columns, 1, dtype=bool)"},
            "asked in pytorch/tutorials#2250",
        ),
        Wrong(
            "causal-reversed",
            "You hide the past instead of the future: the triangle is transposed.",
            {TRIANGLE: "np.tri(columns, rows, dtype=bool).T"},
            "pytorch/examples#649",
        ),
        Wrong(
            "causal-missing",
            "Your program no longer hides anything.",
            {TRIANGLE: "np.ones((rows, columns), dtype=bool)"},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "fill-too-small",
            "Your number for hidden logits is not negative enough: visible logits can be far below zero too.",
            {"= -1e9": "= -30.0"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
