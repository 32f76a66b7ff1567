"""The checks of `program_10`. The mistake in it is `merge-not-transposed`."""

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "merge-not-transposed"
JOINED = "np.concatenate(results, axis=-1)"


def draw(rng):
    batch, rows, columns, features, heads, size, outputs = sizes(rng, 7)
    kernels = {f"{role}_kernels": rng.normal(size=(heads, features, size)) for role in ("query", "key", "value")}
    return {
        "query": rng.normal(scale=features**-0.5, size=(batch, rows, features)),
        "key": rng.normal(scale=features**-0.5, size=(batch, columns, features)),
        "value": rng.normal(size=(batch, columns, features)),
        **kernels,
        "output_kernel": rng.normal(size=(heads * size, outputs)),
    }


def trial(inputs):
    """Return the call for the bank, whose output kernel is (H, O, E)."""
    weights = {f"{role}/kernel": inputs[f"{role}_kernels"] for role in ("query", "key", "value")}
    kernel, heads = inputs["output_kernel"], len(inputs["query_kernels"])
    weights["attention_output/kernel"] = kernel.reshape(heads, -1, kernel.shape[1])
    return Trial("asked", inputs["query"], inputs["key"], inputs["value"], weights)


EXERCISE = Exercise(
    title="Program 10: a list of heads",
    question="Every head is right, so why is the output not? (jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4, hackiey/QAnet-pytorch#2)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "merge-not-transposed",
            NOT_FIXED,
            {JOINED: "np.stack(results, axis=1).reshape(*query.shape[:2], -1)"},
            "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4, hackiey/QAnet-pytorch#2",
        ),
        Wrong(
            "merge-size-first",
            "You interleave the heads: first every head's feature 0, then every head's feature 1. The heads belong side by side.",
            {JOINED: "np.stack(results, axis=-1).reshape(*query.shape[:2], -1)"},
        ),
        Wrong(
            "merge-heads-reversed",
            "You join the heads in the opposite order. The output kernel expects head 0 first.",
            {JOINED: "np.concatenate(results[::-1], axis=-1)"},
        ),
        Wrong(
            "merge-averaged",
            "You average the heads and repeat the result. Put them side by side, so that each keeps its own features.",
            {JOINED: "np.tile(np.mean(results, axis=0), len(results))"},
            "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
        ),
        Wrong(
            "merge-last-head-only",
            "You use the last head's result for every head.",
            {JOINED: "np.tile(results[-1], len(results))"},
        ),
        Wrong(
            "merge-batch-in-front",
            "You read the list as if the batch stood first, which exchanges sentences and heads.",
            {
                JOINED: "np.reshape(results, (query.shape[0], len(results), query.shape[1], -1)).swapaxes(1, 2).reshape(*query.shape[:2], -1)"
            },
        ),
        Wrong(
            "merge-without-batch",
            "You reshape the list directly to the joined shape, which mixes sentences, heads and positions.",
            {JOINED: "np.reshape(results, (*query.shape[:2], -1))"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
