"""Checks of `jacobian_of_heads`, with kernels that mix everything and kernels with zeros."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

HEADS = "heads = kernel.reshape(features, num_heads, width // num_heads)"
JACOBIAN = "jacobian = np.transpose(heads, (1, 2, 0))"
ANY = "influential = np.any(jacobian != 0, axis=1)"
RETURN = "return jacobian, influential.sum(axis=-1)"


def draw(rng):
    """Draw features that reach only some outputs, derivatives that cancel within a head, and one unused feature."""
    heads, size, factor = sizes(rng, 3, least=2, most=5)
    features = heads * (factor + 2)
    kernel = rng.normal(size=(features, heads, size))
    kernel[rng.random(kernel.shape) < 0.4] = 0
    if size > 1:
        kernel[1, :, :] = 0
        kernel[1, :, 0], kernel[1, :, 1] = 2.5, -2.5
    kernel[0] = 0
    kernel[2 % features, 0] = 0
    return {"kernel": kernel.reshape(features, heads * size)[rng.permutation(features)], "num_heads": heads}


def draw_dense(rng):
    """Draw a kernel as it is before training: everything influences everything, if only a little.

    The number of heads does not divide the number of features.
    """
    heads, size, factor = sizes(rng, 3, least=2, most=5)
    features = heads * (factor + 2) + 1
    kernel = rng.normal(size=(features, heads * size))
    kernel[0, :size] *= 1e-200
    return {"kernel": kernel, "num_heads": heads}


def draw_blocks(rng):
    """Draw a kernel that does give every head a section of its own."""
    heads, size, section = sizes(rng, 3, least=2, most=5)
    kernel = np.zeros((heads, section, heads, size))
    for head in range(heads):
        kernel[head, :, head] = rng.normal(size=(section, size))
    return {"kernel": kernel.reshape(heads * section, heads * size), "num_heads": heads}


EXERCISE = Exercise(
    title="Does a head see a section of the embedding?",
    question="Do separate sections of the embedding go to separate heads? (seed 003, its last part)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=4),
        Check("edge", "a kernel without zeros", 2, draw_dense),
        Check("edge", "a kernel that gives each head a section of its own", 1, draw_blocks),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "section-of-the-input",
            "You counted I / H features, whatever the kernel holds. The sections are cut from the output of the "
            "linear layer, and that can depend on every input.",
            {RETURN: "return jacobian, np.full(num_heads, features // num_heads)"},
            "seed 003: separate sections of the Embedding",
        ),
        Wrong(
            "all-without-looking",
            "You counted I features for every head, whatever the kernel holds. If it has zeros, some features have no "
            "influence.",
            {RETURN: "return jacobian, np.full(num_heads, features)"},
        ),
        Wrong(
            "heads-size-first",
            "You cut the columns as (O, H), so a head gets every H-th column. Cut them as (H, O).",
            {
                HEADS: "heads = kernel.reshape(features, width // num_heads, num_heads)",
                JACOBIAN: "jacobian = np.transpose(heads, (2, 1, 0))",
            },
        ),
        Wrong(
            "heads-reshaped",
            "You reshaped the kernel to (H, O, I) without a transpose, which mixes rows and columns.",
            {JACOBIAN: "jacobian = kernel.reshape(num_heads, width // num_heads, features)"},
        ),
        Wrong(
            "derivatives-counted",
            "You counted derivatives that are not 0 instead of features. A feature that reaches several outputs of a "
            "head counts once.",
            {RETURN: "return jacobian, (jacobian != 0).sum(axis=(1, 2))"},
        ),
        Wrong(
            "derivatives-summed",
            "You summed a head's derivatives before you compared them with 0. Some of them cancel: compare each one.",
            {ANY: "influential = jacobian.sum(axis=1) != 0"},
        ),
        Wrong(
            "every-output-needed",
            "You counted a feature only if it reaches every output of the head. One output is enough.",
            {ANY: "influential = np.all(jacobian != 0, axis=1)"},
        ),
        Wrong(
            "outputs-counted",
            "You counted the outputs of a head. Count the input features that influence it.",
            {ANY: "influential = np.any(jacobian != 0, axis=2)"},
        ),
        Wrong(
            "heads-together",
            "You counted the features that influence any head. Count them for each head.",
            {RETURN: "return jacobian, np.full(num_heads, influential.any(axis=0).sum())"},
        ),
        Wrong(
            "nearly-zero-is-zero",
            "You take small derivatives for 0. The elements of a kernel are not rounded: compare them with 0 itself.",
            {ANY: "influential = np.any(~np.isclose(jacobian, 0), axis=1)"},
        ),
        Wrong(
            "positive-only",
            "You counted a feature only if a derivative is positive. A negative one is an influence too: compare with 0.",
            {ANY: ANY.replace("!=", ">")},
        ),
        Wrong(
            "all-heads-together",
            "You counted the features of all heads together. Each head has a number of its own, (H,).",
            {RETURN: RETURN.replace("influential.sum(axis=-1)", "influential.any(axis=0).sum()")},
        ),
    ),
)
