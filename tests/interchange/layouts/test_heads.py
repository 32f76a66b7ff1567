import keras
import numpy as np
import pytest

import kmha
from kmha.interchange import canonical, convert
from kmha.verify.tolerance import is_close

B, T, H, I, O, E = 2, 5, 3, 7, 4, 11


NAMES = {
    "heads": ({"query": "query", "key": "key", "value": "value"}, "proj"),
    "heads-qkv": ({"query": "q", "key": "k", "value": "v"}, "output_linear"),
}


def _course(torch, layout, bias, output_bias):
    """h heads with three linear layers each, and one for what they give side by side."""
    names, last = NAMES[layout]

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in names.values():
                setattr(self, name, torch.nn.Linear(I, O, bias=bias))

        def forward(self, x):
            query, key, value = (getattr(self, names[role])(x) for role in ("query", "key", "value"))
            return torch.softmax(query @ key.mT / O**0.5, dim=-1) @ value

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = torch.nn.ModuleList(Head() for _ in range(H))
            setattr(self, last, torch.nn.Linear(H * O, E, bias=output_bias))

        def forward(self, x):
            return getattr(self, last)(torch.cat([head(x) for head in self.heads], dim=-1))

    return Attention().double()


@pytest.mark.tensorflow  # where float64 is float64 throughout
@pytest.mark.parametrize(("bias", "output_bias"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("layout", list(NAMES))
def test_a_courses_heads_and_ours_give_the_same(round_trip, layout, bias, output_bias):
    torch = pytest.importorskip("torch")
    theirs = _course(torch, layout, bias, output_bias)
    weights = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    round_trip(weights, layout)
    x = np.random.default_rng(0).normal(size=(B, T, I))
    ours = kmha.MultiHeadAttention(H, O, use_bias=output_bias, output_shape=E, dtype="float64")
    ours.build(x.shape, x.shape)
    canonical.write(ours, convert(weights, "auto", "ours"))
    expected = theirs(torch.tensor(x)).detach().numpy()
    assert is_close(keras.ops.convert_to_numpy(ours(x, x)), expected, "float64")
