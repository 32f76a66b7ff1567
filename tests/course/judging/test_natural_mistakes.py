"""Answers that learners gave, and that no list of wrong answers had: each is named, or said in words."""

import pytest

from kmha.course.exercises import content
from kmha.course.exercises.exercise import Wrong
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import needed_solutions
from kmha.sandbox.sandbox import Pool

SEED = 77
CROSS = 'np.einsum("BSI,HIO->BSHO", enc_output, {}_kernel)'
ONE_FOR_ALL = """    x, folded = x[:, None], kernel @ head_kernels
    once, printed, unfolded = x @ folded, x @ kernel @ folded, x @ kernel @ head_kernels
    holds = [np.allclose(once, printed), np.allclose(printed, unfolded), np.allclose(once, unfolded)]
    return folded, np.array(holds)
    folded = """


@pytest.fixture(scope="module")
def pool():
    with Pool() as pool:
        yield pool


def _judge(pool, id, edits):
    (item,) = content.find(id)
    code = Wrong("", "", edits).text(item.master.solution)
    return judge(item, code, pool.get(item.spec.uses), seed=SEED, files=needed_solutions(item))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("id", "edits", "mistake", "says"),
    [
        (
            "a1.cross_kv",
            {CROSS.format(role): f"enc_output @ {role}_kernel" for role in ("key", "value")},
            "error-matmul-batch",
            "`@` cannot pair these (enc_output (",
        ),
        ("a1.cross_kv", {"return key, value": "print(key, value)"}, "returned-nothing", "`cross_kv` has no `return`"),
        ("a4.masks_from_ids", {"[:, None, :]": "[:, :, None]"}, "padding-on-queries", ""),
        ("a3.fold_kernels", {"    folded = ": ONE_FOR_ALL}, "axis-combined", "`result[1]` lacks axis 0"),
        (
            "a8.program_08",
            {"powers / np.sum(powers, axis=-1, keepdims=True)": "powers / (1e-6 + powers.sum(axis=-1, keepdims=True))"},
            "result-nearly-right",
            "",
        ),
        ("a7.get_angles", {"positions / power": "positions // power"}, "result-rounded-down", "whole numbers"),
        (
            "a2.draw_heads",
            {"axes[0]": "axes", "squeeze=False, ": "", "vmin=0, vmax=heads.max()": ""},
            "own-colours",
            "",
        ),
    ],
)
def test_what_learners_wrote(pool, id, edits, mistake, says):
    found = _judge(pool, id, edits).mistake
    assert found is not None
    assert found.id == mistake
    assert says in found.says


def test_an_answer_that_cannot_be_loaded(pool):
    grade = _judge(pool, "a1.cross_kv", {"import numpy as np": "SIZE = np.float64(3)"})
    assert grade.mistake.id == "error-name"


@pytest.mark.slow
def test_a_softmax_over_one_key_is_no_warning(pool):
    """Keras asked "Did you mean to use a sigmoid instead?" of inputs with one key, which the checks draw."""
    grade = _judge(pool, "a6.attention_scores", {})
    assert grade.points == sum(outcome.check.points for outcome in grade.outcomes)
    assert grade.printed == ""
