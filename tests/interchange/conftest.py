"""Fixtures for the tests of all layouts: round trips bit for bit, and random weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kmha.interchange import Layout, from_canonical, to_canonical

H, I, J, K, O, V, E = 3, 8, 5, 7, 4, 6, 11


@pytest.fixture
def round_trip() -> Callable[..., dict[str, np.ndarray]]:
    """Checks foreign → canonical → foreign → canonical, bit for bit, and gives the canonical weights."""

    def check(weights: dict[str, Any], layout: str | Layout, num_heads: int | None = None) -> dict[str, np.ndarray]:
        arrays = {name: np.asarray(array) for name, array in weights.items()}
        canonical = to_canonical(arrays, layout, num_heads=num_heads)
        back = from_canonical(canonical, layout)
        assert not canonical.notes
        assert not back.notes
        _check_identical(back, arrays)
        _check_identical(to_canonical(back, layout, num_heads=num_heads), canonical)
        return canonical

    return check


@pytest.fixture
def random_weights() -> Callable[..., dict[str, np.ndarray]]:
    """Random canonical weights of one attention layer; sizes may be given."""

    def make(
        h: int = H, i: int = I, j: int = J, k: int = K, o: int = O, v: int = V, e: int = E, **options: Any
    ) -> dict[str, np.ndarray]:
        groups = options.get("groups", h)
        shapes = {"query": (h, i, o), "key": (groups, j, o), "value": (groups, k, v)}
        shapes |= {"gate": (h, i, v)} if options.get("gate") else {}
        biases = {f"{role}/bias": (shape[0], shape[2]) for role, shape in shapes.items()} | {
            "attention_output/bias": (e,)
        }
        kernels = {f"{role}/kernel": shape for role, shape in shapes.items()} | {"attention_output/kernel": (h, v, e)}
        names = kernels | (biases if options.get("bias", True) else {})
        rng = np.random.default_rng(options.get("seed", 0))
        return {name: rng.normal(size=shape).astype(options.get("dtype", "float64")) for name, shape in names.items()}

    return make


def _check_identical(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype, name
        assert actual[name].shape == array.shape, name
        assert actual[name].tobytes() == array.tobytes(), name
