"""What is checked of `program_02`; the mistake in it is `softmax-over-queries`."""

import numpy as np

from kmha.course.exercises import Exercise, Wrong, sizes, standard
from kmha.course.judging import bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "softmax-over-queries"
LARGEST = "logits.max(axis=1, keepdims=True)"
SUM = "powers.sum(axis=1, keepdims=True)"


def draw(rng):
    rows, columns, batch, heads, size = sizes(rng, 5)
    query = rng.normal(size=(rows, batch, heads, size))
    key, value = (rng.normal(size=(columns, batch, heads, size)) for _ in range(2))
    return {"query": query, "key": key, "value": value}


def trial(inputs):
    """The call for the bank, which has the positions third."""
    return Trial("asked", *(inputs[name].transpose(1, 2, 0, 3) for name in ("query", "key", "value")))


EXERCISE = Exercise(
    title="Program 2: positions before the batch",
    question="Which axis does a softmax go over, if the positions stand first? (labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "softmax-over-queries",
            "It is named, and not mended yet. The softmax runs over the queries: the scores of a key sum to one, those of a query to anything.",
            {SUM: SUM.replace("1", "0"), LARGEST: LARGEST.replace("1", "0")},
            "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254",
        ),
        Wrong(
            "softmax-sum-over-queries",
            "Only the largest logit is taken over the keys; the sum still runs over the queries.",
            {SUM: SUM.replace("1", "0")},
        ),
        Wrong(
            "softmax-over-heads",
            "The softmax runs over the last axis, as so often. Here the last axis is the heads'.",
            {SUM: SUM.replace("1", "-1"), LARGEST: LARGEST.replace("1", "-1")},
        ),
        Wrong(
            "softmax-over-batch",
            "The softmax runs over the batch: sentences compete with each other.",
            {SUM: SUM.replace("1", "2"), LARGEST: LARGEST.replace("1", "2")},
        ),
        Wrong(
            "softmax-over-flattened",
            "The softmax runs over queries and keys together: each query must have a sum of one for itself.",
            {SUM: SUM.replace("1", "(0, 1)"), LARGEST: LARGEST.replace("1", "(0, 1)")},
            "asked in lucidrains/perceiver-pytorch#46",
        ),
        Wrong(
            "softmax-over-heads-and-keys",
            "The softmax runs over keys and heads together: each head must have a sum of one for itself.",
            {SUM: SUM.replace("1", "(1, 3)"), LARGEST: LARGEST.replace("1", "(1, 3)")},
            "facebookresearch/detr#247, singhgautam/slate#3",
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE, lambda output: np.transpose(output, (2, 0, 1, 3))),
)
