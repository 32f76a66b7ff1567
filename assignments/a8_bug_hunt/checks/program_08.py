"""The checks of `program_08`. The mistake in it is `padding-on-queries`."""

import numpy as np

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "padding-on-queries"
MASKED = "logits = np.where(mask[:, None, None, :], logits, -1e9)"
PROJECTED = 'Q, K, V = np.einsum("BTI,RHIO->RBHTO", inputs, kernels)'


def draw(rng):
    """Return sentences of different lengths, with padding anywhere, at least one of them padded."""
    batch, positions, features, heads, size = sizes(rng, 5, least=3)
    lengths = rng.integers(1, positions + 1, size=batch)
    lengths[0] = max(positions - 2, 1)
    array = rng.normal(size=(batch, positions, features))
    array[::2] *= 10  # so that no finite number but a very negative one hides a logit
    return {
        "inputs": array,
        "kernels": rng.normal(scale=features**-0.5, size=(3, heads, features, size)),
        "mask": rng.permuted(np.arange(positions) < lengths[:, None], axis=1),
    }


def trial(inputs):
    """Return the call for the bank, with an output kernel that leaves the heads as they are."""
    array, kernels, mask = inputs["inputs"], inputs["kernels"], inputs["mask"]
    weights = {f"{role}/kernel": kernel for role, kernel in zip(("query", "key", "value"), kernels, strict=True)}
    heads, _, size = kernels[0].shape
    weights["attention_output/kernel"] = np.eye(heads * size).reshape(heads, size, heads * size)
    return Trial("asked", array, array, array, weights, key_mask=mask, query_mask=mask, fill=-1e9)


EXERCISE = Exercise(
    title="Program 8: three kernels in one array",
    question="The mask hides the padding's rows: why does padding still count? (lsdefine/attention-is-all-you-need-keras#16, hyunwoongko/transformer#40)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "padding-on-queries",
            NOT_FIXED,
            {MASKED: MASKED.replace("None, None, :", "None, :, None")},
            "lsdefine/attention-is-all-you-need-keras#16, hyunwoongko/transformer#40",
        ),
        Wrong(
            "padding-on-both",
            "You mask both rows and columns. A padded query then has nothing left, and attends to everything, including padding.",
            {MASKED: MASKED.replace("mask[:, None, None, :]", "mask[:, None, None, :] & mask[:, None, :, None]")},
        ),
        Wrong(
            "padding-inverted",
            "You hide the real tokens and attend to the padding.",
            {MASKED: MASKED.replace("mask[", "~mask[")},
            "nyu-mll/jiant#465",
        ),
        Wrong(
            "padding-ignored",
            "Your program no longer hides anything.",
            {MASKED: "pass"},
            "speechbrain/speechbrain#1107, huggingface/transformers#47946, rosinality/mac-network-pytorch#7",
        ),
        Wrong(
            "padding-zeroes-key",
            "You set the padding's keys or its logits to zero. It keeps a share of exp(0) of the softmax.",
            {MASKED: "pass", PROJECTED: PROJECTED + "\n    K = K * mask[:, None, :, None]"},
            "castorini/castor#176",
        ),
        Wrong(
            "padding-zeroes-value",
            "You set the padding's values to zero. The padding still takes its share of the softmax away from the others.",
            {MASKED: "pass", PROJECTED: PROJECTED + "\n    V = V * mask[:, None, :, None]"},
            "castorini/castor#176",
        ),
        Wrong(
            "padding-zeroes-output",
            "You set the padding's own outputs to zero. The other positions still attend to it.",
            {MASKED: "pass", "(*inputs.shape[:2], -1))": "(*inputs.shape[:2], -1)) * mask[..., None]"},
        ),
        Wrong(
            "fill-too-small",
            "Your number for hidden logits is not negative enough: visible logits can be far below zero too.",
            {MASKED: MASKED.replace("-1e9", "-30.0")},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
