"""The checks of `program_06`. The mistake in it is `causal-strict`."""

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "causal-strict"
HIDDEN = "hidden = steps[:, None] < steps"


def draw(rng):
    batch, heads, positions, size = sizes(rng, 4, least=3)
    query, key, value = (rng.normal(size=(batch, heads, positions, size)) for _ in range(3))
    query[::2] *= 100  # so that no finite number but a very negative one hides a logit
    return {"query": query, "key": key, "value": value}


def trial(inputs):
    """Return the call for the bank."""
    return Trial("asked", inputs["query"], inputs["key"], inputs["value"], causal=True, fill=-1e9)


EXERCISE = Exercise(
    title="Program 6: a softmax in logarithms",
    question="Why does the first position attend to everything? (pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "causal-strict",
            NOT_FIXED,
            {HIDDEN: "hidden = steps[:, None] <= steps"},
            "pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965",
        ),
        Wrong(
            "causal-one-ahead",
            "Each position now sees the next one: you corrected by one too much.",
            {HIDDEN: "hidden = steps[:, None] + 1 < steps"},
            "asked in pytorch/tutorials#2250",
        ),
        Wrong(
            "causal-reversed",
            "You hide the past instead of the future. Rows are queries, and columns are keys.",
            {HIDDEN: "hidden = steps[:, None] > steps"},
            "pytorch/examples#649",
        ),
        Wrong(
            "causal-inverted",
            "You hide what should be attended to, so only the future is left.",
            {HIDDEN: "hidden = steps[:, None] >= steps"},
            "harvard-edge/cs249r_book#1785",
        ),
        Wrong(
            "causal-itself-only",
            "Each position sees only itself. It should see the past too.",
            {HIDDEN: "hidden = steps[:, None] != steps"},
        ),
        Wrong(
            "causal-missing",
            "Your program no longer hides anything, so positions attend to the future.",
            {HIDDEN: "hidden = np.zeros((len(steps), len(steps)), bool)"},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "causal-two-before-first",
            "You fixed the first position by hand. All other positions still do not see themselves.",
            {HIDDEN: "hidden = (steps[:, None] <= steps) & ((steps[:, None] > 0) | (steps > 0))"},
        ),
        Wrong(
            "fill-too-small",
            "Your number for hidden logits is not negative enough: visible logits can be far below zero too.",
            {"np.where(hidden, -1e9, logits)": "np.where(hidden, -30.0, logits)"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
