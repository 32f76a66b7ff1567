"""Right answers to `attention_scores` get all points, in whatever order they round."""

import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge

SCALED = "logits = logits / query.shape[-1] ** 0.5"
CASTS = "ops.cast(query, wide), ops.cast(key, wide))"
SOFTMAX = "scores = ops.softmax(ops.where(mask, logits, -1e30), axis=-1)"
VARIANTS = {
    "multiplied": {SCALED: "logits = logits * query.shape[-1] ** -0.5"},
    "query first": {SCALED: "", CASTS: CASTS.replace("wide),", "wide) / query.shape[-1] ** 0.5,")},
    "both": {SCALED: "", CASTS: CASTS.replace("wide)", "wide) / query.shape[-1] ** 0.25")},
    "logsumexp": {
        SOFTMAX: "logits = ops.where(mask, logits, -1e30)\n"
        "    scores = ops.exp(logits - ops.logsumexp(logits, axis=-1, keepdims=True))"
    },
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [6, 32])
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_order_of_roundings_loses_points(variant, seed, sandbox_of):
    (item,) = content.find("a6.attention_scores", content.installed())
    text = item.master.solution
    for old, new in VARIANTS[variant].items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    grade = judge(item, text, sandbox_of(item.spec.uses), seed=seed, explained=False)
    assert (grade.error, grade.points) == (None, 15)
