import dataclasses

import numpy as np
import pytest

from kmha.verify import reference, tolerance
from kmha.verify.bank.indistinguishable import Configuration
from kmha.verify.chains.attention import (
    ATTENTION,
    CHAINS,
    ImpossibleError,
    Trial,
    causal,
    matmul,
    project,
    run,
    softmax,
)
from kmha.verify.diagnosing.trials import Accepts

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
CONFIGURATIONS = [
    Configuration(31, EVERYTHING),
    Configuration(32, EVERYTHING, use_bias=False),
    Configuration(33, dataclasses.replace(EVERYTHING, wide=True, cross=False)),
    Configuration(34, dataclasses.replace(EVERYTHING, value=False)),
]


def _by_loops(trial):
    """The reference's output and scores; a mask is the same for all heads."""
    heads = trial.weights["query/kernel"].shape[0]
    batch, rows, columns = len(trial.query), trial.query.shape[1], trial.key.shape[1]
    allowed = np.ones((batch, heads, rows, columns), bool)
    for b, h, t, s in np.ndindex(*allowed.shape):
        hidden = trial.mask is not None and not trial.mask[b, t, s]
        hidden |= trial.key_mask is not None and not trial.key_mask[b, s]
        allowed[b, h, t, s] = not (hidden or (trial.causal and s > t))
    return reference.attention(trial.query, trial.key, trial.value, trial.weights, allowed, trial.kept)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_agrees_with_the_reference(configuration, draw):
    for trial in draw(configuration):
        state = run(trial)
        for found, expected in zip((state["output"], state["returned"]), _by_loops(trial), strict=True):
            assert tolerance.is_close(found, expected, "float64"), trial.name


def test_the_core_is_the_reference_without_projections(draw):
    """Identity projections: head h is the h-th part of the features."""
    for trial in draw(Configuration(35, EVERYTHING, core=True)):
        heads, size = trial.query.shape[1], trial.query.shape[3]
        parts = np.eye(heads * size).reshape(heads * size, heads, size).transpose(1, 0, 2)
        weights = {f"{role}/kernel": parts for role in ("query", "key", "value")}
        weights["attention_output/kernel"] = parts.transpose(0, 2, 1)
        arrays = {
            role: np.concatenate(np.moveaxis(getattr(trial, role), 1, 0), axis=-1) for role in ("query", "key", "value")
        }
        output, scores = _by_loops(dataclasses.replace(trial, weights=weights, **arrays))
        state = run(trial)
        assert tolerance.is_close(state["returned"], scores, "float64"), trial.name
        expected = np.stack(np.split(output, heads, axis=-1), axis=1)
        assert tolerance.is_close(state["output"], expected, "float64"), trial.name


def test_every_step_is_stored_and_can_be_changed(draw):
    trial = draw(Configuration(36, Accepts()))[0]
    state = run(trial)
    assert state.keys() >= ATTENTION.keys()
    for step in ATTENTION:
        marked = {step: lambda state, right: (state.setdefault("seen", True), right(state))[1]}
        changed = run(trial, [marked])
        assert changed["seen"]
        np.testing.assert_array_equal(changed["output"], state["output"])


def test_an_earlier_change_is_the_later_one_s_right_step(draw):
    trial = draw(Configuration(36, Accepts()))[0]
    plus = {"scaled": lambda state, right: right(state) + state["logits"]}
    times = {"scaled": lambda state, right: right(state) * 3}
    size = trial.weights["query/kernel"].shape[2]
    logits = run(trial)["logits"]
    np.testing.assert_allclose(run(trial, [plus, times])["scaled"], 3 * (logits / size**0.5 + logits))
    np.testing.assert_allclose(run(trial, [times, plus])["scaled"], 3 * logits / size**0.5 + logits)


