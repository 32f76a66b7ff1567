"""Checks of `head_mask`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

REPEAT = "np.repeat(rows, num_heads, axis=0)"
LAST = "return np.repeat(mask, num_queries, axis=1) if valid_lens.ndim == 1 else mask"
MASK = "mask = np.arange(num_keys) < lengths[:, :, None]"


def draw_inputs(rng, each_query, batch=None):
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
    return draw_inputs(rng, each_query=False)


def draw_each(rng):
    return draw_inputs(rng, each_query=True)


def draw_one(rng):
    """Draw a batch of one item, for which repeat and tile are the same."""
    return draw_inputs(rng, each_query=bool(rng.integers(2)), batch=1)


def draw_square(rng):
    """Draw as many queries as items, so that no size tells what the lengths belong to."""
    found = draw(rng)
    return {**found, "num_queries": len(found["valid_lens"])}


def judge_heads(inputs, result, expected):
    masks = np.asarray(result)
    if masks.shape != expected.shape:
        return f"it has the shape {masks.shape}, expected {expected.shape}."
    masks = masks.reshape(-1, inputs["num_heads"], *masks.shape[1:])
    if not np.all(masks == masks[:, :1]):
        return "the heads of one item have different masks."
    if not np.array_equal(
        masks[:, 0].sum(axis=-1).astype(int)[:, 0], np.reshape(inputs["valid_lens"], (len(masks), -1))[:, 0]
    ):
        return "the number of keys that an item's first query may attend to is not its length."
    return None


EXERCISE = Exercise(
    title="A mask for every head",
    question="How does each head get its mask once the heads are in the batch? (seed 001's textbook; "
    "ArrowLuo/CLIP4Clip#22)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=1, unchanged=1),
        Check("invariants", "all heads of an item have its mask", 1, draw, judge=judge_heads),
        Check("values", "each query has a length of its own", 3, draw_each),
        Check("edge", "as many queries as items, with one length for each item", 1, draw_square),
        Check("edge", "a batch of one item", 1, draw_one),
    ),
    wrong=(
        Wrong(
            "mask-tiled",
            "You tiled the lengths over the batch, so heads get the mask of another item. Repeat each item's length "
            "for its heads.",
            {REPEAT: "np.tile(rows, (num_heads, 1))"},
            "line/lighthouse#77, ArrowLuo/CLIP4Clip#22",
        ),
        Wrong(
            "lengths-flattened",
            "You repeated the lengths without an axis. If each query has its own length, that flattens them, and "
            "queries become items.",
            {
                "    rows = valid_lens[:, None] if valid_lens.ndim == 1 else valid_lens\n    lengths = "
                + REPEAT: "    lengths = np.repeat(valid_lens, num_heads)[:, None]",
                LAST: "return np.repeat(mask, num_queries, axis=1)",
            },
        ),
        Wrong(
            "mask-repeated-over-queries",
            "You repeated the lengths along the queries. The heads are in the batch, which is the first axis.",
            {REPEAT: REPEAT.replace("axis=0", "axis=1")},
        ),
        Wrong(
            "mask-not-repeated",
            "You made one mask for each item. You need B·H masks, one for each head.",
            {REPEAT: "rows"},
        ),
        Wrong(
            "mask-of-first-item",
            "You used the lengths of the first item for the whole batch. Each item has its own.",
            {REPEAT: "np.repeat(rows[:1], len(rows) * num_heads, axis=0)"},
        ),
        Wrong(
            "mask-one-key-more",
            "You allowed one key too many. Keys are counted from 0, so key number `length` is the first one that is "
            "hidden.",
            {MASK: MASK.replace("<", "<=")},
        ),
        Wrong(
            "mask-inverted",
            "You inverted the mask. Here True means attend.",
            {MASK: MASK.replace("<", ">=")},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "mask-from-the-end",
            "You allowed the last keys instead of the first. Lengths count from the beginning.",
            {MASK: MASK.replace("np.arange(num_keys)", "np.arange(num_keys)[::-1]")},
        ),
        Wrong(
            "mask-first-row-for-all",
            "You gave all queries of an item the length of its first query. Each query has its own.",
            {"else valid_lens\n": "else np.repeat(valid_lens[:, :1], num_queries, axis=1)\n"},
            "autosome-ru/vigg_ribonanza#1",
        ),
        Wrong(
            "mask-of-one-row",
            "You returned a mask with a single row for items with one length. Return T rows.",
            {LAST: "return mask"},
        ),
        Wrong(
            "mask-tiled-for-each-query",
            "You flattened the lengths of the queries before you repeated them, which mixes up queries and heads. "
            "Repeat along axis 0.",
            {REPEAT: "np.repeat(rows, num_heads).reshape(-1, rows.shape[1])"},
        ),
        Wrong(
            "lengths-told-by-size",
            "You tell by a size whether each query has its own length. There may be as many items as queries: look at "
            "the number of axes.",
            {
                "rows = valid_lens[:, None] if valid_lens.ndim == 1 else": "rows = valid_lens[:, None] if "
                "valid_lens.shape[-1] != num_queries else",
                LAST: LAST.replace("ndim == 1", "shape[-1] != num_queries"),
            },
        ),
        Wrong(
            "mask-one-key-less",
            "You allowed one key too few. Keys are counted from 0, so the last one that may be attended to is the number "
            "before `length`.",
            {MASK: MASK.replace("np.arange(num_keys)", "np.arange(1, num_keys + 1)")},
        ),
        Wrong(
            "mask-tiled-for-one-length",
            "You tiled the lengths over the batch if each item has one, so heads get the mask of another item. You "
            "repeated them where each query has its own: do it for both.",
            {REPEAT: f"np.tile(rows, (num_heads, 1)) if valid_lens.ndim == 1 else {REPEAT}"},
        ),
        Wrong(
            "mask-tiled-for-own-lengths",
            "You tiled the lengths over the batch if each query has its own, so heads get the mask of another item. You "
            "repeated them where each item has one: do it for both.",
            {REPEAT: f"np.tile(rows, (num_heads, 1)) if valid_lens.ndim == 2 else {REPEAT}"},
        ),
    ),
)
