"""The checks of `program_02`. The mistake in it is `softmax-over-queries`."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "softmax-over-queries"
LARGEST = "logits.max(axis=1, keepdims=True)"
SUM = "powers.sum(axis=1, keepdims=True)"


def draw(rng):
    rows, columns, batch, heads, size = sizes(rng, 5)
    query = rng.normal(size=(rows, batch, heads, size))
    key, value = (rng.normal(size=(columns, batch, heads, size)) for _ in range(2))
    return {"query": query, "key": key, "value": value}


def draw_large(rng):
    """Return logits that are all larger than a thousand, and as far apart as others."""
    found = draw(rng)
    large = 40 * found["query"].shape[-1] ** 0.25
    return {name: np.append(found[name], np.full((*found[name].shape[:-1], 1), large), -1) for name in found}


def trial(inputs):
    """Return the call for the bank, which keeps the positions on the third axis."""
    return Trial("asked", *(inputs[name].transpose(1, 2, 0, 3) for name in ("query", "key", "value")))


EXERCISE = Exercise(
    title="Program 2: positions before the batch",
    question="Which axis does a softmax run over if the positions come first? (labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=4, unchanged=1, tolerance=EXACT),
        Check("edge", "logits larger than a thousand", 1, draw_large, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "softmax-over-queries",
            NOT_FIXED,
            {SUM: SUM.replace("1", "0"), LARGEST: LARGEST.replace("1", "0")},
            "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254",
        ),
        Wrong(
            "softmax-sum-over-queries",
            "You take only the largest logit over the keys. The sum still runs over the queries.",
            {SUM: SUM.replace("1", "0")},
        ),
        Wrong(
            "softmax-largest-over-queries",
            "You take only the sum over the keys. The largest logit is still taken over the queries, so each key of a query "
            "loses another number before the exponential.",
            {LARGEST: LARGEST.replace("1", "0")},
        ),
        Wrong(
            "softmax-overflow",
            "Large logits overflow. The program subtracted the largest one before exp, which changes no score.",
            {f" - {LARGEST}": ""},
            "pytorch/executorch#18407, NVIDIA/FasterTransformer#43, mila-iqia/blocks#727",
        ),
        Wrong(
            "softmax-over-heads",
            "Your softmax runs over the last axis, as it usually does. Here the last axis holds the heads.",
            {SUM: SUM.replace("1", "-1"), LARGEST: LARGEST.replace("1", "-1")},
        ),
        Wrong(
            "softmax-over-batch",
            "Your softmax runs over the batch, so sentences compete with each other.",
            {SUM: SUM.replace("1", "2"), LARGEST: LARGEST.replace("1", "2")},
        ),
        Wrong(
            "softmax-over-flattened",
            "Your softmax runs over queries and keys together. Each query's scores must sum to one by themselves.",
            {SUM: SUM.replace("1", "(0, 1)"), LARGEST: LARGEST.replace("1", "(0, 1)")},
            "asked in lucidrains/perceiver-pytorch#46",
        ),
        Wrong(
            "softmax-over-heads-and-keys",
            "Your softmax runs over keys and heads together. Each head's scores must sum to one by themselves.",
            {SUM: SUM.replace("1", "(1, 3)"), LARGEST: LARGEST.replace("1", "(1, 3)")},
            "facebookresearch/detr#247, singhgautam/slate#3",
        ),
        Wrong(
            "logits-clipped",
            "You cut large logits or their exponentials off at a bound. Beyond it they are all equal, and so are the "
            "scores. The program subtracted the largest logit before exp, which keeps them apart.",
            {f"logits - {LARGEST}": "np.clip(logits, -50, 50)"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE, lambda output: np.transpose(output, (2, 0, 1, 3))),
)