@pytest.mark.parametrize(
    "change",
    [
        {"logits": lambda state, right: np.ones((2, 3)) @ np.ones((2, 3))},
        {"heads": lambda state, right: {"query": state["biased"]["query"].reshape(7, -1, 11)}},
        {"joined": lambda state, right: state["mixed"][..., 99]},
        {"scores": lambda state, right: softmax(state["masked"], axis=9)},
        {"mixed": lambda state, right: matmul(np.ones((2, 3)), np.ones((5, 7)))},
    ],
)
def test_shapes_that_do_not_fit_are_impossible(change, draw):
    with pytest.raises(ImpossibleError):
        run(draw(Configuration(36, Accepts()))[0], [change])


def test_a_mistake_s_own_error_is_not_hidden(draw):
    with pytest.raises(ZeroDivisionError):
        run(draw(Configuration(36, Accepts()))[0], [{"scale": lambda state, right: 1 / 0}])


def test_allowed():
    mask = np.array([[[True, False, True], [True, True, True]]])
    arrays = (np.zeros((1, 2, 5)), np.zeros((1, 3, 5)), np.zeros((1, 3, 5)))
    trial = Trial("small", *arrays, mask=mask, causal=True, key_mask=np.array([[False, True, True]]))
    assert trial.allowed().tolist() == [[[False, False, False], [False, True, False]]]
    assert trial.empty_rows().tolist() == [[True, False]]
    padded = dataclasses.replace(trial, query_mask=np.array([[True, False]]))
    assert padded.empty_rows().tolist() == [[True, True]]
    np.testing.assert_array_equal(padded.allowed(), trial.allowed())
    assert trial.masked
    assert not Trial("none", *arrays).masked


@pytest.mark.parametrize(("rows", "columns"), [(2, 5), (5, 2), (3, 3)])
def test_causal(rows, columns):
    expected = [[s <= t for s in range(columns)] for t in range(rows)]
    np.testing.assert_array_equal(causal(rows, columns), expected)


def test_softmax_along_any_axes():
    logits = np.random.default_rng(0).normal(size=(2, 3, 5, 7)) * 300
    logits[1, :, 2] = -np.inf
    for axes in (-1, 1, (2, 3), (0, 1, 2, 3)):
        powers = np.exp(logits - logits.max(axes, keepdims=True, where=np.isfinite(logits), initial=-1e6))
        total = powers.sum(axes, keepdims=True)
        np.testing.assert_allclose(
            softmax(logits, axes), powers / np.where(total > 0, total, 1), rtol=1e-9, atol=1e-300
        )
    np.testing.assert_array_equal(softmax(logits)[1, :, 2], 0)


def test_project():
    rng = np.random.default_rng(1)
    array, kernel = rng.normal(size=(2, 5, 7)), rng.normal(size=(3, 7, 4))
    np.testing.assert_allclose(project(array, kernel), np.einsum("bpi,hio->bpho", array, kernel))
    with pytest.raises(ImpossibleError, match="the input has 7 features, the kernel 4"):
        project(array, kernel.swapaxes(1, 2))


def test_the_chain_has_its_name():
    assert CHAINS["attention"] is ATTENTION


def test_inputs_that_are_one_array_stay_one():
    query, key = np.zeros((2, 3, 5)), np.ones((2, 4, 5))
    mask = np.ones((2, 3, 4), bool)
    shared = Trial("one key", query, key, key).with_inputs(lambda array: array - 1.0, mask=mask)
    np.testing.assert_array_equal(shared.query, np.full((2, 3, 5), -1.0))
    np.testing.assert_array_equal(shared.key, np.zeros((2, 4, 5)))
    assert shared.key is shared.value
    assert shared.mask is mask
    apart = Trial("two", query, key, key.copy()).with_inputs(np.negative)
    assert apart.key is not apart.value


def test_known_results_are_not_computed_again():
    rng = np.random.default_rng(0)
    trial = Trial("plain", *(rng.normal(size=(2, 3, size, 7)) for size in (4, 5, 5)))
    change, known = {"scaled": lambda state, right: state["logits"]}, run(trial)
    found = run(trial, [change], known)
    assert found["logits"] is known["logits"]
    np.testing.assert_array_equal(found["output"], run(trial, [change])["output"])
    assert "scaled" in known
    np.testing.assert_array_equal(known["output"], run(trial)["output"])
