"""What is checked of `create_padding_mask`, and the other conventions."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

COMPARED, LAST = "allowed = np.not_equal(ids, 0)", "return allowed[:, None, :]"


def draw(rng):
    """Sentences of different lengths, padded at their end; ids from 1."""
    batch, positions = sizes(rng, 2, least=3)
    ids = rng.integers(1, 9, (batch, positions))
    ids[:, 0] = 1
    for sentence, length in zip(ids, rng.integers(1, positions + 1, batch), strict=True):
        sentence[length:] = 0
    ids[0, -1] = 0
    return {"ids": ids}


def draw_anywhere(rng):
    """Padding in front and in between."""
    batch, positions = sizes(rng, 2, least=4)
    ids = rng.integers(1, 9, (batch, positions))
    ids[rng.random(ids.shape) < 0.4] = 0
    ids[0, 0] = 0
    return {"ids": ids}


EXERCISE = Exercise(
    title="The padding mask",
    question="Is a mask 1 at padding or 1 at words, and which axes has it? (keras-team/keras-io#1046)",
    difficulty=1,
    minutes=8,
    checks=(
        *standard(draw, signature=1, shape=2, values=4, unchanged=1),
        Check("edge", "padding in front or in the middle is hidden too", 2, draw_anywhere),
    ),
    wrong=(
        Wrong(
            "padding-inverted",
            "The mask is True at padding: True means that a position may be attended, and padding may not.",
            {COMPARED: "allowed = np.equal(ids, 0)"},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-as-numbers",
            "The mask holds numbers, 1 and 0: here masks are boolean, so that nobody adds them to logits by mistake.",
            {COMPARED: "allowed = np.not_equal(ids, 0).astype(float)"},
        ),
        Wrong(
            "mask-as-logits",
            "The mask holds what would be added to logits, -1e9 and 0: here masks are boolean, True at what may be "
            "attended.",
            {COMPARED: "allowed = np.equal(ids, 0) * -1e9"},
        ),
        Wrong(
            "axis-missing",
            "The mask has no axis for the queries, (B, S): against scores (B, T, S) the batch would meet the queries.",
            {LAST: "return allowed"},
        ),
        Wrong(
            "padding-on-queries",
            "The new axis is at the end, (B, S, 1): that hides whole queries, not keys.",
            {LAST: "return allowed[:, :, None]"},
            "lsdefine/attention-is-all-you-need-keras#16, hyunwoongko/transformer#40",
        ),
        Wrong(
            "axis-for-heads",
            "The mask has an axis for the heads too, (B, 1, 1, S): (B, 1, S) is asked for, and Keras' layer puts the "
            "heads in by itself.",
            {LAST: "return allowed[:, None, None, :]"},
        ),
        Wrong(
            "padding-at-end-only",
            "Padding is taken to be at the end of a sentence: a 0 is padding wherever it stands.",
            {COMPARED: "allowed = np.arange(ids.shape[1]) < np.count_nonzero(ids, axis=1)[:, None]"},
        ),
        Wrong(
            "first-token-hidden",
            "The token with id 1 is hidden too: only 0 is padding.",
            {COMPARED: "allowed = np.greater(ids, 1)"},
        ),
    ),
)
