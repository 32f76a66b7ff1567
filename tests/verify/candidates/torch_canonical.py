"""torch code with the signatures of well-known texts, right unless `wrong` says otherwise."""

import copy
import math

import torch
from torch import nn


def clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


def subsequent_mask(size):
    return torch.ones(1, size, size).tril().bool()


def attention(query, key, value, mask=None, dropout=None):
    """Return the mix and the scores. 0 in the mask hides."""
    logits = torch.einsum("...td,...sd->...ts", query, key) / math.sqrt(query.shape[-1])
    if mask is not None:
        logits = logits.masked_fill(mask == 0, -1e9)
    scores = torch.softmax(logits, dim=-1)
    kept = scores if dropout is None else dropout(scores)
    return torch.einsum("...ts,...sd->...td", kept, value), scores


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1, wrong=""):
        super().__init__()
        self.h, self.d_k, self.wrong = h, d_model // h, wrong
        self.linears = (
            nn.ModuleList([nn.Linear(d_model, d_model)] * 4)
            if wrong == "shared"
            else clones(nn.Linear(d_model, d_model), 4)
        )
        self.attn, self.dropout = None, nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        count, inputs = query.size(0), (query, key, value)
        projected = [layer(x).view(count, -1, self.h, self.d_k) for layer, x in zip(self.linears, inputs, strict=False)]
        mixed, self.attn = attention(*(x.transpose(1, 2) for x in projected), mask=mask, dropout=self.dropout)
        mixed = mixed if self.wrong == "no transpose" else mixed.transpose(1, 2)
        return self.linears[-1](mixed.reshape(count, -1, self.h * self.d_k))


class LayerNorm(nn.Module):
    """The text's own: the unbiased deviation, epsilon outside of the root."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.b_2


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        angles = torch.arange(max_len)[:, None] * torch.exp(torch.arange(0, d_model, 2) * -(math.log(1e4) / d_model))
        table = torch.zeros(max_len, d_model)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", table[None])

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


def masked_softmax(X, valid_lens):
    """Softmax over the last axis of (B, T, S), of which each row may see its first `valid_lens` keys."""
    if valid_lens is None:
        return torch.softmax(X, dim=-1)
    lens = valid_lens.repeat_interleave(X.shape[1]) if valid_lens.dim() == 1 else valid_lens.reshape(-1)
    seen = torch.arange(X.shape[-1])[None] < lens[:, None]
    return torch.softmax(X.masked_fill(~seen.reshape(X.shape), -1e6), dim=-1)


class DotProductAttention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        logits = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
        self.attention_weights = masked_softmax(logits, valid_lens)
        return torch.bmm(self.dropout(self.attention_weights), values)


class Config:
    def __init__(self, n_embd=48, n_head=4, block_size=64, dropout=0.0, bias=True, **more):
        self.n_embd, self.n_head, self.block_size, self.dropout, self.bias = n_embd, n_head, block_size, dropout, bias
        self.attn_pdrop = self.resid_pdrop = dropout
        vars(self).update(more)


class CausalSelfAttention(nn.Module):
    def __init__(self, config, wrong=""):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.wrong = config.n_head, wrong
        self.register_buffer("bias", torch.ones(config.block_size, config.block_size).tril()[None, None])

    def forward(self, x):
        count, length, width = x.size()
        q, k, v = (
            part.view(count, length, self.n_head, width // self.n_head).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        logits = q @ k.transpose(-2, -1) * (1.0 if self.wrong == "no scale" else k.size(-1) ** -0.5)
        logits = logits.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        mixed = torch.softmax(logits, dim=-1) @ v
        return self.c_proj(mixed.transpose(1, 2).contiguous().view(count, length, width))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.gelu = nn.GELU()

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn, self.mlp = CausalSelfAttention(config), MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))
