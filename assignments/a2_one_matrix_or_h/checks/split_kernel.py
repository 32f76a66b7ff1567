"""What is checked of `split_kernel` and `join_kernels`."""

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


def same(inputs, result, expected):
    if np.shape(result) != inputs["flat"].shape:
        return f"joined again it has the shape {np.shape(result)}, and was {inputs['flat'].shape}."
    return None if np.array_equal(result, inputs["flat"]) else "split and joined again it is another kernel."


def products(inputs, result, expected):
    x = np.random.default_rng(3).normal(size=(2, len(inputs["flat"])))
    if np.shape(result) != np.shape(expected):
        return f"it has the shape {np.shape(result)}, expected {np.shape(expected)}."
    side_by_side = np.concatenate([x @ kernel for kernel in np.asarray(result)], axis=-1)
    if np.allclose(side_by_side, x @ inputs["flat"]):
        return None
    return "the products with the small kernels, side by side, are not the product with the large one."


EXERCISE = Exercise(
    title="One large kernel is h small ones",
    question="Where are the h matrices if the class has only one? (seed 001, a textbook's forum)",
    difficulty=1,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=2, unchanged=1),
        Check(
            "invariants", "X times the large kernel is X times each small one, side by side", 2, draw, judge=products
        ),
        Check("values", "joined: every element is right", 2, draw_kernels, join),
        Check("invariants", "split and joined it is what it was", 1, draw, there_and_back, same),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            "The kernel is reshaped to (H, I, O) at once: that cuts through rows, and a head gets rows of the large "
            "matrix in place of columns.",
            {SPLIT: "flat.reshape(num_heads, features, width // num_heads)"},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "reshaped-both-ways",
            "Both functions are a reshape alone: one undoes the other, and yet a head gets rows of the large matrix in "
            "place of columns.",
            {
                SPLIT: "flat.reshape(num_heads, features, width // num_heads)",
                JOIN: "kernels.reshape(rows, num_heads * size)",
            },
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-size-first",
            "The columns are read as (O, H): a head gets every H-th column in place of neighbouring ones.",
            {SPLIT: "flat.reshape(features, width // num_heads, num_heads).transpose(2, 0, 1)"},
        ),
        Wrong(
            "heads-in-the-middle",
            "The head axis stands between I and O: asked for is (H, I, O).",
            {SPLIT: "flat.reshape(features, num_heads, width // num_heads)"},
        ),
        Wrong(
            "kernel-transposed",
            "Each head's matrix is (O, I): it must be (I, O), for it is multiplied from the right.",
            {SPLIT: "flat.reshape(features, num_heads, width // num_heads).transpose(1, 2, 0)"},
        ),
        Wrong(
            "columns-copied",
            "Every head gets the whole large matrix: each has a part of its columns only.",
            {SPLIT: "np.stack([flat] * num_heads)"},
            "seed 001",
        ),
        Wrong(
            "first-head-for-all",
            "Every head gets the first head's columns.",
            {SPLIT: "np.stack([flat[:, : width // num_heads]] * num_heads)"},
        ),
        Wrong(
            "join-not-transposed",
            "The kernels are joined by a reshape alone: a row of the result is made of several rows of one head.",
            {JOIN: "kernels.reshape(rows, num_heads * size)"},
        ),
        Wrong(
            "join-interleaved",
            "When they are joined, the heads' columns alternate: all columns of one head stand side by side.",
            {JOIN: "kernels.transpose(1, 2, 0).reshape(rows, num_heads * size)"},
        ),
        Wrong(
            "join-summed",
            "When they are joined, the heads are summed: they stand side by side, and none is lost.",
            {JOIN: "kernels.sum(axis=0)"},
        ),
    ),
)
