"""Passes on the backend that Keras computes with, whichever it is."""

import dataclasses

import keras
import numpy as np
import pytest

from kmha.bench import machine, memory, passes
from kmha.bench.attention_contenders import build
from kmha.bench.cases import BACKENDS, BUILTIN, DTYPES, KINDS, OURS, AttentionRow
from kmha.bench.contenders import ContendersDisagree, check_agreement, draw_inputs

BACKEND = keras.backend.backend()
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def _row(**given):
    sizes = {"batch": 2, "length": 12, "width": 16, "heads": 2, "window": 5}
    return AttentionRow(**{**sizes, "backend": BACKEND, "mode": BACKENDS[BACKEND][0], "step": True, **given})


def _results(name, row):
    contender = build(name, row, draw_inputs(row))
    return contender.results(contender.run())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", BACKENDS[BACKEND])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dropout"])
def test_both_layers_give_the_same(kind, mode, dtype):
    row = _row(kind=kind, mode=mode, dtype=dtype)
    expected, found = _results(BUILTIN, row), _results(OURS, row)
    assert len(expected) == 2 + 8
    check_agreement(row, OURS, found, BUILTIN, expected, passes.precision(dtype))
    forward = _results(OURS, _row(kind=kind, mode=mode, dtype=dtype, step=False))
    check_agreement(row, "forward", forward, OURS, found, passes.precision(dtype))
    plain = _results(OURS, _row(mode=mode, dtype=dtype))
    if kind != "plain":
        with pytest.raises(ContendersDisagree):
            check_agreement(row, OURS, plain, BUILTIN, expected, passes.precision(dtype))


def test_dropout_drops_at_each_run():
    contender = build(OURS, _row(kind="dropout"), draw_inputs(_row()))
    one, other = (contender.results(contender.run())["output"] for _ in range(2))
    assert np.isfinite(one).all()
    if BACKEND != "jax":  # there, the compiled pass starts from the same seed
        assert np.abs(one - other).max() > 0.01


def test_the_gradients_are_those_of_the_loss():
    row, step = _row(), 1e-2
    given = draw_inputs(row)
    expected = _results(OURS, row)["d input"]
    change = np.zeros_like(given.x)
    change[1, 3, 5] = step
    losses = []
    for sign in (1, -1):
        contender = build(OURS, _row(step=False), dataclasses.replace(given, x=given.x + sign * change))
        losses.append((contender.results(contender.run())["output"].astype("float64") * given.upstream).sum())
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(float(expected[1, 3, 5]), rel=1e-2, abs=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_product(dtype):
    found = passes.product(7, dtype)()
    assert tuple(found.shape) == (7, 7)
    assert keras.backend.standardize_dtype(found.dtype) == dtype


def test_on_a_processor_memory_is_resident():
    if passes.accelerator():
        pytest.skip("an accelerator computes")
    assert passes.peak_on_device(lambda: bytearray(10_000_000)) is None
    assert passes.precision("float32") == "float32"
    assert "accelerator" not in machine.describe(passes.accelerator())
    assert machine.describe("some GPU")["accelerator"] == "some GPU"


@pytest.mark.slow
def test_memory_is_measured_on_the_backend_of_the_row():
    row = _row(length=512, kind="causal")
    assert all(memory.measure_peak(name, row) > 100_000 for name in (BUILTIN, OURS))
