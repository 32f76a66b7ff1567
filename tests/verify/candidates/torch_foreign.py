"""torch layers whose signatures and weights kmha must work out: right ones, and with `wrong`, one mistake."""

import math

import torch
from torch import nn


def _attend(q, k, v, heads, bias=0.0, scaled=True, axis=-1):
    """Return the mixed values (B, T, H·O) of projected (B, P, H·O)."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    logits = q @ k.transpose(-1, -2) / (math.sqrt(q.shape[-1]) if scaled else 1.0) + bias
    return (logits.softmax(axis) @ v).transpose(1, 2).flatten(2)


def _hiding(mask):
    """Return what is added to the logits for a mask in which 0 hides."""
    if mask is None:
        return 0.0
    mask = mask[:, None] if mask.ndim == 3 else mask
    return torch.zeros(mask.shape).masked_fill(mask == 0, -1e30)


class SelfAttention(nn.Module):
    """It cannot do without a mask, which is added, and has a residual connection and a normalization of its own."""

    def __init__(self, hidden_size, num_attention_heads, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_attention_heads, wrong
        self.query, self.key, self.value, self.dense = (nn.Linear(hidden_size, hidden_size) for _ in range(4))
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, hidden_states, attention_mask):
        x = hidden_states
        axis = -2 if self.wrong == "softmax over queries" else -1
        mixed = _attend(self.query(x), self.key(x), self.value(x), self.heads, attention_mask + 0.0, axis=axis)
        return self.norm(self.dense(mixed) + x)


class Attention(nn.Module):
    """The attention inside the blocks below."""

    def __init__(self, dim, heads, scaled=True):
        super().__init__()
        self.heads, self.scaled = heads, scaled
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, y=None, bias=0.0, turn=lambda x: x):
        y = x if y is None else y
        q, k = turn(self.q_proj(x)), turn(self.k_proj(y))
        return self.out_proj(_attend(q, k, self.v_proj(y), self.heads, bias, self.scaled))


class Block(nn.Module):
    """A pre-norm block whose constructor names no inner size."""

    def __init__(self, dim, num_heads, mlp_ratio=4.0, wrong=""):
        super().__init__()
        inner = int(dim * mlp_ratio)
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(dim), Attention(dim, num_heads), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, inner), nn.GELU(), nn.Linear(inner, dim))
        self.wrong = wrong

    def forward(self, x):
        mixed = self.attn(self.norm1(x))
        x = mixed if self.wrong == "residual dropped" else x + mixed
        return x + self.mlp(self.norm2(x))


class WithContext(nn.Module):
    """A post-norm encoder layer whose weights of a cross-attention have no effect without a context."""

    def __init__(self, d_model, n_heads, d_ff, wrong=""):
        super().__init__()
        self.self_attn = Attention(d_model, n_heads, wrong != "not scaled")
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.cross_attn = Attention(d_model, n_heads)
        self.cross_norm = nn.LayerNorm(d_model)

    def forward(self, x, context=None, mask=None):
        x = self.norm1(x + self.self_attn(x, bias=_hiding(mask)))
        if context is not None:
            x = self.cross_norm(x + self.cross_attn(x, context))
        return self.norm2(x + self.linear2(torch.relu(self.linear1(x))))


class Matched(nn.Module):
    """Another such layer, whose further weights have names that tell nothing."""

    def __init__(self, d_model, n_heads, d_ff, wrong=""):
        super().__init__()
        self.self_attn = Attention(d_model, n_heads, wrong != "not scaled")
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.theirs, self.ours = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x, context=None, mask=None):
        x = self.norm1(x + self.self_attn(x, bias=_hiding(mask)))
        if context is not None:
            x = x + (self.ours(x) @ self.theirs(context).transpose(1, 2)).softmax(-1) @ context
        return self.norm2(x + self.linear2(torch.relu(self.linear1(x))))


def rotary(x, heads, pairs=False):
    """Turn (B, T, H·O) by its positions."""
    x = x.unflatten(-1, (heads, -1))
    half = x.shape[-1] // 2
    places = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
    angles = (places * 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half))[:, None]
    first, second = (x[..., 0::2], x[..., 1::2]) if pairs else (x[..., :half], x[..., half:])
    turned = first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()
    return (torch.stack(turned, -1).flatten(-2) if pairs else torch.cat(turned, -1)).flatten(-2)


class Rotating(nn.Module):
    """A pre-norm block with rotary positions, causal unless it gets a mask."""

    def __init__(self, dim, n_heads, hidden_dim, wrong=""):
        super().__init__()
        self.heads, self.wrong = n_heads, wrong
        self.attention_norm, self.ffn_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, n_heads, wrong != "not scaled")
        self.w1, self.w2 = nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, dim)

    def forward(self, x, mask=None):
        if mask is None:
            mask = torch.ones(x.shape[1], x.shape[1]).tril()
        normal = self.attention_norm(x)
        x = x + self.attention(normal, bias=_hiding(mask), turn=lambda each: rotary(each, self.heads))
        return x + self.w2(torch.nn.functional.silu(self.w1(self.ffn_norm(x))))


class TwoMasks(nn.Module):
    """An encoder layer that can also be a decoder, with the mask of a memory beside its own."""

    def __init__(self, hidden_size, num_heads, intermediate_size, wrong=""):
        super().__init__()
        self.attention = Attention(hidden_size, num_heads, wrong != "not scaled")
        self.norm1, self.norm2 = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.fc1, self.fc2 = nn.Linear(hidden_size, intermediate_size), nn.Linear(intermediate_size, hidden_size)

    def forward(self, hidden_states, attention_mask=None, encoder_hidden_states=None, encoder_attention_mask=None):
        x = hidden_states
        x = self.norm1(x + self.attention(x, bias=_hiding(attention_mask)))
        return self.norm2(x + self.fc2(torch.relu(self.fc1(x))))


class RotaryEmbedding(nn.Module):
    """Returns its input turned by its positions."""

    def __init__(self, dim, pairs=False, wrong=""):
        super().__init__()
        self.pairs, self.wrong = pairs, wrong

    def forward(self, x):
        return rotary(x.flip(1), 1, self.pairs).flip(1) if self.wrong else rotary(x, 1, self.pairs)


class RotaryOfBoth(RotaryEmbedding):
    """Returns queries and keys turned by their positions."""

    def forward(self, q, k):
        return super().forward(q), k if self.wrong == "query alone" else super().forward(k)


class PositionEmbedding(nn.Module):
    """A table of positions that takes token ids, only for their number."""

    def __init__(self, max_len, d_model, wrong=""):
        super().__init__()
        self.pos_table, self.wrong = nn.Embedding(max_len, d_model), wrong

    def forward(self, x):
        places = torch.arange(x.shape[1]) + (1 if self.wrong else 0)
        return self.pos_table(places).expand(len(x), -1, -1)


class Bare(nn.Module):
    """Attention without an output projection, inside `Decoder`."""

    def __init__(self, dim, heads, scaled=True):
        super().__init__()
        self.heads, self.scaled = heads, scaled
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, y, bias=0.0):
        return _attend(self.query(x), self.key(y), self.value(y), self.heads, bias, self.scaled)


class Decoder(nn.Module):
    """A decoder layer without output projections, with names of sizes of its own."""

    def __init__(self, feat_dim, num_heads, ffn_intermediate_size, wrong=""):
        super().__init__()
        self.self_attention = Bare(feat_dim, num_heads, wrong != "not scaled")
        self.cross_attention = Bare(feat_dim, num_heads, wrong != "not scaled")
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(feat_dim) for _ in range(3))
        self.linear1 = nn.Linear(feat_dim, ffn_intermediate_size)
        self.linear2 = nn.Linear(ffn_intermediate_size, feat_dim)

    def forward(self, x, memory, tgt_mask=None):
        if tgt_mask is None:
            tgt_mask = torch.ones(x.shape[1], x.shape[1]).tril()
        x = self.norm1(x + self.self_attention(x, x, _hiding(tgt_mask)))
        x = self.norm2(x + self.cross_attention(x, memory))
        return self.norm3(x + self.linear2(torch.relu(self.linear1(x))))


class Crossing(nn.Module):
    """A decoder layer that hides the future only if it gets a mask."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attention = Attention(d_model, n_heads)
        self.cross_attention = Attention(d_model, n_heads)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, cross, x_mask=None):
        x = self.norm1(x + self.self_attention(x, bias=_hiding(x_mask)))
        x = self.norm2(x + self.cross_attention(x, cross))
        return self.norm3(x + self.linear2(torch.relu(self.linear1(x))))


