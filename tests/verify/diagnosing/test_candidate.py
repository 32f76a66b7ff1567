import warnings

import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.candidate import Candidate, error_line, quietly
from kmha.verify.diagnosing.conventions import BATCH, HEADS, SINGLE, TIME
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.trials import Accepts, Sizes

SIZES = Sizes(batch=4, rows=5, columns=7, heads=2, features=13, key_features=13, size=3, width=17)


class Recorded(Candidate):
    """A candidate with a given result."""

    def __init__(self, result, core=False, **convention):
        self.result, self.core = result, core
        self.use_layout(**convention)

    def call(self, trial):
        return (self.result(trial) if callable(self.result) else self.result), []


def _first(candidate):
    return candidate.draw(0, SIZES)[0]


@pytest.mark.parametrize(
    ("entry", "core", "shape"),
    [
        (HEADS, True, (4, 2, 5, 3)),
        (BATCH, True, (4, 5, 3)),
        (SINGLE, True, (5, 3)),
        (BATCH, False, (4, 5, 17)),
        (SINGLE, False, (5, 17)),
        (TIME, False, (5, 4, 17)),
    ],
)
def test_the_axes_of_an_answer(entry, core, shape):
    candidate = Recorded(np.arange(float(np.prod(shape))).reshape(shape), core, entry=entry)
    one = candidate.evaluate(_first(candidate))
    assert one.answer.error == ""
    assert one.answer.output.shape == one.right["output"].shape


@pytest.mark.parametrize(
    ("entry", "heads", "shape", "expected"),
    [
        (BATCH, 2, (4, 2, 5, 7), (4, 2, 5, 7)),
        (SINGLE, 2, (2, 5, 7), (1, 2, 5, 7)),
        (BATCH, 2, (4, 5, 7), (4, 5, 7)),  # their mean over the heads
        (BATCH, 2, (4, 2, 5, 3), None),  # such as a cache
        (BATCH, 1, (4, 5, 7), (4, 1, 5, 7)),
        (SINGLE, 1, (5, 7), (1, 1, 5, 7)),
    ],
)
def test_the_axes_of_scores(entry, heads, shape, expected):
    candidate = Recorded(lambda trial: (np.zeros((1, 5, 17)), np.zeros(shape)), entry=entry)
    trial = next(candidate.iter_trials(0, Sizes(4, 5, 7, heads, 13, 13, 3, 17)))
    scores = candidate.evaluate(trial).answer.scores
    assert (None if scores is None else scores.shape) == expected


@pytest.mark.parametrize(
    ("dtype", "said_dtype"), [("float16", "float16"), ("float32", "float32"), ("int64", "float64")]
)
def test_the_dtype_of_an_answer(dtype, said_dtype):
    candidate = Recorded(np.zeros((4, 5, 17), dtype))
    answer = candidate.evaluate(_first(candidate)).answer
    assert answer.dtype == said_dtype
    assert answer.output.dtype == "float64"


@pytest.mark.parametrize("result", [None, "text", (None, None), {}, ([1, [2]],), object(), np.array(["a"])])
def test_non_numeric_answer(result):
    candidate = Recorded(result)
    assert "expected an array" in candidate.evaluate(_first(candidate)).answer.error


@pytest.mark.parametrize("result", [[], 3.0, np.zeros(5), np.zeros((4, 5)), np.zeros((0, 5, 17)), np.array(1 + 2j)])
def test_answer_of_another_shape_is_not_right(result):
    candidate = Recorded(result)
    one = candidate.evaluate(_first(candidate))
    assert one.answer.error or one.answer.output.shape != one.right["output"].shape


def _raising(error):
    def call(trial):
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("first\nsecond"), "ValueError: first"),
        (KeyError("name"), "KeyError: 'name'"),
        (SystemExit(2), "SystemExit: 2"),
        (RecursionError(), "RecursionError: "),
        (
            ValueError("Exception encountered when calling X.call().\n\n\x1b[1mthe reason\x1b[0m\n"),
            "ValueError: the reason",
        ),
    ],
)
def test_an_error_is_an_answer(error, text):
    candidate = Recorded(_raising(error))
    assert candidate.evaluate(_first(candidate)).answer.error == text
    assert error_line(error) == text


def test_ctrl_c_is_not_an_answer():
    candidate = Recorded(_raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        candidate.evaluate(_first(candidate))


def test_inputs_changed_in_place_are_detected():
    def attend(query, key, value):
        value += 1.0
        return value

    candidate = FunctionCandidate(attend, "f", {})
    assert not candidate.evaluate(_first(candidate)).answer.untouched
    assert Recorded(np.zeros((4, 5, 17))).evaluate(_first(Recorded(0))).answer.untouched


def test_output_and_warnings_of_the_candidate_are_redirected(capsys):
    with quietly():
        print("hello")
        warnings.warn("careful", stacklevel=1)
    assert capsys.readouterr() == ("", "hello\n")


def test_smaller_sizes_begin_with_one_of_everything():
    candidate = Recorded(0.0)
    sizes = list(candidate.smaller_sizes(SIZES))
    first = sizes[0]
    assert (first.batch, first.rows, first.columns, first.heads, first.size) == (1, 1, 1, 1, 1)
    products = [one.batch * one.rows * one.columns * one.heads * one.size for one in sizes]
    assert products == sorted(products)
    candidate.weights = {}
    held = list(candidate.smaller_sizes(SIZES))
    assert {(one.heads, one.size, one.features, one.width) for one in held} == {(2, 3, 13, 17)}


def test_iter_trials_yields_what_draw_returns():
    candidate = FunctionCandidate(lambda q, k, v, mask=None: q, "f", {})
    both = zip(candidate.draw(3, SIZES), candidate.iter_trials(3, SIZES), strict=True)
    for mine, theirs in both:
        assert mine.name == theirs.name
        np.testing.assert_array_equal(run(mine)["output"], run(theirs)["output"])


@pytest.mark.parametrize(
    ("accepts", "given", "expected"),
    [
        (Accepts(), {}, (False, True)),
        (Accepts(causal=True), {}, (False,)),
        (Accepts(), {"causal": True}, (True,)),
        (Accepts(), {"is_causal": False}, (False,)),
        (Accepts(), {"num_heads": 2}, (False, True)),
    ],
)
def test_attention_may_be_causal_unless_its_flag_says(accepts, given, expected):
    candidate = Recorded(0.0)
    candidate.accepts, candidate.given = accepts, given
    assert candidate.causal_options() == expected
