"""What is checked of `cross_mask`, and the masks that are taken in its place."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

RIGHT = "np.expand_dims(source != padding, axis=1)"


def filled(rng, batch, positions, padding, before):
    """Sentences of different lengths, none empty, and filled up."""
    tokens = rng.integers(5, 30, size=(batch, positions))
    lengths = rng.integers(1, max(positions, 2), size=batch)
    hidden = np.arange(positions) >= lengths[:, None]
    return np.where(hidden[:, ::-1] if before else hidden, padding, tokens)


def some(rng, padding, before):
    batch, rows, columns = sizes(rng, 3, least=3)
    source = filled(rng, batch, columns, padding, before)
    return {"source": source, "target": filled(rng, batch, rows, padding, before), "padding": padding}


def draw(rng):
    return some(rng, 0, before=False)


def draw_before(rng):
    return some(rng, 0, before=True)


def draw_other(rng):
    """Another padding token than 0, and 0 as a word."""
    found = some(rng, int(rng.integers(1, 4)), before=False)
    found["source"][:, 0] = 0
    return found


def attended(answer, inputs):
    """Attention with the mask, before and after the source's padding has other contents."""
    rng = np.random.default_rng(1)
    source, target = inputs["source"], inputs["target"]
    query, key = rng.normal(size=(*target.shape, 6)), rng.normal(size=(*source.shape, 6))
    mask = np.asarray(answer.cross_mask(**inputs))
    outputs = []
    for noise in (0.0, 1.0):
        changed = key + noise * (source == inputs["padding"])[:, :, None]
        logits = np.where(mask, query @ np.swapaxes(changed, 1, 2), -np.inf)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        outputs.append(powers / powers.sum(axis=-1, keepdims=True) @ changed)
    return outputs


def same(inputs, result, expected):
    if not np.all(np.isfinite(result[0])):
        return "with this mask some query has nothing to attend to, and its output is NaN."
    if not np.allclose(result[0], result[1]):
        return "the output changes when other numbers stand at the source's padding."
    return None


EXERCISE = Exercise(
    title="The mask of the decoder's second attention",
    question="Which mask belongs to the second attention: look-ahead, the target's padding, the source's? (seed 000's "
    "course; keras-team/keras-io#1046)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=3, unchanged=1),
        Check("edge", "sentences that are filled up at their beginning", 1, draw_before),
        Check("edge", "another padding token than 0", 1, draw_other),
        Check("invariants", "what stands at the source's padding makes no difference", 2, draw, attended, same),
    ),
    wrong=(
        Wrong(
            "padding-of-query-for-keys",
            "The mask is made of the target: its padding says nothing about source positions, of which there are "
            "another number.",
            {RIGHT: "(target != padding)[:, None, :]"},
            "keras-team/keras-io#1046, fchollet/deep-learning-with-python-notebooks#209",
        ),
        Wrong(
            "padding-inverted",
            "The mask is inverted: here True means attend.",
            {"source != padding": "source == padding"},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "causal-always",
            "A look-ahead mask is laid over it: the source has no future, every target position may see all of it.",
            {RIGHT: RIGHT + " & np.tril(np.ones((target.shape[1], source.shape[1]), bool))"},
            "zhouhaoyi/Informer2020#38",
        ),
        Wrong(
            "padding-on-queries",
            "The source's padding is laid along the queries' axis, (B, S, 1): whole rows are hidden in place "
            "of columns.",
            {", axis=1)": ", axis=2)"},
            "lsdefine/attention-is-all-you-need-keras#16",
        ),
        Wrong(
            "padding-of-both",
            "The target's padding hides rows: queries at padding have nothing to attend to. What they give is "
            "not read, "
            "and their softmax has nothing to divide by.",
            {RIGHT: RIGHT + " & (target != padding)[:, :, None]"},
        ),
        Wrong(
            "without-query-axis",
            "The mask is (B, S): there is no axis for the query positions, along which it is to be the same.",
            {RIGHT: "source != padding"},
        ),
        Wrong(
            "head-axis-too",
            "The mask has an axis for heads as well, (B, 1, 1, S), as that of a course: here it has three axes.",
            {", axis=1)": ", axis=(1, 2))"},
            "seed 000's course",
        ),
        Wrong(
            "padding-is-zero",
            "The tokens are compared with 0, whatever the padding token is.",
            {"source != padding": "source != 0"},
        ),
        Wrong(
            "padding-at-the-end",
            "Words are counted and that many first positions allowed: a sentence may be filled up at its beginning.",
            {
                RIGHT: "(np.arange(source.shape[1]) < (source != padding).sum(axis=1)[:, None])[:, None, :]",
            },
            "the lengths of d2l-ai/d2l-en",
        ),
        Wrong(
            "mask-as-floats",
            "The mask is of floats: boolean is asked for, where True cannot be read the other way round.",
            {RIGHT: RIGHT + " * 1.0"},
        ),
    ),
)