class Adding(nn.Module):
    """A pre-norm decoder layer with GELU whose masks (B, 1, T, S) are added to the logits."""

    def __init__(self, d_model, n_heads, d_ff, wrong=""):
        super().__init__()
        self.wrong = wrong
        scaled = wrong != "not scaled"
        self.self_attn, self.encoder_attn = (Attention(d_model, n_heads, scaled) for _ in range(2))
        self.self_attn_norm, self.encoder_attn_norm, self.last_norm = (nn.LayerNorm(d_model) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, memory, attention_mask=None, encoder_attention_mask=None):
        bias, of_memory = (0.0 if m is None else m for m in (attention_mask, encoder_attention_mask))
        x = x + self.self_attn(self.self_attn_norm(x), bias=bias)
        x = x + self.encoder_attn(self.encoder_attn_norm(x), memory, bias=of_memory)
        hidden = x if self.wrong == "norm dropped" else self.last_norm(x)
        return x + self.fc2(nn.functional.gelu(self.fc1(hidden)))


class Optional(Block):
    """A block with a normalization for a further attention, which it does not have."""

    def __init__(self, dim, num_heads, mlp_ratio=4.0, wrong=""):
        super().__init__(dim, num_heads, mlp_ratio, wrong)
        self.norm_cross_attn = nn.LayerNorm(dim)


