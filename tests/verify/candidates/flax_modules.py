"""Modules of flax.linen and flax.nnx as people write them."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx


def _split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def _attend(q, k, v, mask, wrong):
    logits = q @ k.swapaxes(-1, -2) / (1 if wrong == "no scale" else q.shape[-1] ** 0.5)
    if mask is not None:
        logits = jnp.where(mask if wrong == "mask inverted" else mask == 0, -1e9, logits)
    scores = nn.softmax(logits, axis=-2 if wrong == "softmax over queries" else -1)
    return scores @ v


def _merge(x, wrong):
    """Join the heads of (B, H, T, O)."""
    batch, heads, length, size = x.shape
    x = x if wrong == "merged without transpose" else x.transpose(0, 2, 1, 3)
    return x.reshape(batch, length, heads * size)


class Compact(nn.Module):
    """With `Dense` layers that have no names, in the order query, key, value, output."""

    d_model: int
    num_heads: int
    wrong: str = ""

    @nn.compact
    def __call__(self, x, mask=None):
        q, k, v = (_split(nn.Dense(self.d_model)(x), self.num_heads) for _ in range(3))
        if self.wrong == "key for value":
            v = k
        mixed = _attend(q, k, v, mask, self.wrong)
        return nn.Dense(self.d_model)(_merge(mixed, self.wrong))


class Setup(nn.Module):
    """With layers made in `setup`, and one parameter of its own."""

    hidden_dim: int
    num_heads: int
    wrong: str = ""

    def setup(self):
        self.q_proj = nn.Dense(self.hidden_dim)
        self.k_proj = nn.Dense(self.hidden_dim)
        self.v_proj = nn.Dense(self.hidden_dim)
        self.w_out = self.param("w_out", nn.initializers.normal(), (self.hidden_dim, self.hidden_dim))

    def __call__(self, query, key, value, mask=None):
        last = self.k_proj if self.wrong == "key's kernel" else self.v_proj
        q, k, v = (
            _split(layer(x), self.num_heads) for layer, x in ((self.q_proj, query), (self.k_proj, key), (last, value))
        )
        return _merge(_attend(q, k, v, mask, self.wrong), self.wrong) @ self.w_out


class Nnx(nnx.Module):
    """An nnx module with keys of random numbers."""

    def __init__(self, d_model, num_heads, dropout_rate=0.0, wrong="", *, rngs: nnx.Rngs):
        self.num_heads, self.wrong = num_heads, wrong
        self.to_q, self.to_k, self.to_v, self.to_out = (nnx.Linear(d_model, d_model, rngs=rngs) for _ in range(4))
        self.dropout = nnx.Dropout(dropout_rate, rngs=rngs)

    def __call__(self, x, context=None, mask=None):
        source = x if context is None else context
        q, k, v = (
            _split(layer(y), self.num_heads) for layer, y in ((self.to_q, x), (self.to_k, source), (self.to_v, source))
        )
        logits = q @ k.swapaxes(-1, -2) * (1 if self.wrong == "no scale" else q.shape[-1] ** -0.5)
        if mask is not None:
            logits = jnp.where(mask if self.wrong == "mask inverted" else mask == 0, -1e9, logits)
        scores = nnx.softmax(logits)
        if self.wrong == "dropout by hand":
            self.dropout.deterministic = False
        return self.to_out(_merge(self.dropout(scores) @ v, self.wrong))


class Encoder(nn.Module):
    """An encoder layer with the package's own attention and normalizations."""

    embed_dim: int
    num_heads: int
    mlp_dim: int
    dropout_rate: float = 0.1
    wrong: str = ""

    @nn.compact
    def __call__(self, x, mask=None, deterministic: bool = True):
        attended = nn.MultiHeadDotProductAttention(self.num_heads, deterministic=deterministic)(x, mask=mask)
        attended = nn.Dropout(self.dropout_rate)(attended, deterministic=deterministic)
        x = nn.LayerNorm()(attended if self.wrong == "no residual" else x + attended)
        hidden = nn.Dense(self.mlp_dim)(x)
        hidden = hidden if self.wrong == "no activation" else nn.relu(hidden)
        return nn.LayerNorm()(x + nn.Dense(self.embed_dim)(hidden))


