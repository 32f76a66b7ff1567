"""torch modules as people write them."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Linears(nn.Module):
    """With a `Linear` each, and a mask in which 0 hides."""

    def __init__(self, d_model, n_heads, dropout=0.0, wrong=""):
        super().__init__()
        self.n_heads, self.d_k, self.wrong = n_heads, d_model // n_heads, wrong.split(" + ")
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        batch = query.size(0)
        projected = self.w_q(query), self.w_k(key), (self.w_k if "key's kernel" in self.wrong else self.w_v)(value)
        q, k, v = (x.view(batch, -1, self.n_heads, self.d_k).transpose(1, 2) for x in projected)
        logits = q @ k.transpose(-2, -1)
        if "scaled after softmax" not in self.wrong:
            logits = logits * math.sqrt(self.d_k) ** (1 if "multiplied" in self.wrong else -1)
        if mask is not None:
            hidden = mask == 1 if "mask inverted" in self.wrong else mask == 0
            logits = logits.masked_fill(hidden, -1e-9 if "fills -1e-9" in self.wrong else -1e9)
        scores = logits.softmax(2 if "softmax over queries" in self.wrong else -1)
        if "scaled after softmax" in self.wrong:
            scores = scores / math.sqrt(self.d_k)
        mixed = self.dropout(scores) @ v
        if "dropout by hand" in self.wrong:
            mixed = F.dropout(scores, self.dropout.p) @ v
        mixed = mixed if "merged without transpose" in self.wrong else mixed.transpose(1, 2)
        return self.w_o(mixed.contiguous().view(batch, -1, self.n_heads * self.d_k))


class Causal(nn.Module):
    """As a language model has it: one `Linear`, causal unasked."""

    def __init__(self, d_in, d_out, context_length, num_heads, qkv_bias=False, diagonal=1):
        super().__init__()
        self.qkv, self.proj = nn.Linear(d_in, 3 * d_out, bias=qkv_bias), nn.Linear(d_out, d_out)
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        future = torch.triu(torch.ones(context_length, context_length), diagonal=diagonal).bool()
        self.register_buffer("future", future)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        logits = q @ k.transpose(-2, -1) / self.head_dim**0.5
        logits = logits.masked_fill(self.future[:length, :length], -1e30)
        return self.proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1))


class Parameters(nn.Module):
    """Matrices without a layer around them, and one item at a time."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Parameter(torch.rand(d_in, d_out)) for _ in range(3))

    def forward(self, x):
        q, k, v = x @ self.W_query, x @ self.W_key, x @ self.W_value
        return torch.softmax(torch.mm(q, k.T) / k.shape[-1] ** 0.5, dim=-1) @ v


class Cloned(nn.Module):
    """Four alike in a list, as a well-known annotation has them."""

    def __init__(self, h, d_model, wrong=""):
        super().__init__()
        self.h, self.wrong = h, wrong
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            layer(x).view(x.size(0), -1, self.h, layer.out_features // self.h).transpose(1, 2)
            for layer, x in zip(self.linears, (query, key, value), strict=False)
        )
        logits = q @ k.transpose(-2, -1) / (1 if self.wrong else math.sqrt(q.size(-1)))
        if mask is not None:
            logits = logits.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        mixed = (logits.softmax(-1) @ v).transpose(1, 2).reshape(query.size(0), query.size(1), -1)
        return self.linears[3](mixed)


def core(query, key, value, attn_mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask)


def keys_mixed(query, key, value):
    scores = torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)), dim=-1)
    return scores @ key
