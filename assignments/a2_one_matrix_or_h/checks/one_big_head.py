"""Checks of `one_big_head`, against the solution and against a big head that never looks at the heads."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

CUT = "array.reshape(*array.shape[:2], num_heads, -1) for array in (query, key, value)"
HEADS_LOGITS = 'np.einsum("BTHO,BSHO->BHTS", query_heads, key_heads) / np.sqrt(size)'
ONE_LOGITS = "one_logits = heads_logits.sum(axis=1) / np.sqrt(num_heads)"
SOFTMAX = "powers = np.exp(logits - logits.max(axis=-1, keepdims=True))\n"
SUM = "return powers / powers.sum(axis=-1, keepdims=True)"
HEADS = '"heads": heads.reshape(query.shape)'
ONE = '"one": softmax(one_logits) @ value'


def draw(rng):
    """Draw more than one head."""
    batch, rows, columns, heads, size = sizes(rng, 5)
    heads, width = max(heads, 2), max(heads, 2) * size
    return {
        "query": rng.normal(size=(batch, rows, width)),
        "key": rng.normal(size=(batch, columns, width)),
        "value": rng.normal(size=(batch, columns, width)),
        "num_heads": heads,
    }


def draw_one(rng):
    return {**draw(rng), "num_heads": 1}


def draw_two_wishes(rng):
    """Draw one query of which each head wants another position. All positions have different values."""
    (heads,) = sizes(rng, 1, least=3, most=6)
    order = rng.permutation(heads)
    return {
        "query": np.full((1, 1, heads), 30.0),
        "key": np.eye(heads)[None, order],
        "value": np.round(rng.normal(scale=9.0, size=(1, heads, heads)), 1),
        "num_heads": heads,
    }


def judge_whole(inputs, result, expected):
    """Compare the big head with a dot product of the whole width."""
    query, key = inputs["query"], inputs["key"]
    logits = query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])
    given = np.asarray(result["one_logits"])
    if given.shape != logits.shape:
        return f"the big head's logits have the shape {given.shape}, expected {logits.shape}."
    if not np.allclose(given, logits, rtol=1e-6, atol=1e-6 * np.abs(logits).max()):
        return "the big head's logits are not the dot products of the whole width, divided by √(H·O)."
    return None


def judge_wishes(inputs, result, expected):
    """Check that the big head averages all positions, and that the heads do not."""
    value, (heads, one) = inputs["value"], (np.asarray(result[name]) for name in ("heads", "one"))
    if heads.shape != expected["heads"].shape or one.shape != expected["one"].shape:
        return f"the results have the shapes {heads.shape} and {one.shape}."
    if not np.allclose(one, value.mean(axis=1, keepdims=True), atol=1e-6):
        return "each head wants another position, and the big head does not return the average of all values."
    if not np.allclose(heads, expected["heads"], atol=1e-6):
        return "each head wants another position, and a head does not return its feature of the value there."
    return None


EXERCISE = Exercise(
    title="Many heads, or one big head?",
    question="Is a layer with one large matrix a single huge head, and where does the difference come from? (seed 001; "
    "seed 004: one head averages)",
    difficulty=2,
    minutes=25,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("invariants", "the big head's logits are dot products of the whole width", 2, draw, judge=judge_whole),
        *standard(draw, values=4, unchanged=1),
        Check(
            "invariants", "each head wants another position: one head averages", 1, draw_two_wishes, judge=judge_wishes
        ),
        Check("edge", "with one head there is no difference", 1, draw_one),
    ),
    wrong=(
        Wrong(
            "big-head-not-scaled-again",
            "You summed the heads' logits, which are divided by √O. The big head is H times as wide, so its logits are "
            "divided by more than that.",
            {ONE_LOGITS: "one_logits = heads_logits.sum(axis=1)"},
        ),
        Wrong(
            "logits-averaged",
            "You averaged the heads' logits. The big head's dot product is their sum, and only the scale of the "
            "width remains to be put right.",
            {ONE_LOGITS: "one_logits = heads_logits.mean(axis=1)"},
        ),
        Wrong(
            "scores-averaged",
            "You averaged the heads' scores for the big head. It has no scores of its own to average: it adds the logits "
            "and takes one softmax.",
            {ONE: '"one": softmax(heads_logits).mean(axis=1) @ value'},
            "seed 004: with only one head, averaging",
        ),
        Wrong(
            "softmax-scale-of-whole-width",
            "You divided the heads' logits by the root of the whole width. A head has O features: divide by √O.",
            {HEADS_LOGITS: HEADS_LOGITS.replace("np.sqrt(size)", "np.sqrt(size * num_heads)")},
            "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
        ),
        Wrong(
            "softmax-scale-missing",
            "You did not scale the heads' logits. Divide them by √O.",
            {HEADS_LOGITS: HEADS_LOGITS.replace(" / np.sqrt(size)", "")},
        ),
        Wrong(
            "heads-share-scores",
            "You gave all heads the big head's scores. Then the heads compute exactly what one big head computes. Each "
            "head takes a softmax of its own logits.",
            {HEADS: '"heads": softmax(one_logits) @ value'},
            "seed 001: one huge head",
        ),
        Wrong(
            "big-head-with-heads-scores",
            "You returned the heads' result for the big head too. One big head has a single weight for each pair of "
            "positions.",
            {ONE: '"one": heads.reshape(query.shape)'},
            "seed 001",
        ),
        Wrong(
            "heads-size-first",
            "You cut the features as (O, H), so a head gets every H-th column. The columns of one head lie side by side.",
            {CUT: "array.reshape(*array.shape[:2], -1, num_heads).swapaxes(2, 3) for array in (query, key, value)"},
        ),
        Wrong(
            "softmax-over-queries",
            "Your softmax goes over the queries. Every query has weights that sum to one, over the keys.",
            {SOFTMAX: SOFTMAX.replace("axis=-1", "axis=-2"), SUM: SUM.replace("axis=-1", "axis=-2")},
        ),
        Wrong(
            "softmax-over-heads",
            "Your softmax of the heads' logits goes over the heads. The heads do not compete: each has weights that sum "
            "to one over the keys.",
            {
                "softmax(heads_logits), value_heads": "np.moveaxis(softmax(np.moveaxis(heads_logits, 1, -1)), -1, 1), value_heads"
            },
        ),
        Wrong(
            "merge-averaged",
            "You averaged the heads and repeated the mean. Put the results of the heads side by side.",
            {HEADS: '"heads": np.tile(heads.mean(axis=2), (1, 1, num_heads))'},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "merge-interleaved",
            "You interleaved the heads: first feature 0 of every head, then feature 1. Keep the features of one head "
            "side by side.",
            {HEADS: '"heads": heads.swapaxes(2, 3).reshape(query.shape)'},
        ),
        Wrong(
            "heads-reshaped",
            "You split the heads with a reshape alone, which mixes positions and features. Cut the last axis first, then "
            "exchange heads and positions.",
            {
                CUT: "array.reshape(len(array), num_heads, array.shape[1], -1).swapaxes(1, 2) for array in (query, key, value)"
            },
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-split-by-reshape",
            "You split the heads with a reshape to (B, H, T, O) and no transpose, which mixes positions and features. Cut "
            "the last axis first, then move the heads.",
            {
                CUT: "np.swapaxes(array.reshape(array.shape[0], num_heads, array.shape[1], -1), 1, 2) for array in (query, key, value)",
                ONE_LOGITS: "one_logits = query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])",
            },
        ),
        Wrong(
            "heads-not-merged",
            "You returned the results of the heads with an axis of their own. Move the heads back behind the positions, and "
            "join them with the features.",
            {HEADS: '"heads": np.swapaxes(heads, 1, 2)'},
        ),
        Wrong(
            "mix-key",
            "You mixed the keys with the scores. Keys are compared; values are mixed.",
            {
                "softmax(heads_logits), value_heads": "softmax(heads_logits), key_heads",
                ONE: ONE.replace("value", "key"),
            },
        ),
    ),
)
