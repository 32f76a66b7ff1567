import keras
import pytest

from kmha.verify import diagnose


class Shared(keras.layers.Layer):
    """Attention whose key is projected by the query's own sublayer."""

    def __init__(self, d_model, num_heads, separate=False):
        super().__init__()
        self.heads, self.size = num_heads, d_model // num_heads
        self.wq, self.wv, self.wo = (keras.layers.Dense(d_model) for _ in range(3))
        self._wk = keras.layers.Dense(d_model) if separate else self.wq  # a private name is a name too

    def split(self, x):
        return keras.ops.reshape(x, (-1, x.shape[1], self.heads, self.size))

    def call(self, query, key, value):
        q, k, v = (self.split(part(x)) for part, x in ((self.wq, query), (self._wk, key), (self.wv, value)))
        logits = keras.ops.einsum("bthd,bshd->bhts", q, k) / self.size**0.5
        mixed = keras.ops.einsum("bhts,bshd->bthd", keras.ops.softmax(logits), v)
        return self.wo(keras.ops.reshape(mixed, (-1, q.shape[1], self.heads * self.size)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("separate", [True, False])
def test_sublayer_under_two_names(separate):
    found = diagnose(Shared, arguments={"separate": separate})
    assert found.ids == (() if separate else ("kernels-query-for-key",))


@pytest.mark.parametrize("separate", [True, False])
def test_sublayer_under_two_names_in_a_built_layer(separate):
    """The numbers of a built layer cannot show it, because its own weights are kept."""
    layer = Shared(12, 3, separate)
    layer(*(keras.random.normal((2, 5, 12)) for _ in range(3)))
    found = diagnose(layer, arguments={"num_heads": 3})
    assert found.ids == (() if separate else ("kernels-query-for-key",))


def _torch_head(nn):
    class Head(nn.Module):
        def __init__(self, d_model, head_size):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(d_model, head_size) for _ in range(3))

        def forward(self, x):
            q, k, v = self.query(x), self.key(x), self.value(x)
            return (q @ k.transpose(1, 2) / k.shape[-1] ** 0.5).softmax(-1) @ v

    return Head


@pytest.mark.parametrize(("shared", "ids"), [(False, ()), (True, ("heads-all-first",))])
def test_one_head_in_a_list_many_times(shared, ids):
    """`[Head()] * n` makes one head."""
    torch = pytest.importorskip("torch")
    head = _torch_head(torch.nn)

    class Heads(torch.nn.Module):
        def __init__(self, d_model, num_heads):
            super().__init__()
            size = d_model // num_heads
            many = [head(d_model, size)] * num_heads if shared else [head(d_model, size) for _ in range(num_heads)]
            self.heads, self.proj = torch.nn.ModuleList(many), torch.nn.Linear(d_model, d_model)

        def forward(self, x):
            return self.proj(torch.cat([each(x) for each in self.heads], -1))

    assert diagnose(Heads).ids == diagnose(Heads(12, 3), arguments={"num_heads": 3}).ids == ids


def test_another_name_of_the_same_weight_is_no_mistake():
    """An attribute and a `Sequential` often hold the same sublayer."""
    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):
        def __init__(self, d_model, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.qkv, self.proj = torch.nn.Linear(d_model, 3 * d_model), torch.nn.Linear(d_model, d_model)
            self.last = torch.nn.Sequential(self.proj, torch.nn.Dropout(0.0))

        def forward(self, x):
            parts = self.qkv(x).view(*x.shape[:2], 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            mixed = torch.nn.functional.scaled_dot_product_attention(*parts)
            return self.last(mixed.transpose(1, 2).flatten(2))

    found = diagnose(Attention)
    assert found.right, found.ids
