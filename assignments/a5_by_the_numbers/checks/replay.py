"""What is checked of `replay`: the split and the merge of the article, each wrong way of which has the right shape."""

import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
CUT = "cut = query.reshape(batch, positions, heads, width // heads)"
SPLIT = "split = np.swapaxes(cut, 1, 2)"
MERGED = "merged = np.swapaxes(mixed, 1, 2).reshape(batch, positions, width)"
MOVED = "np.swapaxes(mixed, 1, 2)"


def draw(rng):
    batch, positions, heads, size = sizes(rng, 4)
    return {
        "query": rng.normal(size=(batch, positions, heads * size)),
        "mixed": rng.normal(size=(batch, heads, positions, size)),
        "heads": heads,
    }


def printed(rng):
    """The article's Q, and its joined heads as they were before they were joined."""
    query, joined = (np.reshape(PRINTED[name], (3, 6, 8)) for name in ("query", "joined"))
    return {"query": query, "mixed": joined.reshape(3, 6, 4, 2).transpose(0, 2, 1, 3).copy(), "heads": 4}


EXERCISE = Exercise(
    title="Replay the split and the merge",
    question="Why a transpose between the two shapes, if a reshape gives the same shape at once? (seed 004)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=2, values=4, unchanged=1),
        Check("values", "the article's own arrays come out as they are printed", 2, printed, times=1),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "The heads are moved to the front by a reshape: that moves no number, so a head gets pieces of several heads "
            "of neighbouring tokens.",
            {SPLIT: "split = query.reshape(batch, heads, positions, width // heads)"},
            "reczoo/FuxiCTR#30; seed 003",
        ),
        Wrong(
            "heads-size-first",
            "The features are cut as (O, H): a head gets every H-th feature, not O that lie side by side.",
            {CUT: "cut = np.swapaxes(query.reshape(batch, positions, width // heads, heads), 2, 3)"},
        ),
        Wrong(
            "heads-last",
            "In the cut the head axis stands last: (B, T, O, H) in place of (B, T, H, O).",
            {
                CUT: "cut = query.reshape(batch, positions, width // heads, heads)",
                SPLIT: "split = query.reshape(batch, positions, heads, width // heads).swapaxes(1, 2)",
            },
        ),
        Wrong(
            "batch-and-heads-exchanged",
            "The heads change places with the batch: (H, T, B, O). Every sentence keeps its own place; heads change with T.",
            {SPLIT: "split = np.swapaxes(cut, 0, 2)"},
        ),
        Wrong(
            "heads-not-moved",
            "The second array is the cut once more: the positions still stand before the heads.",
            {SPLIT: "split = cut"},
        ),
        Wrong(
            "merge-not-transposed",
            "The heads are merged by a reshape alone: a token gets pieces of other tokens.",
            {MOVED: "mixed"},
            "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4",
        ),
        Wrong(
            "merge-size-first",
            "The heads are interleaved: first every head's feature 0, then every head's feature 1. They belong side by side.",
            {MOVED: "np.transpose(mixed, (0, 2, 3, 1))"},
        ),
        Wrong(
            "merge-averaged",
            "The heads are averaged, and repeated to fill the width: side by side each keeps its own features.",
            {MERGED: "merged = np.tile(mixed.mean(axis=1), (1, 1, heads))"},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "merge-heads-reversed",
            "The heads are joined in the opposite order: head 0 comes first.",
            {MOVED: "np.swapaxes(mixed[:, ::-1], 1, 2)"},
        ),
    ),
)
