"""The checks of `program_09`. The mistake in it is `heads-reshaped`."""

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "heads-reshaped"
SPLIT = "return array.reshape(batch, positions, heads, width // heads).swapaxes(1, 2)"
RESHAPED = "{}.reshape(len(query), heads, -1, query_kernel.shape[1] // heads)"
MERGED = "mixed.swapaxes(1, 2).reshape("


def draw(rng):
    batch, rows, columns, features, heads, size, outputs = sizes(rng, 7)
    kernels = {f"{role}_kernel": rng.normal(size=(features, heads * size)) for role in ("query", "key", "value")}
    return {
        "query": rng.normal(scale=features**-0.5, size=(batch, rows, features)),
        "value": rng.normal(scale=features**-0.5, size=(batch, columns, features)),
        **kernels,
        "output_kernel": rng.normal(size=(heads * size, outputs)),
        "heads": heads,
    }


def trial(inputs):
    """Return the call for the bank, whose kernels are (H, I, O)."""
    heads, weights = inputs["heads"], {}
    for role in ("query", "key", "value"):
        kernel = inputs[f"{role}_kernel"]
        weights[f"{role}/kernel"] = kernel.reshape(len(kernel), heads, -1).swapaxes(0, 1)
    kernel = inputs["output_kernel"]
    weights["attention_output/kernel"] = kernel.reshape(heads, -1, kernel.shape[1])
    return Trial("asked", inputs["query"], inputs["value"], inputs["value"], weights)


EXERCISE = Exercise(
    title="Program 9: kernels as matrices",
    question="The heads have the right shape: what else can be wrong with them? (reczoo/FuxiCTR#30)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "heads-reshaped",
            NOT_FIXED,
            {SPLIT: "return array.reshape(batch, heads, positions, width // heads)"},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-reshaped-and-merged",
            "You changed the merge to fit the wrong split. Now both are reshapes, and a head is a part of the positions.",
            {SPLIT: "return array.reshape(batch, heads, positions, width // heads)", MERGED: "mixed.reshape("},
            "reczoo/FuxiCTR#30, 649453932/Chinese-Text-Classification-Pytorch#53",
        ),
        Wrong(
            "merge-not-transposed",
            "Your split is right now. But the merge, which was right before, no longer transposes back.",
            {MERGED: "mixed.reshape("},
            "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4, hackiey/QAnet-pytorch#2",
        ),
        Wrong(
            "heads-size-first",
            "You cut the features as (O, H). A head then gets every H-th feature instead of O neighbours.",
            {SPLIT: "return array.reshape(batch, positions, width // heads, heads).transpose(0, 3, 1, 2)"},
        ),
        Wrong(
            "heads-reshaped-query",
            "You split key and value correctly, but not the query.",
            {"split(query @ query_kernel)": RESHAPED.format("(query @ query_kernel)")},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-reshaped-key",
            "You split query and value correctly, but not the key.",
            {"split(value @ key_kernel)": RESHAPED.format("(value @ key_kernel)")},
            "reczoo/FuxiCTR#30",
        ),
        Wrong(
            "heads-reshaped-value",
            "You split query and key correctly, but not the value.",
            {"split(value @ value_kernel)": RESHAPED.format("(value @ value_kernel)")},
            "reczoo/FuxiCTR#30",
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
