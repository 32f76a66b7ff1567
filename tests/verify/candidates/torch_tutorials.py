"""Layers in the ways of tutorials: sizes of all heads, a norm that is shared, lengths that a call needs."""

import torch
from torch import nn


class SizeOfAllHeads(nn.Module):
    """`d_k` is the size of all heads together, and so is the scale if it is wrong."""

    wrong = False

    def __init__(self, h, d_k, d_v, d_model):
        super().__init__()
        self.h, self.root = h, (d_k if self.wrong else d_k // h) ** 0.5
        self.W_q, self.W_k = nn.Linear(d_model, d_k), nn.Linear(d_model, d_k)
        self.W_v, self.W_o = nn.Linear(d_model, d_v), nn.Linear(d_v, d_model)

    def forward(self, queries, keys, values):
        q, k, v = self.W_q(queries), self.W_k(keys), self.W_v(values)
        q, k, v = (each.unflatten(-1, (self.h, -1)).transpose(1, 2) for each in (q, k, v))
        scores = torch.softmax(q @ k.mT / self.root, -1)
        return self.W_o((scores @ v).transpose(1, 2).flatten(2))


class ScaledByAllHeads(SizeOfAllHeads):
    wrong = True


class WithLength(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.qkv, self.proj = num_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, tgt_len):
        q, k, v = self.qkv(x).view(len(x), tgt_len, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj((torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(1, 2).flatten(2))


class OneNorm(nn.Module):
    """Normalizes after both sublayers with the same weights."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.multihead = Lines(d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))
        self.layernorm = nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.layernorm(x + self.multihead(x))
        return self.layernorm(x + self.ffn(x))


class Lines(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.Qline, self.Kline, self.Vline, self.outline = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            line(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for line in (self.Qline, self.Kline, self.Vline)
        )
        return self.outline((torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(1, 2).flatten(2))
