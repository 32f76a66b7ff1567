"""The checks of `create_padding_mask`, with the other conventions."""

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

COMPARED, LAST = "allowed = np.not_equal(ids, 0)", "return allowed[:, None, :]"


def draw(rng):
    """Return sentences of different lengths, padded at the end, with ids from 1."""
    batch, positions = sizes(rng, 2, least=3)
    ids = rng.integers(1, 9, (batch, positions))
    ids[:, 0] = 1
    for sentence, length in zip(ids, rng.integers(1, positions + 1, batch), strict=True):
        sentence[length:] = 0
    ids[0, -1] = 0
    return {"ids": ids}


def draw_anywhere(rng):
    """Return sentences with padding in front and in between, one that is all padding, and an id beyond any small vocabulary."""
    batch, positions = sizes(rng, 2, least=4)
    ids = rng.integers(1, 9, (batch, positions))
    ids[rng.random(ids.shape) < 0.4] = 0
    ids[0, 0] = 0
    ids[0, 1:2] = 30_720
    ids[1:][-1:] = 0
    return {"ids": ids}


def draw_full(rng):
    """Return sentences without padding. The smallest id may be any."""
    return {"ids": rng.integers(1, 9, sizes(rng, 2, least=3)) + rng.integers(0, 3)}


EXERCISE = Exercise(
    title="The padding mask",
    question="Is a mask 1 at padding or 1 at words, and which axes does it have? (keras-team/keras-io#1046)",
    difficulty=1,
    minutes=8,
    checks=(
        *standard(draw, signature=1, shape=2, values=4, unchanged=1),
        Check("edge", "padding in front or in the middle is hidden too, and sentences of padding", 1, draw_anywhere),
        Check("edge", "without any padding, all is shown", 1, draw_full),
    ),
    wrong=(
        Wrong(
            "padding-is-smallest",
            "You take the smallest id for padding. Padding is 0, and sentences may have none.",
            {COMPARED: "allowed = ids != ids.min()"},
        ),
        Wrong(
            "padding-inverted",
            "Your mask is True at padding. True means *attend*, and nobody may attend to padding.",
            {COMPARED: "allowed = np.equal(ids, 0)"},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-as-numbers",
            "Your mask holds the numbers 1 and 0. Here masks are boolean, so that nobody adds them to logits by mistake.",
            {COMPARED: "allowed = np.not_equal(ids, 0).astype(float)"},
        ),
        Wrong(
            "mask-as-logits",
            "Your mask holds -1e9 and 0, which are for adding to logits. Here masks are boolean, and True means *attend*.",
            {COMPARED: "allowed = np.equal(ids, 0) * -1e9"},
        ),
        Wrong(
            "axis-missing",
            "Your mask is (B, S), without an axis for the queries. Beside scores (B, T, S), its batch axis would line up with the queries.",
            {LAST: "return allowed"},
        ),
        Wrong(
            "padding-on-queries",
            "You put the new axis at the end, (B, S, 1). That hides whole queries instead of keys.",
            {LAST: "return allowed[:, :, None]"},
            "lsdefine/attention-is-all-you-need-keras#16, hyunwoongko/transformer#40",
        ),
        Wrong(
            "axis-for-heads",
            "Your mask has an axis for the heads too, (B, 1, 1, S). Return (B, 1, S): Keras' layer adds the axis of the heads itself.",
            {LAST: "return allowed[:, None, None, :]"},
        ),
        Wrong(
            "padding-at-end-only",
            "You expect padding only at the end of a sentence. A 0 is padding wherever it stands.",
            {COMPARED: "allowed = np.arange(ids.shape[1]) < np.count_nonzero(ids, axis=1)[:, None]"},
        ),
        Wrong(
            "first-token-hidden",
            "You hide the token with id 1 too. Only 0 is padding.",
            {COMPARED: "allowed = np.greater(ids, 1)"},
        ),
        Wrong(
            "first-open",
            "You leave the first position of a sentence of padding visible. A 0 is padding wherever it stands.",
            {COMPARED: COMPARED + "\n    allowed[~allowed.any(axis=1), 0] = True"},
        ),
        Wrong(
            "padding-as-in-the-course",
            "Your mask is that of the course's first version: 1 at padding, in floats, with an axis for the heads. Here it "
            "is boolean, True at words, and (B, 1, S).",
            {COMPARED: "allowed = np.equal(ids, 0) * 1.0", LAST: "return allowed[:, None, None, :]"},
            "seed 000's course",
        ),
        Wrong(
            "padding-from-first-zero",
            "You hide everything from the first 0 on. Words can come after padding: look at each id by itself.",
            {COMPARED: "allowed = np.logical_and.accumulate(np.not_equal(ids, 0), axis=1)"},
        ),
        Wrong(
            "padding-on-both",
            "Your mask is (B, S, S), and hides the rows of padding too. It says only which keys may be attended to, so it "
            "has one row for all queries.",
            {LAST: "return allowed[:, None, :] & allowed[:, :, None]"},
        ),
    ),
)
