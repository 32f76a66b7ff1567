"""Checks of `contiguous_merge`, with arrays that lie in memory in several ways."""

import json
from pathlib import Path

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text(encoding="utf-8"))
MOVED = "moved = np.swapaxes(mixed, 1, 2)"
COPIED = "copied = np.ascontiguousarray(moved)"
MERGED = "merged = copied.reshape(*copied.shape[:2], -1)"
STRIDES = "tuple(stride // array.itemsize for stride in array.strides)"
JOINS = '"joins": strides["moved"][2] == moved.shape[3] * strides["moved"][3]'
SHARES = "tuple(np.shares_memory(mixed, array) for array in (moved, copied, merged))"


def draw(rng):
    """Draw single or double precision. No axis has the size 1, whose stride means nothing."""
    shape = [max(size, 2) for size in sizes(rng, 4)]
    return {"mixed": rng.normal(size=shape).astype(rng.choice(["float32", "float64"]))}


def draw_printed(rng):
    """Return the article's joined heads as they were before they were joined."""
    joined = np.reshape(PRINTED["joined"], (3, 6, 8))
    return {"mixed": joined.reshape(3, 6, 4, 2).transpose(0, 2, 1, 3).copy()}


def laid_out(answer, inputs):
    """Call with arrays that lie in memory as (B, T, H, O), (B, H, O, T), (H, B, T, O) and (B, T, O, H), and with parts.

    Half precision, negative strides and one of 0 are among them: with the last axis reversed alone, `joins` is false, and
    with heads and features reversed, it is true. In the last array, there are as many numbers from head to head as heads,
    and fewer features than heads.
    """
    mixed = inputs["mixed"]
    orders = ((0, 2, 1, 3), (0, 1, 3, 2), (1, 0, 2, 3), (0, 2, 3, 1))
    arrays = [np.ascontiguousarray(mixed.transpose(order)).transpose(np.argsort(order)) for order in orders]
    longer = np.concatenate([arrays[0], arrays[0]], axis=1)
    wider = np.concatenate([mixed, mixed], axis=3).astype(np.float16)
    by_positions = np.ascontiguousarray(longer.swapaxes(1, 2)).swapaxes(1, 2)
    parts = [wider[..., : mixed.shape[3]], by_positions[:, : mixed.shape[1]], wider[..., ::2]]
    many = np.concatenate([mixed] * mixed.shape[3], axis=1)
    square = np.zeros((many.shape[0], many.shape[2], many.shape[1], many.shape[1]))
    square[..., : mixed.shape[3]] = many.swapaxes(1, 2)
    parts += [mixed[:, ::-1], np.broadcast_to(mixed[:, :, :1], mixed.shape)]
    parts += [arrays[0][..., ::-1], arrays[0][:, ::-1, :, ::-1]]
    parts += [square[..., : mixed.shape[3]].swapaxes(1, 2)]
    return [answer.contiguous_merge(array) for array in arrays + parts]


