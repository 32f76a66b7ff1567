"""Built layers: without weights, with projections that their calls never use, and with masks given as lengths."""

import keras
import numpy as np
import pytest
from keras import ops

from kmha.verify import diagnose


def attend(query, key, value, valid_lens, over=-1):
    """Return attention over (…, P, O), in which each item attends to its first `valid_lens` keys."""
    logits = ops.matmul(query, ops.swapaxes(key, -1, -2)) / ops.sqrt(ops.cast(query.shape[-1], query.dtype))
    if valid_lens is not None:
        shown = ops.arange(key.shape[-2])[None] < ops.cast(valid_lens, "int32")[:, None]
        logits = ops.where(shown[:, None], logits, -1e9)
    return ops.matmul(ops.softmax(logits, over), value)


class Core(keras.layers.Layer):
    """Attention without weights, over the keys or, which is wrong, over the queries."""

    def __init__(self, over=-1):
        super().__init__()
        self.over = over

    def call(self, queries, keys, values, valid_lens):
        return attend(queries, keys, values, valid_lens, self.over)


class Heads(keras.layers.Layer):
    """Multi-head attention with bare Dense layers. `used` says which of them project query, key, value and output."""

    def __init__(self, d_model, num_heads, used="qkvo"):
        super().__init__()
        self.heads, self.size, self.used = num_heads, d_model // num_heads, used
        self.wq, self.wk, self.wv, self.wo = (keras.layers.Dense(d_model, use_bias=False) for _ in range(4))

    def part(self, number, x):
        name = self.used[number]
        return getattr(self, f"w{name}")(x) if name != "-" else x

    def call(self, queries, keys, values, valid_lens):
        parts = [self.part(number, x) for number, x in enumerate((queries, keys, values))]
        q, k, v = (ops.swapaxes(ops.reshape(x, (*x.shape[:2], self.heads, self.size)), 1, 2) for x in parts)
        lens = None if valid_lens is None else ops.repeat(valid_lens, self.heads)
        items = (-1, q.shape[2], self.size), (-1, k.shape[2], self.size)
        mixed = attend(*(ops.reshape(x, items[i > 0]) for i, x in enumerate((q, k, v))), lens)
        mixed = ops.swapaxes(ops.reshape(mixed, q.shape), 1, 2)
        return self.part(3, ops.reshape(mixed, (*queries.shape[:2], self.heads * self.size)))


def called(layer):
    layer(*(np.zeros((2, 7, 12), "float32") for _ in range(3)), None)
    return layer


@pytest.mark.parametrize(("over", "ids"), [(-1, ()), (-2, ("softmax-over-queries",))])
def test_layer_without_weights(over, ids):
    """It also runs with (B, H, P, O), as long as it gets no lengths."""
    found = diagnose(called(Core(over)))
    assert found.ids == ids
    assert not found.errors
    assert any(result.trial.key_mask is not None for result in found.results)


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:.*was called on layer:UserWarning")  # Keras, of a sublayer without weights
@pytest.mark.parametrize(
    ("used", "ids"),
    [
        ("qkvo", ()),
        ("qkv-", ("merge-projection-missing",)),
        ("qk-o", ("projection-missing-value",)),
        ("q-vo", ("projection-missing-key",)),
        ("qkqo", ("kernels-query-for-value",)),
    ],
)
def test_projection_that_a_built_layer_never_uses(used, ids):
    """Keras makes no weights for it."""
    layer = called(Heads(12, 3, used))
    assert len(layer.weights) == len({*used} - {"-"})
    found = diagnose(layer, arguments={"num_heads": 3})
    assert found.ids == ids
    assert len(layer.weights) == len({*used} - {"-"})


@pytest.fixture(scope="module")
def linen_heads():
    nn = pytest.importorskip("flax.linen")

    class LinenHeads(nn.Module):
        """Attention in linen. `used` says which sublayers project query, key and value, and `shared` two of them."""

        num_heads: int
        head_dim: int
        used: str = "qkv"
        shared: bool = False
        rate: float = 0.0
        deterministic: bool | None = None

        def setup(self):
            dense = [nn.DenseGeneral((self.num_heads, self.head_dim), name=f"to_{name}") for name in "qkv"]
            self.q, self.k, self.v = dense[0], dense[0 if self.shared else 1], dense[2]
            self.out = nn.DenseGeneral(self.num_heads * self.head_dim, axis=(-2, -1))

        @nn.compact
        def __call__(self, x, deterministic=None):
            q, k, v = (getattr(self, name)(x) for name in self.used)
            fixed = nn.merge_param("deterministic", self.deterministic, deterministic)
            mixed = nn.dot_product_attention(q, k, v)
            return nn.Dropout(self.rate)(self.out(mixed), deterministic=fixed)

    return LinenHeads


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, ()),
        ({"used": "qkk"}, ("mix-key", "kernels-key-for-value")),
        ({"shared": True}, ("kernels-query-for-key", "logits-query-query")),
        ({"deterministic": True}, ()),
        ({"deterministic": True, "rate": 0.3}, ()),
    ],
)
def test_linen_module(linen_heads, options, ids):
    """A general dense layer that is never called has no weights, and a flag of the constructor is not given again."""
    found = diagnose(linen_heads(3, 4, **options))
    assert found.right is (not ids)
    assert {*found.ids} <= {*ids}


