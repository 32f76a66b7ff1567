"""Checks of `split_kernel` and `join_kernels`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

SPLIT = "np.swapaxes(flat.reshape(features, num_heads, width // num_heads), 0, 1)"
JOIN = "np.swapaxes(kernels, 0, 1).reshape(rows, num_heads * size)"


def draw(rng):
    features, heads, size = sizes(rng, 3)
    return {"flat": rng.normal(size=(features, heads * size)), "num_heads": heads}


def draw_kernels(rng):
    features, heads, size = sizes(rng, 3)
    return {"kernels": rng.normal(size=(heads, features, size))}


def join(answer, inputs):
    return answer.join_kernels(inputs["kernels"])


def there_and_back(answer, inputs):
    return answer.join_kernels(answer.split_kernel(**inputs))


def judge_same(inputs, result, expected):
    if np.shape(result) != inputs["flat"].shape:
        return f"split and joined again, the kernel has the shape {np.shape(result)}. It was {inputs['flat'].shape}."
    return None if np.array_equal(result, inputs["flat"]) else "split and joined again, the kernel has changed."


def judge_products(inputs, result, expected):
    x = np.random.default_rng(3).normal(size=(2, len(inputs["flat"])))
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    side_by_side = np.concatenate([x @ kernel for kernel in np.asarray(result)], axis=-1)
    if np.allclose(side_by_side, x @ inputs["flat"]):
        return None
    return "the products with the small kernels, side by side, do not equal the product with the large one."


EXERCISE = Exercise(
    title="One large kernel is h small ones",
    question="Where are the h matrices if the class has only one? (seed 001, a textbook forum)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=2, unchanged=1),
        Check(
            "invariants",
            "X times the large kernel is X times each small one, side by side",
            2,
            draw,
            judge=judge_products,
        ),
        Check("values", "every element of the joined kernel is right", 2, draw_kernels, join),
        Check("invariants", "splitting and joining gives back the same kernel", 1, draw, there_and_back, judge_same),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "You reshaped the kernel to (H, I, O) in one step. That cuts through rows, so a head gets rows of the "
            "large matrix instead of columns. Cut the columns first, then move the head axis.",
            {SPLIT: "flat.reshape(num_heads, features, width // num_heads)"},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "reshaped-both-ways",
            "Both your functions only reshape. One undoes the other, but a head still gets rows of the large matrix "
            "instead of columns. Cut the columns first, then move the head axis.",
            {
                SPLIT: "flat.reshape(num_heads, features, width // num_heads)",
                JOIN: "kernels.reshape(rows, num_heads * size)",
            },
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-size-first",
            "You read the columns as (O, H), so a head gets every H-th column. A head is O neighbouring columns.",
            {SPLIT: "flat.reshape(features, width // num_heads, num_heads).transpose(2, 0, 1)"},
        ),
        Wrong(
            "heads-in-the-middle",
            "You left the head axis between I and O. The result is (H, I, O): move the heads to the front.",
            {SPLIT: "flat.reshape(features, num_heads, width // num_heads)"},
        ),
        Wrong(
            "kernel-transposed",
            "Your matrix of each head is (O, I). It must be (I, O), because X stands to its left in the product.",
            {SPLIT: "flat.reshape(features, num_heads, width // num_heads).transpose(1, 2, 0)"},
        ),
        Wrong(
            "columns-copied",
            "You gave every head the whole large matrix. Each head owns only its part of the columns.",
            {SPLIT: "np.stack([flat] * num_heads)"},
            "seed 001",
        ),
        Wrong(
            "first-head-for-all",
            "You gave every head the columns of the first head. Each head has columns of its own.",
            {SPLIT: "np.stack([flat[:, : width // num_heads]] * num_heads)"},
        ),
        Wrong(
            "join-not-transposed",
            "You joined the kernels with a reshape alone, so one row of the result is made of several rows of one "
            "head. Move the heads next to the columns first.",
            {JOIN: "kernels.reshape(rows, num_heads * size)"},
        ),
        Wrong(
            "join-interleaved",
            "When you joined the kernels, you alternated the columns of the heads. Keep all columns of one head side "
            "by side.",
            {JOIN: "kernels.transpose(1, 2, 0).reshape(rows, num_heads * size)"},
        ),
        Wrong(
            "join-summed",
            "When you joined the kernels, you summed the heads. They stand side by side, and none is lost.",
            {JOIN: "kernels.sum(axis=0)"},
        ),
    ),
)
