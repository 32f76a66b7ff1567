import dataclasses

import numpy as np
import pytest

from kmha.verify.diagnosing.convention_search import find_convention
from kmha.verify.diagnosing.conventions import BATCH, HEADS, MASK_SHAPES, SINGLE, TIME, Convention
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.matching import Answer, TrialResult
from kmha.verify.diagnosing.trying import Fit, Tried, _varied, choose_convention


def _softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _attend(q, k, v, mask=None, axis=-1, scale=True):
    logits = q @ np.swapaxes(k, -1, -2) / (k.shape[-1] ** 0.5 if scale else 1.0)
    return _softmax(logits if mask is None else np.where(mask, logits, -1e9), axis) @ v


def right(q, k, v, mask=None):
    return _attend(q, k, v, mask)


def right_of_three(q, k, v, mask=None):
    return _attend(q, k, v, mask, axis=2)


def of_matrices(q, k, v):
    return _attend(q[None], k[None], v[None])[0]


def only_matrices(q, k, v):
    rows, _ = q.shape
    return _attend(q, k, v).reshape(rows, -1)


def unscaled(q, k, v):
    return _attend(q, k, v, scale=False)


def strange(q, k, v):
    return _attend(q, k, v) ** 3


def refuses(q, k, v):
    raise TypeError("no")


@pytest.mark.parametrize(
    ("function", "fit", "entry", "otherwise"),
    [
        (right, Fit.RIGHT, HEADS, None),
        (right_of_three, Fit.RIGHT, BATCH, HEADS),
        (only_matrices, Fit.RIGHT, SINGLE, None),
        (unscaled, Fit.EXPLAINED, HEADS, None),
        (strange, Fit.RUNS, HEADS, None),
        (refuses, Fit.RAISES, HEADS, None),
    ],
)
def test_input_layout(function, fit, entry, otherwise):
    found = find_convention(FunctionCandidate(function, "f", {}), 0)
    assert (found.fit, found.convention.entry, found.wrong_layout) == (fit, entry, otherwise)


def _mask_of(shape, cast):
    """Return right attention that takes its mask in one shape and dtype only."""

    def attend(q, k, v, mask=None):
        if mask is not None:
            assert mask.ndim == len(shape.split(","))
            mask = cast(mask)
        return _attend(q, k, v, mask)

    return attend


def _floating(mask):
    assert mask.dtype == "float64"
    return mask > 0


def _integers(mask):
    assert mask.dtype == "int32"
    return mask == 1


def _booleans(mask):
    assert mask.dtype == bool
    return mask


@pytest.mark.parametrize("shape", ["B,1,T,S", "T,S"])
@pytest.mark.parametrize(("cast", "dtype"), [(_floating, "float"), (_integers, "int32"), (_booleans, "bool")])
def test_the_mask_that_makes_it_right_is_taken(shape, cast, dtype):
    found = find_convention(FunctionCandidate(_mask_of(shape, cast), "f", {}), 0)
    assert (found.convention.mask_shape, found.convention.mask_dtype) == (shape, dtype)


def test_a_padding_mask_for_broadcasting():
    def attend(q, k, v, padding_mask=None):
        assert padding_mask is None or padding_mask.ndim == 4
        return _attend(q, k, v, padding_mask)

    found = find_convention(FunctionCandidate(attend, "f", {}), 0)
    assert found.convention.padding_shape == "B,1,1,S"


def test_float32_only_without_float64():
    def attend(q, k, v):
        assert q.dtype == "float32"
        return _attend(q, k, v)

    assert find_convention(FunctionCandidate(attend, "f", {}), 0).convention.dtype == "float32"
    assert find_convention(FunctionCandidate(right, "f", {}), 0).convention.dtype == "float64"


@pytest.mark.parametrize(("causal", "fit"), [(True, Fit.RIGHT), (False, Fit.RIGHT)])
def test_self_attention_may_be_causal_unasked(causal, fit):
    def attend(x, w_q, w_k, w_v, w_o):
        mask = np.tri(x.shape[1], dtype=bool) if causal else None
        return _attend(x @ w_q, x @ w_k, x @ w_v, mask) @ w_o

    found = find_convention(FunctionCandidate(attend, "f", {}), 0)
    assert (found.fit, found.convention.causal, found.convention.one_head) == (fit, causal, True)


def test_the_first_of_equals_is_chosen():
    candidate = FunctionCandidate(right, "f", {})
    candidate.use_layout(entry=HEADS)
    drawn = [trial for trial in candidate.draw(0, candidate.sizes(np.random.default_rng(0))) if trial.name == "mask"]
    options = [
        dataclasses.replace(candidate.convention, mask_dtype=dtype, mask_shape="B,1,T,S") for dtype in ("int32", "bool")
    ]
    assert choose_convention(candidate, options, drawn) == (Fit.RIGHT, 1.0)
    assert candidate.convention == options[0]


def test_the_meaning_with_which_one_mistake_explains_all_calls():
    def attend(q, k, v, mask=None):
        logits = q @ np.swapaxes(k, -1, -2)
        return _softmax(logits if mask is None else np.where(mask, -1e9, logits)) @ v

    found = find_convention(FunctionCandidate(attend, "f", {}), 0)
    assert found.convention.mask_meaning == "hides"  # and unscaled, but not with an inverted mask too


@pytest.mark.parametrize(("number", "meaning"), [(-1e9, "hides"), (1e-9, "hides")])
def test_code_for_boolean_masks_is_judged_with_them(number, meaning):
    def attend(q, k, v, mask=None):
        logits = q @ np.swapaxes(k, -1, -2) / k.shape[-1] ** 0.5
        if mask is not None and mask.dtype == bool:
            logits = np.where(mask, number, logits)
        elif mask is not None:
            logits = logits + mask
        return _softmax(logits) @ v

    found = find_convention(FunctionCandidate(attend, "f", {}), 0)
    assert (found.convention.mask_meaning, found.convention.mask_dtype) == (meaning, "bool")


def test_a_mask_with_the_batch_last_for_sequences_first():
    candidate = FunctionCandidate(right, "f", {})
    candidate.use_layout(entry=TIME)
    assert candidate.mask_shapes()[-1] == "T,S,B"
    assert MASK_SHAPES["T,S,B"](np.zeros((2, 3, 5)), 4).shape == (3, 5, 2)


def test_the_option_with_which_most_calls_run_is_chosen():
    def attend(q, k, v, mask=None):
        assert mask is None or mask.ndim == 4
        return _attend(q, k, v, mask, scale=False)

    candidate = FunctionCandidate(attend, "f", {})
    candidate.use_layout(entry=HEADS)
    drawn = [trial for trial in candidate.draw(0, candidate.sizes(np.random.default_rng(0))) if not trial.rate][:6]
    options = [dataclasses.replace(candidate.convention, mask_shape=shape) for shape in ("B,T,S", "B,1,T,S")]
    assert choose_convention(candidate, options, drawn) == (Fit.EXPLAINED, 1.0)
    assert candidate.convention == options[1]


def test_options_of_each_meaning_are_tried_before_a_second_one():
    def tried(meaning, dtype, answers=2):
        result = TrialResult(None, Answer())
        return Tried(Convention(mask_meaning=meaning, mask_dtype=dtype), (result,) * answers, "")

    options = [tried("attends", "bool"), tried("attends", "float"), tried("hides", "bool"), tried("adds", "float", 3)]
    order = [(one.option.mask_meaning, one.option.mask_dtype) for one in _varied(options)]
    assert order == [("adds", "float"), ("attends", "bool"), ("hides", "bool"), ("attends", "float")]
