import numpy as np
import pytest

from kmha.verify import diagnose


def _softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def keys_mixed(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = _softmax(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5)
    return scores @ k + 0 * v


def kernel_of_key(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_k
    scores = _softmax(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5)
    return scores @ v


def unnamed(x, w_q, w_k, w_v):
    one, two = x @ w_q, x @ w_k
    scores = _softmax(one @ np.swapaxes(two, -1, -2) / one.shape[-1] ** 0.5)
    return scores @ two


@pytest.mark.parametrize(
    ("function", "first"),
    [(keys_mixed, "mix-key"), (kernel_of_key, "kernels-key-for-value"), (unnamed, "kernels-key-for-value")],
)
def test_one_function_with_two_names(function, first):
    """In self-attention the numbers are the same, and kernels-key-for-value is commoner."""
    found = diagnose(function)
    assert found.ids == (first,)
    assert {match.ids for match in found.matches} == {("mix-key",), ("kernels-key-for-value",)}
