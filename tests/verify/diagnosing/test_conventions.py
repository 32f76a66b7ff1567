import numpy as np

from kmha.verify.chains.attention import Trial, run
from kmha.verify.diagnosing.conventions import ALL_ROLES, SINGLE, Convention, adapt, with_identity_kernels
from kmha.verify.diagnosing.trials import Sizes, draw_weights

B, T, S, H, O, I, E = 3, 4, 6, 2, 5, 10, 7
WEIGHTS = draw_weights(np.random.default_rng(0), Sizes(B, T, S, H, I, I, O, E))
RNG = np.random.default_rng(1)


def _trial(**options):
    key = RNG.normal(size=(B, S, I))
    return Trial("t", RNG.normal(size=(B, T, I)), key, key, WEIGHTS, **options)


def test_missing_biases_are_left_out():
    present = frozenset(name for name in WEIGHTS if name != "key/bias")
    trial = adapt(_trial(), Convention(), present)
    assert set(trial.weights) == present
    assert adapt(_trial(), Convention(), None).weights is WEIGHTS


def test_missing_projections_are_the_identity():
    trial = adapt(_trial(), Convention(), frozenset({"query/kernel", "key/kernel", "value/kernel"}))
    state = run(trial)
    np.testing.assert_allclose(state["output"], state["joined"])
    nothing = run(adapt(_trial(), Convention(), frozenset()))
    np.testing.assert_allclose(nothing["heads"]["key"][:, 1], nothing["inputs"]["key"][..., O:])


def test_identity_kernels():
    kernels = with_identity_kernels({}, H, O)
    assert set(kernels) == {f"{role}/kernel" for role in ALL_ROLES}
    x = RNG.normal(size=(B, T, H * O))
    heads = np.einsum("bpi,hio->bpho", x, kernels["value/kernel"])
    np.testing.assert_array_equal(heads.reshape(x.shape), x)
    np.testing.assert_array_equal(np.einsum("btho,hoe->bte", heads, kernels["attention_output/kernel"]), x)


def test_last_item_and_shared_arrays_stay_shared():
    masks = {"mask": RNG.random((B, T, S)) < 0.5, "key_mask": np.arange(S) < np.array([[6], [4], [3]])}
    before = _trial(**masks)
    trial = adapt(before, Convention(entry=SINGLE), None)
    assert trial.key is trial.value
    np.testing.assert_array_equal(trial.query, before.query[-1:])
    for name, mask in masks.items():
        np.testing.assert_array_equal(getattr(trial, name), mask[-1:])
    right, whole = run(trial)["output"], run(before)["output"]
    np.testing.assert_allclose(right, whole[-1:])


def test_a_mask_without_a_batch_is_the_same_for_all_items():
    mask = RNG.random((B, T, S)) < 0.5
    trial = adapt(_trial(mask=mask), Convention(mask_shape="T,S"), None)
    np.testing.assert_array_equal(trial.mask, np.broadcast_to(trial.mask[:1], mask.shape))


def test_causal_convention():
    assert adapt(_trial(), Convention(causal=True), None).causal
    assert not adapt(_trial(), Convention(), None).causal