def test_function_arguments_that_are_no_masks():
    """A mask that has no effect is missing, whatever functions and sizes the call also takes."""

    def attention(query, key, value, mask=None, chunk_size=64, mask_calc_fn=None):
        logits = np.einsum("bhqd,bhkd->bhqk", query, key) / query.shape[-1] ** 0.5
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), value)

    assert diagnose(attention).ids == ("mask-missing",)


@pytest.mark.parametrize("groups", [1, 2])
def test_module_with_fewer_keys_than_queries(groups):
    """A `Linear` says which axis is which, so that a kernel (G·O, I) is not read as one of (I, H·O)."""
    torch = pytest.importorskip("torch")

    class Grouped(torch.nn.Module):
        def __init__(self, embedding_dim, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, embedding_dim // num_heads
            self.W_q, self.W_o = (torch.nn.Linear(embedding_dim, embedding_dim, bias=False) for _ in range(2))
            self.W_k, self.W_v = (torch.nn.Linear(embedding_dim, groups * self.head_dim, bias=False) for _ in range(2))

        def forward(self, x):
            parts = [each(x).view(*x.shape[:2], -1, self.head_dim) for each in (self.W_q, self.W_k, self.W_v)]
            q, k, v = (each.repeat_interleave(self.num_heads // each.shape[2], 2).transpose(1, 2) for each in parts)
            weights = (q @ k.transpose(2, 3) / self.head_dim**0.5).softmax(-1)
            return self.W_o((weights @ v).transpose(1, 2).reshape(x.shape))

    assert diagnose(Grouped(16, 4)).right
    assert groups == 2 or diagnose(Grouped).right


@pytest.fixture(scope="module")
def prenorm():
    """A pre-norm encoder layer of torch, whose subclasses say how the logits are masked."""
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class PreNorm(nn.Module):
        def __init__(self, embed_dim, num_heads, ffn_dim):
            super().__init__()
            self.num_heads = num_heads
            self.in_proj, self.out_proj = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)
            self.fc1, self.fc2 = nn.Linear(embed_dim, ffn_dim), nn.Linear(ffn_dim, embed_dim)
            self.attention_norm, self.ffn_norm = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)

        def with_masked(self, x, masked):
            parts = self.in_proj(self.attention_norm(x)).chunk(3, -1)
            q, k, v = (each.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2) for each in parts)
            logits = masked(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5)
            x = x + self.out_proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
            return x + self.fc2(self.fc1(self.ffn_norm(x)).relu())

    return PreNorm


def test_added_bias_beside_a_padding_mask_that_hides(prenorm):
    """A bias that is added to the logits says nothing of the padding mask."""

    class Layer(prenorm):
        def forward(self, x, attn_bias=None, padding_mask=None):
            def masked(logits):
                logits = logits if attn_bias is None else logits + attn_bias
                hidden = padding_mask if padding_mask is None else padding_mask[:, None, None].bool()
                return logits if hidden is None else logits.masked_fill(hidden, float("-inf"))

            return self.with_masked(x, masked)

    found = diagnose(Layer)
    assert found.right
    assert (found.convention.mask_meaning, found.convention.padding_meaning) == ("adds", "hides")


def test_mask_for_padding_alone_in_a_causal_block(prenorm):
    """It is ignored unless it is (B, S), because the block is always causal."""
    torch = pytest.importorskip("torch")

    class Block(prenorm):
        def forward(self, x, attention_mask=None):
            def masked(logits):
                logits = logits.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -1e9)
                if attention_mask is None or attention_mask.dim() != 2 or len(attention_mask) != len(x):
                    return logits
                return logits.masked_fill(~attention_mask[:, None, None].bool(), -1e9)

            return self.with_masked(x, masked)

    found = diagnose(Block)
    assert found.right, found
    assert any(result.trial.key_mask is not None for result in found.results)
