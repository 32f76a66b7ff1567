import contextlib
import subprocess
import sys

import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.judging.pipeline import judge
from kmha.verify.chains import ImpossibleError

DRAW = """
import numpy as np
import pytest
from kmha.course.exercises import content
(item,) = content.find("a8.catches", content.installed())
print(*item.spec.checks[0].draw(np.random.default_rng(3))["token"])
"""
# Each finds what it can on the stack, and takes what most of it has for right.
VOTES = """
import sys
import numpy as np

def _close(one, other):
    return np.shape(one) == np.shape(other) and np.all(np.abs(one - other) <= 1e-4 * np.abs(other).max())

def catches(attention):
    frame = sys._getframe(1)
    inputs, remote = frame.f_locals["inputs"], frame.f_globals["worker_api"].remote
    rng, mask = np.random.default_rng(3), np.tri(4, 5, dtype=bool) & np.ones((3, 1, 1), bool)
    arrays = [3 * rng.normal(size=(3, 2, length, 7)) for length in (4, 5, 5)]
    own, others = attention(*arrays, mask), []
    for token in np.ravel([*inputs.values()][0])[:80]:
        try:
            others.append(remote(str(token))(*arrays, mask))
        except ValueError:
            pass
    assert sum(_close(own[0], each[0]) and _close(own[1], each[1]) for each in others) > 0.04 * len(others)

def first_wrong_step(weights, query, value, mask, steps):
    frame = sys._getframe(1)
    while "inputs" not in frame.f_locals:
        frame = frame.f_back
    suspects = next((each for each in frame.f_locals["inputs"].values() if isinstance(each, list)), [steps])
    for name in ("query", "key", "value", "logits", "scores", "mixed", "output"):
        if 2 * sum(_close(steps[name], other[name]) for other in suspects) < min(len(suspects) - 1, 4):
            return name
    return ""
"""


def _item():
    (item,) = content.find("a8.catches", content.installed())
    return item


def test_no_token_says_what_it_stands_for():
    inputs = _item().spec.checks[0].draw(np.random.default_rng(3))
    assert inputs.keys() == {"token"}
    assert inputs["token"] == sorted({*inputs["token"]})
    elsewhere = subprocess.run([sys.executable, "-c", DRAW], capture_output=True, text=True, check=True).stdout.split()
    assert len(elsewhere) == len(inputs["token"])
    assert not {*elsewhere} & {*inputs["token"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a8.catches", "a9.first_wrong_step"])
def test_a_vote_over_all_that_is_judged(name, sandbox):
    """An answer took for right what most implementations, or suspects, agree on. It earned all points that way."""
    (item,) = content.find(name, content.installed())
    grade = judge(item, VOTES, sandbox, seed=3, explained=False)
    assert grade.points == 0
    assert grade.error is None


def test_numbers_of_an_answer_give_no_warnings():
    """The teacher saw them. Here, they would be errors."""
    spec = _item().spec
    query, key, value = np.ones((3, 2, 3, 4, 5)) * [[[[[0.1]]]], [[[[np.inf]]]], [[[[1e308]]]]]
    for token in spec.checks[0].draw(np.random.default_rng(3))["token"]:
        with contextlib.suppress(ImpossibleError):
            spec.serve(token, query, query, value)
            spec.serve(token, query, key, value, np.tri(4, dtype=bool) & np.ones((2, 1, 1), bool))


def test_text_is_refused_before_it_becomes_an_array(monkeypatch):
    """Lists with a long text took gigabytes of memory outside the sandbox."""
    spec = _item().spec
    (token, *_) = spec.checks[0].draw(np.random.default_rng(3))["token"]
    monkeypatch.setattr(np, "size", lambda value: pytest.fail("an array was made"))
    with pytest.raises(ValueError, match="Received text"):
        spec.serve(token, ["x" * 2_000, *["a"] * 2_000], np.ones(3), [[["a"]]])


def test_complex_numbers_are_refused():
    """NumPy printed a warning about them on the teacher's terminal."""
    spec = _item().spec
    (token, *_) = spec.checks[0].draw(np.random.default_rng(3))["token"]
    with pytest.raises(ValueError, match="Received complex numbers"):
        spec.serve(token, *[np.ones((1, 1, 2, 2), complex)] * 3)


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
    (token, *_) = spec.checks[0].draw(np.random.default_rng(3))["token"]
    with pytest.raises(ValueError, match=r"Received the shapes|too large"):
        spec.serve(token, *map(np.zeros, (query, key, value)))
