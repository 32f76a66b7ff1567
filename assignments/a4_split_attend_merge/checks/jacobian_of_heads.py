"""What is checked of `jacobian_of_heads`: kernels that mix everything, and kernels with zeros."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

HEADS = "heads = kernel.reshape(features, num_heads, width // num_heads)"
JACOBIAN = "jacobian = np.transpose(heads, (1, 2, 0))"
ANY = "influential = np.any(jacobian != 0, axis=1)"
RETURN = "return jacobian, influential.sum(axis=-1)"


def draw(rng):
    """Some features reach some outputs of a head only; some derivatives of a head cancel; one feature is not used."""
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
    """A kernel as it is drawn before training: everything influences everything."""
    heads, size, factor = sizes(rng, 3, least=2, most=5)
    features = heads * (factor + 2)
    return {"kernel": rng.normal(size=(features, heads * size)), "num_heads": heads}


def draw_blocks(rng):
    """A kernel with which every head does see a section of its own."""
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
        Check("edge", "a kernel with which each head has a section of its own", 1, draw_blocks),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "section-of-the-input",
            "The count is I / H, whatever the kernel holds: what is cut into sections is what comes out of the linear "
            "layer, and that can depend on every input.",
            {RETURN: "return jacobian, np.full(num_heads, features // num_heads)"},
            "seed 003: separate sections of the Embedding",
        ),
        Wrong(
            "all-without-looking",
            "The count is I for every head, whatever the kernel holds: with zeros in it some features have no "
            "influence.",
            {RETURN: "return jacobian, np.full(num_heads, features)"},
        ),
        Wrong(
            "heads-size-first",
            "The columns are cut as (O, H) in place of (H, O): a head gets every H-th column.",
            {
                HEADS: "heads = kernel.reshape(features, width // num_heads, num_heads)",
                JACOBIAN: "jacobian = np.transpose(heads, (2, 1, 0))",
            },
        ),
        Wrong(
            "heads-reshaped",
            "The kernel is reshaped to (H, O, I) without a transpose: rows and columns are mixed.",
            {JACOBIAN: "jacobian = kernel.reshape(num_heads, width // num_heads, features)"},
        ),
        Wrong(
            "derivatives-counted",
            "Derivatives that are not 0 are counted in place of features: a feature that reaches several of a head's "
            "outputs counts once.",
            {RETURN: "return jacobian, (jacobian != 0).sum(axis=(1, 2))"},
        ),
        Wrong(
            "derivatives-summed",
            "A head's derivatives by a feature are summed before they are compared with 0: some cancel.",
            {ANY: "influential = jacobian.sum(axis=1) != 0"},
        ),
        Wrong(
            "every-output-needed",
            "A feature counts only if it reaches every output of the head: one is enough.",
            {ANY: "influential = np.all(jacobian != 0, axis=1)"},
        ),
        Wrong(
            "outputs-counted",
            "The outputs of a head are counted, not the input's features that influence it.",
            {ANY: "influential = np.any(jacobian != 0, axis=2)"},
        ),
        Wrong(
            "heads-together",
            "Features are counted that influence any head: the question is for each head.",
            {RETURN: "return jacobian, np.full(num_heads, influential.any(axis=0).sum())"},
        ),
    ),
)
