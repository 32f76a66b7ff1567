import contextlib
import subprocess
import sys

import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.judging import same
from kmha.course.judging.pipeline import judge
from kmha.verify.chains import ImpossibleError

DRAW = """
import numpy as np
import pytest
from kmha.course.exercises import content
(item,) = content.find("a8.catches", content.installed())
print(*item.spec.checks[0].draw(np.random.default_rng(3))["tokens"])
"""
# Whatever its frames show, it can only tell what it got and how often it was called.
READS_FRAMES = """
import sys

def catches(attention):
    inputs = sys._getframe(1).f_locals["inputs"]
    rng = np.random.default_rng(inputs["seed"])
    behind = rng.permutation(inputs["count"])
    assert behind[sys._getframe(1).f_locals["index"]] >= inputs["count"] - inputs["right"]
"""


def _item():
    (item,) = content.find("a8.catches", content.installed())
    return item


def test_no_token_says_what_it_stands_for():
    inputs = _item().spec.checks[0].draw(np.random.default_rng(3))
    assert inputs.keys() == {"tokens", "right"}
    assert inputs["tokens"] == sorted({*inputs["tokens"]})
    elsewhere = subprocess.run([sys.executable, "-c", DRAW], capture_output=True, text=True, check=True).stdout.split()
    assert len(elsewhere) == len(inputs["tokens"])
    assert not {*elsewhere} & {*inputs["tokens"]}


def test_an_answer_that_reads_frames(sandbox):
    grade = judge(_item(), READS_FRAMES, sandbox, seed=1, explained=False)
    assert grade.points == 0


def test_the_dtype_does_not_tell_which_are_right():
    item, rng = _item(), np.random.default_rng(3)
    arrays = 2 * rng.normal(size=(3, 2, 3, 4, 5))
    mask = np.tri(4, dtype=bool) & np.ones((2, 1, 1), bool)  # without it, every mistake in the mask looks right
    groups = []  # results that are equal, and their dtypes
    for token in item.spec.checks[0].draw(rng)["tokens"]:
        try:
            results = [item.spec.serve(token, *arrays, each) for each in (None, mask)]
        except ImpossibleError:
            continue
        like = next((dtypes for known, dtypes in groups if same(results, known, 1e-4)), None)
        if like is None:
            groups.append((results, like := []))
        like.append(results[0][0].dtype.name)
    often = [dtypes for _, dtypes in groups if len(dtypes) >= 24]  # as often as the right one
    assert len(often) > 1
    for dtypes in often:
        assert 0.25 < dtypes.count("float32") / len(dtypes) < 0.75


def test_simple_questions_leave_many_that_occur_often():
    """The sum of the rows and one ratio of scores told which of five results is right, 88 times in 100."""
    checks = sys.modules[_item().spec.checks[0].draw.__module__]
    passing = [id for id in checks.decoys() if checks.simplest_questions(id) == checks.simplest_questions()]
    assert (len({*checks.decoys()}), len(passing)) == (12, 8)
    behind = [id for id, _ in checks._implementations()]
    assert {behind.count(id) for id in (*checks.decoys(), None)} == {24}


def test_numbers_of_an_answer_give_no_warnings():
    """The teacher saw them. Here, they would be errors."""
    spec = _item().spec
    query, key, value = np.ones((3, 2, 3, 4, 5)) * [[[[[0.1]]]], [[[[np.inf]]]], [[[[1e308]]]]]
    for token in spec.checks[0].draw(np.random.default_rng(3))["tokens"]:
        with contextlib.suppress(ImpossibleError):
            spec.serve(token, query, query, value)
            spec.serve(token, query, key, value, np.tri(4, dtype=bool) & np.ones((2, 1, 1), bool))


def test_text_is_refused_before_it_becomes_an_array(monkeypatch):
    """Lists with a long text took gigabytes of memory outside the sandbox."""
    spec = _item().spec
    (token, *_) = spec.checks[0].draw(np.random.default_rng(3))["tokens"]
    monkeypatch.setattr(np, "size", lambda value: pytest.fail("an array was made"))
    with pytest.raises(ValueError, match="Received text"):
        spec.serve(token, ["x" * 2_000, *["a"] * 2_000], np.ones(3), [[["a"]]])


@pytest.mark.parametrize(
    ("query", "key", "value"),
    [
        ((0, 1, 60_000, 1), (0, 1, 60_000, 1), (0, 1, 60_000, 1)),
        ((1, 1, 10**9, 0), (1, 1, 1, 0), (1, 1, 1, 0)),
        ((1, 1, 20_000, 1), (1, 1, 1, 1), (1, 1, 1, 20_000)),
        ((1, 1, 1, 20_000), (1, 1, 1, 20_000), (1, 1, 1, 1)),
    ],
)
def test_a_computation_that_would_fill_the_memory_is_refused(query, key, value):
    """Products of these took gigabytes and half a minute outside the sandbox."""
    spec = _item().spec
    (token, *_) = spec.checks[0].draw(np.random.default_rng(3))["tokens"]
    with pytest.raises(ValueError, match=r"Received the shapes|too large"):
        spec.serve(token, *map(np.zeros, (query, key, value)))
