"""Checks of `prune_head`, against the solution and against the whole layer with one head's output set to zero."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

SIZE = "size = len(output_kernel) // num_heads"
GONE = "gone = np.arange(head * size, (head + 1) * size)"
INNER = "inner = [np.delete(kernel, gone, axis=1) for kernel in (query_kernel, key_kernel, value_kernel)]"
RESULT = "return (*inner, np.delete(output_kernel, gone, axis=0))"


def draw_inputs(rng, which=None):
    """Draw an output that is wider than all heads together, so that its columns could be mistaken for its rows."""
    heads, size, *widths = sizes(rng, 5, least=2)
    heads = max(heads, 2)
    kernels = {
        f"{role}_kernel": rng.normal(size=(width, heads * size))
        for role, width in zip(("query", "key", "value"), widths, strict=True)
    }
    head = int(rng.integers(heads)) if which is None else which % heads
    output = rng.normal(size=(heads * size, heads * (size + 1) + 3))
    return {**kernels, "output_kernel": output, "num_heads": heads, "head": head}


def draw(rng):
    """Draw neither the first head nor the last, if there are at least three."""
    found = draw_inputs(rng)
    return {**found, "head": int(rng.integers(1, max(found["num_heads"] - 1, 2)))}


def draw_ends(rng):
    """Draw the first head or the last, and square kernels, I = H·O = E, so that no size tells rows from columns."""
    found = draw_inputs(rng, which=int(rng.choice([0, -1])))
    width = len(found["output_kernel"])
    return {**found, **{name: rng.normal(size=(width, width)) for name in found if name.endswith("kernel")}}


def layer_output(inputs, kernels, heads, without=None):
    """Return the layer's output on arrays of its own, with one head's output set to zero if `without` is given."""
    query_kernel, key_kernel, value_kernel, output_kernel = (np.asarray(kernel) for kernel in kernels)
    rng = np.random.default_rng(4)
    query = rng.normal(size=(2, 3, len(query_kernel))) @ query_kernel
    key = rng.normal(size=(2, 5, len(key_kernel))) @ key_kernel
    value = rng.normal(size=(2, 5, len(value_kernel))) @ value_kernel
    query, key, value = (each.reshape(*each.shape[:2], heads, -1) for each in (query, key, value))
    logits = np.einsum("BTHO,BSHO->BHTS", query, key) / np.sqrt(query.shape[-1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    mixed = np.einsum("BHTS,BSHO->BTHO", powers / powers.sum(axis=-1, keepdims=True), value)
    if without is not None:
        mixed[:, :, without] = 0
    return mixed.reshape(*mixed.shape[:2], -1) @ output_kernel


def judge_layer(inputs, result, expected):
    kernels = [inputs[f"{role}_kernel"] for role in ("query", "key", "value", "output")]
    heads, head = inputs["num_heads"], inputs["head"]
    if [np.shape(kernel) for kernel in result] != [np.shape(kernel) for kernel in expected]:
        return f"the kernels have the shapes {', '.join(str(np.shape(kernel)) for kernel in result)}."
    if np.allclose(layer_output(inputs, result, heads - 1), layer_output(inputs, kernels, heads, without=head)):
        return None
    return "the smaller layer does not give what the whole layer gives with this head's output set to zero."


EXERCISE = Exercise(
    title="Removing a head",
    question="Where in the large matrices is a head, and what has to go with it? (seed 001, on the h matrices; Michel "
    "et al. 2019)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1),
        Check(
            "invariants",
            "it gives what the whole layer gives with the head's output set to zero",
            2,
            draw,
            judge=judge_layer,
        ),
        Check("edge", "the first head, or the last, of square kernels", 1, draw_ends),
    ),
    wrong=(
        Wrong(
            "head-zeroed",
            "You set the head's numbers to zero. That is the same function, but the layer is as large as before. "
            "Remove the numbers.",
            {
                INNER: "inner = [kernel * ~np.isin(np.arange(kernel.shape[1]), gone) for kernel in "
                "(query_kernel, key_kernel, value_kernel)]",
                RESULT: "return (*inner, output_kernel * ~np.isin(np.arange(len(output_kernel)), gone)[:, None])",
            },
        ),
        Wrong(
            "output-kernel-whole",
            "You left the output kernel as it was. It still waits for the head that is gone: remove that head's rows.",
            {RESULT: "return (*inner, output_kernel)"},
        ),
        Wrong(
            "output-columns-removed",
            "You removed columns of the output kernel. Its columns are output features; a head enters through its "
            "rows.",
            {RESULT: RESULT.replace("axis=0", "axis=1")},
        ),
        Wrong(
            "other-rows-removed",
            "You always removed the rows of the first head from the output kernel. Remove the rows of the head that "
            "goes.",
            {RESULT: RESULT.replace("gone", "np.arange(size)")},
        ),
        Wrong(
            "heads-size-first",
            "You removed every H-th column. A head is O neighbouring columns.",
            {GONE: "gone = np.arange(head, len(output_kernel), num_heads)"},
        ),
        Wrong(
            "all-but-the-head-removed",
            "You kept only the head that was to go. Keep all the others.",
            {
                GONE: "gone = np.delete(np.arange(len(output_kernel)), np.arange(head * size, (head + 1) * size))",
            },
        ),
        Wrong(
            "heads-counted-from-one",
            "You removed the head before the right one. Heads are counted from 0.",
            {GONE: "gone = np.arange(head * size, (head + 1) * size) - size"},
        ),
        Wrong(
            "value-only",
            "You left the head's columns in the query and key kernels. Its scores would be computed for nothing, and "
            "the head size would no longer fit. Remove them there too.",
            {
                INNER: "inner = [query_kernel, key_kernel, np.delete(value_kernel, gone, axis=1)]",
            },
        ),
        Wrong(
            "one-column-removed",
            "You removed a single column for the head. A head has O columns.",
            {GONE: "gone = np.array([head])"},
        ),
        Wrong(
            "axis-by-size",
            "You look for the axis of the heads by its size. With a square output kernel, you cut its columns instead "
            "of its rows.",
            {RESULT: RESULT.replace("axis=0", "axis=int(output_kernel.shape[1] == len(output_kernel))")},
        ),
        Wrong(
            "key-kernel-whole",
            "You left the head in the key kernel. Query and key then have different numbers of heads, and cannot meet. "
            "Remove it there too.",
            {RESULT: RESULT.replace("*inner", "inner[0], key_kernel, inner[2]")},
        ),
        Wrong(
            "size-is-heads",
            "You took the number of heads for the size of a head. That is the number of columns, divided by the number of "
            "heads.",
            {SIZE: "size = num_heads", GONE: "gone = np.arange(len(output_kernel))[head * size : (head + 1) * size]"},
        ),
        Wrong(
            "last-column-left",
            "You left one column of the head. The end of a slice is not in it: do not subtract 1.",
            {GONE: GONE.replace("(head + 1) * size", "(head + 1) * size - 1")},
        ),
    ),
)
