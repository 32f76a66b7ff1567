"""What is checked of `head_mask`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

REPEAT = "np.repeat(rows, num_heads, axis=0)"
LAST = "return np.repeat(mask, num_queries, axis=1) if valid_lens.ndim == 1 else mask"
MASK = "mask = np.arange(num_keys) < lengths[:, :, None]"


def some(rng, each_query, batch=None):
    items, rows, columns, heads = sizes(rng, 4, least=3)
    items = batch or items
    lengths = rng.permutation(np.arange(items * (rows if each_query else 1)) % columns + 1)
    return {
        "valid_lens": lengths.reshape(items, rows) if each_query else lengths,
        "num_heads": heads,
        "num_queries": rows,
        "num_keys": columns,
    }


def draw(rng):
    return some(rng, each_query=False)


def draw_each(rng):
    return some(rng, each_query=True)


def draw_one(rng):
    """A batch of one item, where repeat and tile are the same."""
    return some(rng, each_query=bool(rng.integers(2)), batch=1)


def alike(inputs, result, expected):
    masks = np.asarray(result)
    if masks.shape != expected.shape:
        return f"it has the shape {masks.shape}, expected {expected.shape}."
    masks = masks.reshape(-1, inputs["num_heads"], *masks.shape[1:])
    if not np.all(masks == masks[:, :1]):
        return "the heads of one item have different masks."
    if not np.array_equal(
        masks[:, 0].sum(axis=-1).astype(int)[:, 0], np.reshape(inputs["valid_lens"], (len(masks), -1))[:, 0]
    ):
        return "an item's first query may attend to another number of keys than its length says."
    return None


EXERCISE = Exercise(
    title="A mask for every head",
    question="How does a mask get to every head once they are in the batch? (seed 001's textbook; "
    "ArrowLuo/CLIP4Clip#22)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=2, unchanged=1),
        Check("invariants", "all heads of an item have its mask", 1, draw, judge=alike),
        Check("values", "lengths for each query", 3, draw_each),
        Check("edge", "a batch of one item", 1, draw_one),
    ),
    wrong=(
        Wrong(
            "mask-tiled",
            "The lengths are tiled over the batch: heads get another item's mask. Each item's must be repeated "
            "for its heads.",
            {REPEAT: "np.tile(rows, (num_heads, 1))"},
            "line/lighthouse#77, ArrowLuo/CLIP4Clip#22",
        ),
        Wrong(
            "lengths-flattened",
            "The lengths are repeated without an axis: where each query has its own, they are flattened, and queries "
            "become items.",
            {
                "    rows = valid_lens[:, None] if valid_lens.ndim == 1 else valid_lens\n    lengths = "
                + REPEAT: "    lengths = np.repeat(valid_lens, num_heads)[:, None]",
                LAST: "return np.repeat(mask, num_queries, axis=1)",
            },
        ),
        Wrong(
            "mask-repeated-over-queries",
            "The lengths are repeated along the queries: the heads are in the batch, the first axis.",
            {REPEAT: REPEAT.replace("axis=0", "axis=1")},
        ),
        Wrong(
            "mask-not-repeated",
            "There is one mask for each item: B·H are needed, one for each head.",
            {REPEAT: "rows"},
        ),
        Wrong(
            "mask-of-first-item",
            "The first item's lengths are used for the whole batch.",
            {REPEAT: "np.repeat(rows[:1], len(rows) * num_heads, axis=0)"},
        ),
        Wrong(
            "mask-one-key-more",
            "One key too many is attended to: keys are counted from 0, and key number `length` is the first "
            "that is hidden.",
            {MASK: MASK.replace("<", "<=")},
        ),
        Wrong(
            "mask-inverted",
            "The mask is inverted: here True means attend.",
            {MASK: MASK.replace("<", ">=")},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-from-the-end",
            "The last keys are allowed in place of the first: lengths count from the beginning.",
            {MASK: MASK.replace("np.arange(num_keys)", "np.arange(num_keys)[::-1]")},
        ),
        Wrong(
            "mask-first-row-for-all",
            "All queries of an item have its first query's length.",
            {"else valid_lens\n": "else np.repeat(valid_lens[:, :1], num_queries, axis=1)\n"},
            "autosome-ru/vigg_ribonanza#1",
        ),
        Wrong(
            "mask-of-one-row",
            "Where there is one length for each item, the mask has one row only: T are asked for.",
            {LAST: "return mask"},
        ),
        Wrong(
            "mask-tiled-for-each-query",
            "Lengths for each query are flattened before they are repeated: queries and heads are mixed up.",
            {REPEAT: "np.repeat(rows, num_heads).reshape(-1, rows.shape[1])"},
        ),
    ),
)