EXERCISE = Exercise(
    title="What `.contiguous()` is for",
    question="Why is there a `.contiguous()` before `view`, and why does NumPy need none? (seed 004, the merge)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, ones=False),
        Check("edge", "the article's own array", 1, draw_printed, times=1),
        Check("edge", "arrays that lie in memory in another order", 2, draw, laid_out),
    ),
    wrong=(
        Wrong(
            "strides-in-bytes",
            "You returned the strides in bytes, as NumPy has them. Count them in numbers.",
            {
                STRIDES: "tuple(array.strides)",
                JOINS: '"joins": strides["moved"][2] == moved.shape[3] * strides["moved"][3]',
            },
        ),
        Wrong(
            "bytes-always-eight",
            "You divided by 8 bytes. Numbers of single precision take 4: the array knows its own size.",
            {STRIDES: "tuple(stride // 8 for stride in array.strides)"},
        ),
        Wrong(
            "strides-of-the-shape",
            "You computed the strides from the shapes, as if every array were contiguous. A transposed array is not.",
            {
                STRIDES: "tuple(int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim))",
            },
        ),
        Wrong(
            "copy-keeps-the-order",
            "You copied with `np.copy`, which keeps the order that it finds in memory. The copy is not contiguous, and the "
            "reshape copies again.",
            {COPIED: "copied = np.copy(moved)"},
        ),
        Wrong(
            "always-copied",
            "You copied, or said so, even where `moved` was contiguous already. `.contiguous()` returns the array itself then.",
            {COPIED: 'copied = np.array(moved, order="C")'},
        ),
        Wrong(
            "contiguous-before-the-move",
            "Your `copied` is not contiguous. Make the array contiguous after moving the heads: the move undoes what was "
            "done before it.",
            {COPIED: "copied = np.swapaxes(np.ascontiguousarray(mixed), 1, 2)"},
        ),
        Wrong(
            "moved-by-reshape",
            "You moved the heads with a reshape. That only draws the borders anew: no number changes its place, and tokens "
            "get pieces of other tokens.",
            {MOVED: "moved = mixed.reshape(mixed.shape[0], mixed.shape[2], mixed.shape[1], mixed.shape[3])"},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "merge-not-transposed",
            "You did not move the heads at all: a token gets pieces of other tokens.",
            {
                MOVED: "moved = mixed",
                MERGED: "merged = copied.reshape(copied.shape[0], copied.shape[2], -1)",
            },
            "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4",
        ),
        Wrong(
            "joins-by-size-alone",
            "You asked only whether the last axis has the stride 1. A step along the axis before it must also skip exactly "
            "the whole last axis.",
            {JOINS: '"joins": strides["moved"][3] == 1'},
        ),
        Wrong(
            "joins-never",
            "By your rule nothing here can be joined without a copy. That depends on how the array lay before.",
            {JOINS: '"joins": False'},
        ),
        Wrong(
            "joins-by-first-size",
            "For “joins”, you multiply by the number of heads. A step along the heads must skip all of the *second* "
            "axis, so its size counts.",
            {JOINS: '"joins": strides["moved"][2] == moved.shape[2] * strides["moved"][3]'},
        ),
        Wrong(
            "joins-the-other-way",
            "You ask whether a step along the last axis skips all heads. It is the step along the heads that must skip "
            "all of the last axis.",
            {JOINS: '"joins": strides["moved"][3] == moved.shape[2] * strides["moved"][2]'},
        ),
        Wrong(
            "joins-if-not-contiguous",
            "You said that the axes of `moved` can be joined if `mixed` is not contiguous. That depends on how it lies in "
            "memory: only the strides of `moved` tell.",
            {JOINS: '"joins": not mixed.flags.c_contiguous'},
        ),
        Wrong(
            "joins-without-sign",
            "For “joins”, you dropped the signs of the strides. Where one axis runs forwards in memory and the other "
            "backwards, no single step leads through both.",
            {JOINS: '"joins": abs(strides["moved"][2]) == moved.shape[3] * abs(strides["moved"][3])'},
        ),
        Wrong(
            "joins-of-the-copy",
            "By your rule all arrays can be joined without a copy. For the copy itself that always holds; for `moved` it "
            "depends on how it lies in memory.",
            {JOINS: '"joins": strides["copied"][2] == copied.shape[3] * strides["copied"][3]'},
        ),
        Wrong(
            "shares-with-the-step-before",
            "You compared each array with the one before it. Compare each with `mixed`.",
            {
                SHARES: "(np.shares_memory(mixed, moved), np.shares_memory(moved, copied), "
                "np.shares_memory(copied, merged))"
            },
        ),
        Wrong(
            "shares-by-base",
            "You asked whether `base` is `mixed` itself. Two views of a third array share its memory too, and neither "
            "is the other's base: ask `np.shares_memory`.",
            {SHARES: "tuple(array.base is mixed for array in (moved, copied, merged))"},
        ),
        Wrong(
            "merged-from-moved",
            "You merged `moved`, not `copied`. Where its axes can be joined, that gives a view of `moved` with other "
            "strides, and no view of the copy.",
            {MERGED: MERGED.replace("copied", "moved")},
        ),
        Wrong(
            "joins-if-contiguous",
            "You asked whether the whole array is contiguous. To join the last two axes, only their strides have to fit.",
            {JOINS: '"joins": moved.flags.c_contiguous'},
        ),
        Wrong(
            "strides-without-sign",
            "You dropped the sign of a stride. It is negative where the array runs backwards in memory.",
            {STRIDES: STRIDES.replace("stride //", "abs(stride) //")},
        ),
    ),
)
