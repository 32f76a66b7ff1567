"""Linear attention, φ(q) (φ(k)ᵀ v) over its sum, where φ is ELU + 1 (Katharopoulos et al. 2020)."""

import pytest

from kmha.verify import diagnose

elu = pytest.importorskip("torch.nn.functional").elu


def linear(q, k, v, lengths=None, tiny=1e-6):
    """Attend from (batch, places, heads, features). `lengths` has 1 for real keys."""
    q, k = 1 + elu(q), 1 + elu(k)
    if lengths is not None:
        k = k * lengths[:, :, None, None]
    numerator = q.movedim(1, 2) @ (k.movedim(1, 2).mT @ v.movedim(1, 2))
    denominator = q.movedim(1, 2) @ k.sum(1)[..., None] + tiny
    return (numerator / denominator).movedim(2, 1)


def exact(q, k, v):
    return linear(q, k, v, tiny=0)


def smaller(q, k, v):
    return linear(q, k, v, tiny=1e-8)


def values_hidden_alone(q, k, v, lengths=None):
    return linear(q, k, v) if lengths is None else linear(q, k, v * lengths[:, :, None, None])


def without_sum(q, k, v):
    """Is a design too, and not this one."""
    q, k = (1 + elu(each).movedim(1, 2) for each in (q, k))
    return (q @ (k.mT @ v.movedim(1, 2))).movedim(2, 1)


@pytest.mark.parametrize("function", [linear, exact, smaller])
@pytest.mark.parametrize("seed", [0, 6])
def test_right_functions_are_right(function, seed):
    found = diagnose(function, seed=seed)
    assert found.verdict == "right"
    assert "Linear attention" in str(found)


def test_what_hides_too_little_is_not_right():
    assert not diagnose(values_hidden_alone).right


def test_another_sum_is_no_mistake():
    assert not diagnose(without_sum).accused
