"""Checks of `replay`. Every wrong way to split and merge has the right shape."""

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


def draw_printed(rng):
    """Return the article's Q, and its joined heads as they were before they were joined."""
    query, joined = (np.reshape(PRINTED[name], (3, 6, 8)) for name in ("query", "joined"))
    return {"query": query, "mixed": joined.reshape(3, 6, 4, 2).transpose(0, 2, 1, 3).copy(), "heads": 4}


EXERCISE = Exercise(
    title="Replay the split and the merge",
    question="Why a transpose between the two shapes, if a reshape gives the same shape directly? (seed 004)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=2, values=4, unchanged=1),
        Check("edge", "the article's own arrays come out as printed", 2, draw_printed, times=1),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "You moved the heads to the front with a reshape. A reshape moves no number, so a head gets pieces of "
            "several heads of neighbouring tokens. Transpose the cut.",
            {SPLIT: "split = query.reshape(batch, heads, positions, width // heads)"},
            "reczoo/FuxiCTR#30; seed 003",
        ),
        Wrong(
            "heads-size-first",
            "You cut the features as (O, H), so a head gets every H-th feature. A head is O features that lie side by "
            "side.",
            {CUT: "cut = np.swapaxes(query.reshape(batch, positions, width // heads, heads), 2, 3)"},
        ),
        Wrong(
            "heads-last",
            "You put the head axis last in the cut, (B, T, O, H). It is (B, T, H, O).",
            {
                CUT: "cut = query.reshape(batch, positions, width // heads, heads)",
                SPLIT: "split = query.reshape(batch, positions, heads, width // heads).swapaxes(1, 2)",
            },
        ),
        Wrong(
            "batch-and-heads-exchanged",
            "You exchanged the heads with the batch, (H, T, B, O). The sentences stay in place: exchange the heads "
            "with the positions.",
            {SPLIT: "split = np.swapaxes(cut, 0, 2)"},
        ),
        Wrong(
            "heads-not-moved",
            "You returned the cut again as the second array. Move the heads in front of the positions.",
            {SPLIT: "split = cut"},
        ),
        Wrong(
            "cut-and-split-exchanged",
            "You return the first two results in the wrong order. The cut comes first, then the cut with its heads in front.",
            {"return cut, split, merged": "return split, cut, merged"},
        ),
        Wrong(
            "merge-not-transposed",
            "You merged the heads with a reshape alone, so a token gets pieces of other tokens. Exchange heads and "
            "positions first.",
            {MOVED: "mixed"},
            "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4",
        ),
        Wrong(
            "merge-size-first",
            "You interleaved the heads: first feature 0 of every head, then feature 1. Keep the features of one head "
            "side by side.",
            {MOVED: "np.transpose(mixed, (0, 2, 3, 1))"},
        ),
        Wrong(
            "merge-averaged",
            "You averaged the heads and repeated the mean to fill the width. Put the heads side by side, each with "
            "its own features.",
            {MERGED: "merged = np.tile(mixed.mean(axis=1), (1, 1, heads))"},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "merge-heads-reversed",
            "You joined the heads in the opposite order. Head 0 comes first.",
            {MOVED: "np.swapaxes(mixed[:, ::-1], 1, 2)"},
        ),
    ),
)
