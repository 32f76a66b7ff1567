"""What is checked of `create_look_ahead_mask`, and the triangles that hide something else."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

COMPARED, LAST = "allowed = position[None, :] <= position[:, None]", "return allowed[None]"


def draw(rng):
    """A length."""
    (length,) = sizes(rng, 1, least=3, most=9)
    return {"length": length}


def draw_shortest(rng):
    """One token or two."""
    return {"length": int(rng.integers(1, 3))}


EXERCISE = Exercise(
    title="The look-ahead mask",
    question="Does position t see itself, and on which side of the diagonal is the future? (pytorch/pytorch#143287, "
    "pytorch/examples#649, pytorch/tutorials#2250)",
    difficulty=1,
    minutes=8,
    checks=(
        *standard(draw, signature=1, shape=2, values=5),
        Check("edge", "sentences of one and of two tokens", 2, draw_shortest),
    ),
    wrong=(
        Wrong(
            "causal-strict",
            "A position does not see itself, s < t: then the first one has nothing to attend to. The input is shifted "
            "already, so itself is not the future.",
            {COMPARED: COMPARED.replace("<=", "<")},
            "pytorch/pytorch#143287, RVC-Boss/GPT-SoVITS#965",
        ),
        Wrong(
            "causal-one-ahead",
            "Each position sees the next one, s ≤ t + 1: that is the word it is to predict.",
            {COMPARED: COMPARED + "\n    allowed = position[None, :] <= position[:, None] + 1"},
            "asked in pytorch/tutorials#2250",
        ),
        Wrong(
            "causal-reversed",
            "The triangle is the upper one: the past is hidden and the future seen. Rows are queries, columns keys.",
            {COMPARED: COMPARED.replace("<=", ">=")},
            "pytorch/examples#649",
        ),
        Wrong(
            "causal-inverted",
            "True stands where a key is to be hidden: True means that it may be attended.",
            {COMPARED: COMPARED.replace("<=", ">")},
            "harvard-edge/cs249r_book#1785",
        ),
        Wrong(
            "causal-itself-only",
            "Only the diagonal is open: each position sees itself alone, and not what came before it.",
            {COMPARED: COMPARED.replace("<=", "==")},
            "Vaswani et al. 2017, section 3.2.3",
        ),
        Wrong(
            "causal-missing",
            "Everything is open: the future is seen.",
            {COMPARED: "allowed = np.ones((length, length), bool)"},
            "LiamMaclean216/Pytorch-Transfomer#1",
        ),
        Wrong(
            "mask-as-numbers",
            "The mask holds numbers, 1 and 0: here masks are boolean.",
            {LAST: "return allowed[None].astype(float)"},
        ),
        Wrong(
            "axis-missing",
            "The mask has no axis for the batch: (1, T, T) is asked for.",
            {LAST: "return allowed"},
        ),
    ),
)
