"""The checks of `program_11`. The mistake in it is `kernels-key-value-swapped`."""

import numpy as np

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "kernels-key-value-swapped"
ORDER = "query, key, value = parts"


def draw(rng):
    batch, positions, features, heads, size, outputs = sizes(rng, 6)
    return {
        "inputs": rng.normal(scale=features**-0.5, size=(batch, positions, features)),
        "packed_kernel": rng.normal(size=(features, 3 * heads * size)),
        "output_kernel": rng.normal(size=(heads * size, outputs)),
        "heads": heads,
    }


def trial(inputs):
    """Return the call for the bank, which has separate kernels (H, I, O)."""
    array, heads, weights = inputs["inputs"], inputs["heads"], {}
    for role, kernel in zip(("query", "key", "value"), np.split(inputs["packed_kernel"], 3, axis=1), strict=True):
        weights[f"{role}/kernel"] = kernel.reshape(len(kernel), heads, -1).swapaxes(0, 1)
    kernel = inputs["output_kernel"]
    weights["attention_output/kernel"] = kernel.reshape(heads, -1, kernel.shape[1])
    return Trial("asked", array, array, array, weights)


EXERCISE = Exercise(
    title="Program 11: one packed kernel",
    question="Why do weights that were trained elsewhere give nonsense here? (jsbaan/transformer-from-scratch#1)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "kernels-key-value-swapped",
            NOT_FIXED,
            {ORDER: "query, value, key = parts"},
            "jsbaan/transformer-from-scratch#1",
        ),
        Wrong(
            "kernels-query-key-swapped",
            "You exchanged query and key. Every position now uses as its query what the others should find as its key.",
            {ORDER: "key, query, value = parts"},
        ),
        Wrong(
            "kernels-query-value-swapped",
            "You exchanged query and value. The key is right.",
            {ORDER: "value, key, query = parts"},
        ),
        Wrong(
            "kernels-moved-on",
            "All three are in the wrong place: you have value, query, key.",
            {ORDER: "value, query, key = parts"},
        ),
        Wrong(
            "kernels-moved-back",
            "All three are in the wrong place: you have key, value, query.",
            {ORDER: "key, value, query = parts"},
        ),
        Wrong(
            "kernels-key-for-value",
            "You use the key as the value too, and never use the last third of the kernel.",
            {ORDER: "query, key, _ = parts\n    value = key"},
            "yflyzhang/AnnotatedTransformer#1",
        ),
        Wrong(
            "kernels-packed-by-head",
            "You read the columns as if each head had its query, key and value side by side. Here all of the query's columns come first.",
            {ORDER: "query, key, value = np.moveaxis(packed.reshape(*packed.shape[:2], heads, 3, -1), 3, 0)"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
