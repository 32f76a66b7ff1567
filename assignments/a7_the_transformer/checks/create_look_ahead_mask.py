"""The checks of `create_look_ahead_mask`, with the triangles that hide something else."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

COMPARED, LAST = "allowed = position[None, :] <= position[:, None]", "return allowed[None]"


def draw(rng):
    """Return a length."""
    (length,) = sizes(rng, 1, least=3, most=9)
    return {"length": length}


def draw_long(rng):
    """Return a length of dozens of tokens."""
    return {"length": int(rng.integers(40, 90))}


def draw_shortest(rng):
    """Return a length of one or two tokens."""
    return {"length": int(rng.integers(1, 3))}


EXERCISE = Exercise(
    title="The look-ahead mask",
    question="Does position t see itself, and on which side of the diagonal is the future? (pytorch/pytorch#143287, "
    "pytorch/examples#649, pytorch/tutorials#2250)",
    difficulty=1,
    minutes=8,
    checks=(
        *standard(draw, signature=1, shape=2, values=4),
        Check("edge", "sentences of dozens of tokens", 1, draw_long),
        Check("edge", "sentences of one and of two tokens", 2, draw_shortest),
    ),
    wrong=(
        Wrong(
            "causal-strict",
            "A position does not see itself: you wrote s < t, so the first position has nothing to attend to. The input is already shifted, so a position itself is not the future.",
            {COMPARED: COMPARED.replace("<=", "<")},
            "pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965",
        ),
        Wrong(
            "causal-one-ahead",
            "Each position sees the next one, s ≤ t + 1. That is the word that it should predict.",
            {COMPARED: COMPARED + "\n    allowed = position[None, :] <= position[:, None] + 1"},
            "asked in pytorch/tutorials#2250",
        ),
        Wrong(
            "causal-reversed",
            "Your triangle is the upper one: it hides the past and shows the future. Rows are queries, and columns are keys.",
            {COMPARED: COMPARED.replace("<=", ">=")},
            "pytorch/examples#649",
        ),
        Wrong(
            "causal-inverted",
            "Your mask is True where a key should be hidden. True means *attend*.",
            {COMPARED: COMPARED.replace("<=", ">")},
            "harvard-edge/cs249r_book#1785",
        ),
        Wrong(
            "causal-itself-only",
            "Your mask opens only the diagonal: each position sees itself, but not what came before.",
            {COMPARED: COMPARED.replace("<=", "==")},
            "Vaswani et al. 2017, section 3.2.3",
        ),
        Wrong(
            "causal-missing",
            "Your mask opens everything, so positions see the future.",
            {COMPARED: "allowed = np.ones((length, length), bool)"},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "mask-as-numbers",
            "Your mask holds the numbers 1 and 0. Here masks are boolean.",
            {LAST: "return allowed[None].astype(float)"},
        ),
        Wrong(
            "axis-missing",
            "Your mask has no axis for the batch. Return (1, T, T).",
            {LAST: "return allowed"},
        ),
    ),
)
