import keras
import numpy as np
import pytest

from kmha.verify import diagnose


class _Core(keras.layers.Layer):
    """Scaled dot-product attention without weights."""

    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature, self.dropout = temperature, keras.layers.Dropout(0.1)

    def call(self, q, k, v, mask=None):
        assert len(q.shape) == 4
        logits = q @ keras.ops.transpose(k, (0, 1, 3, 2)) / self.temperature
        logits = logits if mask is None else keras.ops.where(mask, logits, -1e9)
        return keras.ops.softmax(logits) @ v


class _Unscaled(_Core):
    def __init__(self):
        super().__init__(1.0)


@pytest.mark.parametrize(("layer", "ids"), [(_Core, ()), (_Unscaled, ("scale-missing",))])
def test_a_layer_without_weights(layer, ids):
    found = diagnose(layer)
    assert found.ids == ids
    assert found.convention.entry == "(B, H, P, O)"
    assert not ids or "result = _Unscaled()(q=q" in found.code()


def test_an_object_without_weights():

    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):
        def forward(self, queries, keys, values):
            logits = torch.einsum("blhe,bshe->bhls", queries, keys) / np.sqrt(queries.shape[-1])
            return torch.einsum("bhls,bshd->blhd", torch.softmax(logits, -1), values), None

    found = diagnose(Attention())
    assert found.right
    assert found.convention.entry == "(B, P, H, O)"
