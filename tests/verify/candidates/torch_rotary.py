"""Layers that return the cosines and sines of rotary positions, as people write them."""

import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    """Tables (1, 1, T, O), each angle twice."""

    def __init__(self, dim, max_seq_len=64, first=0):
        super().__init__()
        frequencies = 10_000.0 ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(max_seq_len) + float(first), frequencies).repeat(1, 2)
        self.register_buffer("cosines", angles.cos()[None, None])
        self.register_buffer("sines", angles.sin()[None, None])

    def forward(self, x, seq_len):
        return self.cosines[:, :, :seq_len], self.sines[:, :, :seq_len]


class RotaryOfPositions(nn.Module):
    """Computes sines and cosines (B, T, O/2) of positions (B, T)."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2) / dim))

    def forward(self, x, position_ids):
        angles = position_ids[:, :, None] * self.inv_freq
        return angles.sin().to(x.dtype), angles.cos().to(x.dtype)


class RotaryInPairs(RotaryOfPositions):
    def forward(self, x, position_ids):
        return tuple(each.repeat_interleave(2, -1) for each in super().forward(x, position_ids))


class RotaryOfTurns(RotaryOfPositions):
    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[-2]), self.inv_freq)
        return torch.polar(torch.ones_like(angles), angles)


class RotaryOfLength(RotaryEmbedding):
    """Tables (T, 1, O) for a number of positions."""

    def forward(self, seq_len):
        return tuple(table[0, 0, :seq_len, None] for table in super().forward(None, seq_len))


class RotaryOfHeads(nn.Module):
    """Turns queries and keys (B, H, T, O) with tables (T, O/2) that it keeps."""

    def __init__(self, head_dim, max_seq_len=64):
        super().__init__()
        turns = torch.outer(torch.arange(max_seq_len), 10_000.0 ** (-torch.arange(0, head_dim, 2) / head_dim))
        self.register_buffer("cosines", turns.cos())
        self.register_buffer("sines", turns.sin())

    def forward(self, q, k):
        cos, sin = (table[: q.shape[-2]].repeat_interleave(2, -1) for table in (self.cosines, self.sines))
        return tuple(x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sin for x in (q, k))


class RotaryOfDevice(nn.Module):
    """Returns angles of a number of positions, on a device."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", 10_000.0 ** (-torch.arange(0, dim, 2) / dim))

    def forward(self, max_seq_len, *, device):
        angles = torch.outer(torch.arange(max_seq_len, device=device), self.inv_freq)
        return torch.cat((angles, angles), dim=-1)


@torch.autocast("cpu", enabled=False)
def apply_rotary_pos_emb(pos, t):
    first, second = t.chunk(2, dim=-1)
    return t * pos.cos() + torch.cat((-second, first), dim=-1) * pos.sin()


class PositionEmbedding(nn.Module):
    """Adds rows of a table, whose number is called as that of tokens usually is."""

    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_embeddings, embedding_dim))

    def forward(self, x):
        return x + self.weight[: x.shape[1]]


class TokenPositionEmbedding(nn.Module):
    """Its only table is that of the tokens."""

    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embedding, self.d_model = nn.Embedding(vocab_size, d_model), d_model

    def forward(self, ids):
        exponents = torch.arange(0, self.d_model, 2) / self.d_model
        angles = torch.outer(torch.arange(ids.shape[1], dtype=torch.float64), 10_000.0**-exponents)
        sines = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return self.embedding(ids) * self.d_model**0.5 + sines


class TurnsComplex(nn.Module):
    """Attention that turns queries and keys by a table of complex numbers."""

    def __init__(self, dim, n_heads, max_seq_len=64, scale=True):
        super().__init__()
        self.n_heads, self.scale = n_heads, scale
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        half = dim // n_heads // 2
        angles = torch.outer(torch.arange(max_seq_len), 10_000.0 ** (-torch.arange(half) / half))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))

    def rotate(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).to(self.freqs_cis.real.dtype))
        return torch.view_as_real(pairs * self.freqs_cis[: x.shape[1], None]).flatten(3).to(x.dtype)

    def forward(self, x):
        q, k, v = (linear(x).unflatten(-1, (self.n_heads, -1)) for linear in (self.wq, self.wk, self.wv))
        logits = torch.einsum("bthd,bshd->bhts", self.rotate(q), self.rotate(k))
        scores = (logits / q.shape[-1] ** 0.5 if self.scale else logits).softmax(-1)
        return self.wo(torch.einsum("bhts,bshd->bthd", scores, v).flatten(2))
