"""Checks of `cross_mask`, and the masks that people use instead."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

RIGHT = "np.expand_dims(source != padding, axis=1)"


def padded(rng, batch, positions, padding, before):
    """Return non-empty sentences of different lengths, filled up with padding. Some may have none."""
    tokens = rng.integers(5, 30, size=(batch, positions))
    lengths = rng.integers(1, positions + 1, size=batch)
    hidden = np.arange(positions) >= lengths[:, None]
    return np.where(hidden[:, ::-1] if before else hidden, padding, tokens)


def draw_inputs(rng, padding, before, square=False):
    batch, rows, columns = sizes(rng, 3, least=3)
    rows = columns if square else rows
    source = padded(rng, batch, columns, padding, before)
    return {"source": source, "target": padded(rng, batch, rows, padding, before), "padding": padding}


def draw(rng):
    return draw_inputs(rng, 0, before=False)


def draw_before(rng):
    """Draw sentences with padding at the beginning, and with T = S, so that no shape tells source from target."""
    return draw_inputs(rng, 0, before=True, square=True)


def draw_other(rng):
    """Draw inputs whose padding token is not 0, and in which 0 is a word. Padding is at either end."""
    padding = int(rng.integers(1, 4))
    found = draw_inputs(rng, padding, before=False)
    source = found["source"]
    source[1::2] = source[1::2, ::-1]
    source[::2, 0], source[1::2, -1] = 0, 0
    return found


def attended(answer, inputs):
    """Attend with the mask twice, before and after changing the contents of the source's padding.

    The outputs are left out if the mask does not fit, or leaves a query with nothing to attend to.
    """
    rng = np.random.default_rng(1)
    source, target = inputs["source"], inputs["target"]
    query, key = rng.normal(size=(*target.shape, 6)), rng.normal(size=(*source.shape, 6))
    mask, logits = np.asarray(answer.cross_mask(**inputs)), query @ np.swapaxes(key, 1, 2)
    try:
        empty = bool(np.any(np.all(~np.broadcast_to(mask, logits.shape).astype(bool), axis=-1)))
    except ValueError:
        return {"mask": f"{mask.shape} for scores of the shape {logits.shape}", "empty": False, "outputs": []}
    outputs = []
    for noise in () if empty else (0.0, 1.0):
        changed = key + noise * (source == inputs["padding"])[:, :, None]
        logits = np.where(mask, query @ np.swapaxes(changed, 1, 2), -np.inf)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        outputs.append(powers / powers.sum(axis=-1, keepdims=True) @ changed)
    return {"mask": "", "empty": empty, "outputs": outputs}


def judge_outputs(inputs, result, expected):
    if result["mask"]:
        return f"the mask cannot be broadcast to the scores: it has the shape {result['mask']}."
    if result["empty"]:
        return "with this mask some query has nothing to attend to, so the softmax of its row is NaN."
    if not np.allclose(*result["outputs"]):
        return "the output changes with the contents of the source's padding."
    return None


EXERCISE = Exercise(
    title="The mask of the decoder's second attention",
    question="Which mask belongs to the second attention: the look-ahead mask, the target's padding or the source's? "
    "(seed 000's course; keras-team/keras-io#1046)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=3, unchanged=1),
        Check("edge", "T = S, and sentences with padding at the beginning", 1, draw_before),
        Check("edge", "a padding token other than 0, at either end", 1, draw_other),
        Check(
            "invariants", "the contents of the source's padding make no difference", 2, draw, attended, judge_outputs
        ),
    ),
    wrong=(
        Wrong(
            "padding-of-query-for-keys",
            "You made the mask from the target. The target's padding says nothing about source positions, and there "
            "may be more or fewer of those.",
            {RIGHT: "(target != padding)[:, None, :]"},
            "keras-team/keras-io#1046, fchollet/deep-learning-with-python-notebooks#209",
        ),
        Wrong(
            "padding-inverted",
            "You inverted the mask. Here True means attend.",
            {"source != padding": "source == padding"},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "causal-always",
            "You added a look-ahead mask. The source has no future to hide: every target position may see all of it.",
            {RIGHT: RIGHT + " & np.tril(np.ones((target.shape[1], source.shape[1]), bool))"},
            "zhouhaoyi/Informer2020#38",
        ),
        Wrong(
            "padding-on-queries",
            "You laid the source's padding along the query axis, (B, S, 1). That hides whole rows instead of columns.",
            {", axis=1)": ", axis=2)"},
            "lsdefine/attention-is-all-you-need-keras#16",
        ),
        Wrong(
            "padding-of-both",
            "You also hid the rows at the target's padding. Nobody reads the output of these queries, and with "
            "nothing to attend to, their softmax has nothing to divide by.",
            {RIGHT: RIGHT + " & (target != padding)[:, :, None]"},
        ),
        Wrong(
            "without-query-axis",
            "Your mask is (B, S), without an axis for the query positions. Add one of size 1.",
            {RIGHT: "source != padding"},
        ),
        Wrong(
            "head-axis-too",
            "You added an axis for the heads as well, (B, 1, 1, S), as one course does. Here the mask has three axes.",
            {", axis=1)": ", axis=(1, 2))"},
            "seed 000's course",
        ),
        Wrong(
            "padding-is-zero",
            "You compared the tokens with 0. Compare them with the padding token that you are given.",
            {"source != padding": "source != 0"},
        ),
        Wrong(
            "padding-is-smallest",
            "You took every token up to the padding token for padding. There may be words with smaller numbers: "
            "compare for equality.",
            {"source != padding": "source > padding"},
        ),
        Wrong(
            "padding-at-the-end",
            "You counted the words and allowed that many first positions. A sentence may also have its padding at the "
            "beginning.",
            {
                RIGHT: "(np.arange(source.shape[1]) < (source != padding).sum(axis=1)[:, None])[:, None, :]",
            },
            "the lengths of d2l-ai/d2l-en",
        ),
        Wrong(
            "mask-as-floats",
            "Your mask holds floats. Return booleans: their True cannot be read the other way round.",
            {RIGHT: RIGHT + " * 1.0"},
        ),
        Wrong(
            "target-where-square",
            "You take the target where it has the shape of the source. The keys are source positions, whatever the "
            "shapes are.",
            {RIGHT: "np.expand_dims((target if target.shape == source.shape else source) != padding, axis=1)"},
        ),
        Wrong(
            "causal-where-square",
            "You add a look-ahead mask where T = S. The whole source is known before the first target word is written.",
            {
                "return " + RIGHT: "mask = " + RIGHT + "\n"
                "    rows, columns = target.shape[1], source.shape[1]\n"
                "    return mask & np.tril(np.ones((rows, columns), bool)) if rows == columns else mask"
            },
        ),
        Wrong(
            "padding-from-first",
            "You hide everything from the first padding on. A sentence may have its padding at the beginning, with the "
            "words behind it: look at each token by itself.",
            {RIGHT: "np.logical_and.accumulate(source != padding, axis=1)[:, None]"},
        ),
    ),
)