class Residual(nn.Module):
    """Adds the input of a module, given by its place, to the module's output."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args):
        return args[0] + self.inner(*args)


class Normed(nn.Module):
    """Self-attention of a normalized input."""

    def __init__(self, dim, heads, scaled=True):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(dim), Attention(dim, heads, scaled)

    def forward(self, x):
        return self.attention(self.norm(x))


class Chain(nn.Sequential):
    """A pre-norm block as a sequence of modules, the first of which gets all arguments."""

    def __init__(self, dim=12, heads=3, wrong=""):
        network = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        super().__init__(Residual(Normed(dim, heads, wrong != "not scaled")), Residual(network))

    def forward(self, *x):
        first, second = self
        return second(first(*x))


class PositionalEncoding(nn.Module):
    """The positional encoding of an array (B, T, E)."""

    def forward(self, x):
        position, pair = torch.arange(x.shape[1])[:, None], torch.arange(0, x.shape[2], 2)
        angles = position / 10_000 ** (pair / x.shape[2])
        found = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, : x.shape[2]]
        return found.expand(x.shape).to(x.dtype)


class Sum(nn.Module):
    """Adds the encoding that it is given to its input."""

    def __init__(self):
        super().__init__()
        self.encoding = PositionalEncoding()

    def forward(self, tensor):
        return tensor + self.encoding(tensor)


class Offset(nn.Module):
    """Its cache is two arrays (B, S, H·O), in which the new keys and values begin at an offset."""

    def __init__(self, d_model=12, num_heads=3, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_heads, wrong
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, cache=None, offset=0):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        rows = x.shape[1]
        if cache is not None:
            keys, values = (each.clone() for each in cache)
            keys[:, offset : offset + rows], values[:, offset : offset + rows] = k, v
            cache = cache if self.wrong == "stale" and offset else (keys, values)
            k, v = keys[:, : offset + rows], values[:, : offset + rows]
        mask = torch.ones(rows, k.shape[1]).tril(k.shape[1] - rows)
        return self.o_proj(_attend(q, k, v, self.heads, _hiding(mask))), cache


class Strange(nn.Module):
    """A block with a step that no choice and no mistake explains, and an argument that kmha does not know."""

    def __init__(self, dim, num_heads, mlp_ratio=4.0, shrinkage=0.37):
        super().__init__()
        self.block, self.shrinkage = Block(dim, num_heads, mlp_ratio), shrinkage

    def forward(self, x):
        return torch.sin(self.block(x) * self.shrinkage)