@dataclasses.dataclass(frozen=True)
class Config:
    n_heads: int = 3
    d_model: int = 12


class Configured(nn.Module):
    """Always causal, with a packed kernel. Only the configuration states the number of heads."""

    config: Config
    wrong: str = ""

    @nn.compact
    def __call__(self, x):
        packed = nn.Dense(3 * x.shape[-1])(x)
        q, k, v = (_split(each, self.config.n_heads) for each in jnp.split(packed, 3, axis=-1))
        mixed = _attend(q, k, v, jnp.tri(x.shape[1], dtype=bool), self.wrong)
        return nn.Dense(x.shape[-1])(_merge(mixed, self.wrong))


class Equation(nn.Module):
    """A kernel whose name says that it belongs to an einsum."""

    shape: tuple

    @nn.compact
    def __call__(self, equation, x):
        return jnp.einsum(equation, x, self.param("w", nn.initializers.normal(), self.shape))


class SharedHead(nn.Module):
    """Keys and values share one head and are stacked. Positions and the mask are required; a cache comes first."""

    num_heads: int
    features: int
    head_dim: int
    wrong: str = ""

    def setup(self):
        self.q_einsum = Equation((self.num_heads, self.features, self.head_dim))
        self.kv_einsum = Equation((2, 1, self.features, self.head_dim))
        self.out_einsum = Equation((self.num_heads, self.head_dim, self.features))

    def __call__(self, x, segment_pos, cache, attn_mask):
        assert segment_pos.shape[-1] == x.shape[1]
        q = self.q_einsum("btd,ndh->btnh", x)
        k, v = self.kv_einsum("bsd,ckdh->cbskh", x)
        k, v = jnp.repeat(k, self.num_heads, -2), jnp.repeat(v, self.num_heads, -2)
        logits = jnp.einsum("btnh,bsnh->btns", q, k) / (1.0 if self.wrong == "no scale" else self.head_dim**0.5)
        scores = nn.softmax(jnp.where(attn_mask[:, :, None], logits, -1e30))
        return cache, self.out_einsum("btnh,nhd->btd", jnp.einsum("btns,bsnh->btnh", scores, v))


class GatedNetwork(nn.Module):
    """Gate and values are stacked."""

    features: int
    hidden_dim: int

    @nn.compact
    def __call__(self, x):
        gate, value = self.param("gating_einsum", nn.initializers.normal(), (2, self.features, self.hidden_dim))
        return (nn.gelu(x @ gate) * (x @ value)) @ self.param(
            "linear", nn.initializers.normal(), (self.hidden_dim, self.features)
        )


class SharedHeadBlock(nn.Module):
    num_heads: int
    embed_dim: int
    head_dim: int
    hidden_dim: int

    def setup(self):
        self.pre_attention_norm, self.pre_ffw_norm = nn.RMSNorm(), nn.RMSNorm()
        self.attn = SharedHead(self.num_heads, self.embed_dim, self.head_dim)
        self.mlp = GatedNetwork(self.embed_dim, self.hidden_dim)

    def __call__(self, x, segment_pos, cache, attn_mask):
        cache, attended = self.attn(self.pre_attention_norm(x), segment_pos, cache, attn_mask)
        x = x + attended
        return cache, x + self.mlp(self.pre_ffw_norm(x))


@dataclasses.dataclass(unsafe_hash=True)
class ModelConfig:
    d_model: int = 32
    n_heads: int = 4
    use_bias: bool = False

    @property
    def d_head(self):
        return self.d_model // self.n_heads


class OfConfig(nn.Module):
    """Its configuration is read by a shorter name, when the module is first called."""

    config: ModelConfig

    def setup(self):
        cfg = self.config
        self.wq, self.wk, self.wv, self.wo = (nn.Dense(cfg.d_model, use_bias=cfg.use_bias) for _ in range(4))

    def __call__(self, x):
        size = self.config.n_heads, self.config.d_head
        q, k, v = (f(x).reshape(*x.shape[:-1], *size) for f in (self.wq, self.wk, self.wv))
        return self.wo(jax.nn.dot_product_attention(q, k, v).reshape(x.shape))
