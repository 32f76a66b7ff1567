"""torch layers with unusual names, flags and orders of weights: right ones, and with `wrong`, one mistake."""

import math

import torch
from torch import nn


class Scores(nn.Module):
    """Attention without weights, for queries (B, P, H, O). Its flag says whether it uses masks."""

    def __init__(self, mask_flag=False, wrong=""):
        super().__init__()
        self.mask_flag, self.wrong = mask_flag, wrong

    def forward(self, queries, keys, values, attn_mask):
        logits = torch.einsum("bthi,bshi->bhts", queries, keys)
        logits = logits / (1 if self.wrong == "not scaled" else math.sqrt(queries.shape[-1]))
        if self.mask_flag:
            logits = logits.masked_fill(attn_mask == 0, -1e30)
        return torch.einsum("bhts,bshi->bthi", logits.softmax(-1), values), None


class Around(nn.Module):
    """Attention whose inner layer has the flag."""

    def __init__(self, inner, d_model, n_heads):
        super().__init__()
        self.inner, self.n_heads = inner, n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, queries, keys, values, attn_mask):
        parts = ((self.query, queries), (self.key, keys), (self.value, values))
        q, k, v = (layer(x).unflatten(-1, (self.n_heads, -1)) for layer, x in parts)
        return self.out(self.inner(q, k, v, attn_mask)[0].flatten(2)), None


def around(wrong=""):
    return Around(Scores(False, wrong), 12, 3)


class FromTo(nn.Module):
    """Its inputs have names of their own, and it returns the scores after dropout."""

    def __init__(self, hidden_size, num_heads, dropout=0.0, wrong=""):
        super().__init__()
        self.heads, self.wrong, self.dropout = num_heads, wrong, nn.Dropout(dropout)
        self.query, self.key, self.value, self.dense = (nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def forward(self, from_tensor, to_tensor, mask=None):
        q, k, v = self.query(from_tensor), self.key(to_tensor), self.value(to_tensor)
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        logits = q @ k.transpose(-1, -2) / (1 if self.wrong == "not scaled" else math.sqrt(q.shape[-1]))
        if mask is not None:
            logits = logits.masked_fill(~mask[:, None], -1e30)
        scores = self.dropout(logits.softmax(-1))
        return self.dense((scores @ v).transpose(1, 2).flatten(2)), scores


class FeedForward(nn.Module):
    def __init__(self, size, ff_size):
        super().__init__()
        self.layer_norm = nn.LayerNorm(size)
        self.layers = nn.Sequential(nn.Linear(size, ff_size), nn.ReLU(), nn.Linear(ff_size, size))

    def forward(self, x):
        return x + self.layers(self.layer_norm(x))


class Decoder(nn.Module):
    """It cannot do without a mask of its target (B, T, T), and its last normalization is made first."""

    def __init__(self, size=0, ff_size=0, num_heads=0, wrong=""):
        super().__init__()
        self.feed_forward = FeedForward(size, ff_size)
        self.self_att, self.src_att = (FromTo(size, num_heads, 0.0, wrong) for _ in range(2))
        self.x_layer_norm, self.dec_layer_norm = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x, memory, src_mask, trg_mask):
        own = self.x_layer_norm(x)
        x = x + self.self_att(own, own, trg_mask.bool())[0]
        x = x + self.src_att(self.dec_layer_norm(x), memory, src_mask)[0]
        return self.feed_forward(x), None


def decoder(wrong=""):
    return Decoder(12, 20, 3, wrong)


class PositionalEncoding(nn.Module):
    """Its width has a default that is useless, and its input the name of a size."""

    def __init__(self, size=0, max_len=100, wrong=""):
        super().__init__()
        angles = torch.arange(max_len)[:, None] / 10_000.0 ** (torch.arange(0, size, 2) / size)
        parts = (angles.cos(), angles.sin()) if wrong else (angles.sin(), angles.cos())
        self.register_buffer("table", torch.stack(parts, -1).flatten(1))
        self.dim = size if size else 1 / 0

    def forward(self, emb):
        return emb + self.table[: emb.shape[1]]


class LearnedPositions(nn.Module):
    """Its only table contains positions, and its name does not say so."""

    def __init__(self, wrong=""):
        super().__init__()
        self.weight, self.shift = nn.Parameter(torch.randn(40, 12)), int(bool(wrong))

    def forward(self, data):
        return data * math.sqrt(12) + self.weight[self.shift : data.shape[1] + self.shift]
