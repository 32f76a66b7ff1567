"""Modules of public threads, in own words: mistakes in heads, projections and merging."""

import torch
from torch import nn


class FuxiAttention(nn.Module):
    """reczoo/FuxiCTR#30: split into heads, and merged, by `view` alone; and there is no output projection."""

    def __init__(self, input_dim, num_heads=1, dropout_rate=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, input_dim // num_heads
        self.W_q = nn.Linear(input_dim, input_dim, bias=False)
        self.W_k = nn.Linear(input_dim, input_dim, bias=False)
        self.W_v = nn.Linear(input_dim, input_dim, bias=False)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, query, key, value):
        batch = query.size(0)
        query = self.W_q(query).view(batch * self.num_heads, -1, self.head_dim)
        key = self.W_k(key).view(batch * self.num_heads, -1, self.head_dim)
        value = self.W_v(value).view(batch * self.num_heads, -1, self.head_dim)
        logits = torch.bmm(query, key.transpose(1, 2)) / self.head_dim**0.5
        scores = self.dropout(torch.softmax(logits, dim=-1))
        return torch.bmm(scores, value).view(batch, -1, self.num_heads * self.head_dim)


class TextClassifierAttention(nn.Module):
    """649453932/Chinese-Text-Classification-Pytorch#53: the same `view`, with an output projection, and no masks.

    There, the module goes on with a residual and a norm; this is what stands before them.
    """

    def __init__(self, dim_model, num_head, dropout=0.0):
        super().__init__()
        self.num_head, self.dim_head = num_head, dim_model // num_head
        self.fc_Q = nn.Linear(dim_model, dim_model)
        self.fc_K = nn.Linear(dim_model, dim_model)
        self.fc_V = nn.Linear(dim_model, dim_model)
        self.fc = nn.Linear(dim_model, dim_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch = x.size(0)
        query, key, value = (
            layer(x).view(batch * self.num_head, -1, self.dim_head) for layer in (self.fc_Q, self.fc_K, self.fc_V)
        )
        scores = torch.softmax(torch.matmul(query, key.permute(0, 2, 1)) * self.dim_head**-0.5, dim=-1)
        mixed = torch.matmul(scores, value).view(batch, -1, self.num_head * self.dim_head)
        return self.dropout(self.fc(mixed))


class CopyTaskAttention(nn.Module):
    """jsbaan/transformer-from-scratch#6: merged without transposing back. Query, key and value share one kernel."""

    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.num_heads, self.size = num_heads, hidden_dim // num_heads
        self.qkv_proj = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.o_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        batch, length, width = x.shape
        packed = self.qkv_proj(x).reshape(batch, length, self.num_heads, 3 * self.size)
        query, key, value = packed.permute(0, 2, 1, 3).chunk(3, dim=-1)
        scores = torch.softmax(query @ key.transpose(-2, -1) / self.size**0.5, dim=-1)
        return self.o_proj((scores @ value).reshape(batch, length, width)), scores


class VideoAttention(nn.Module):
    """aladdinpersson/Machine-Learning-Collection#3 and #65: split before projecting; divided by the root of the width.

    One small kernel of each role serves all heads. The arguments come as values, keys, query.
    """

    def __init__(self, embed_size, heads):
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def forward(self, values, keys, query, mask=None):
        values, keys, queries = (
            layer(part.reshape(part.shape[0], part.shape[1], self.heads, self.head_dim))
            for layer, part in ((self.values, values), (self.keys, keys), (self.queries, query))
        )
        energy = torch.einsum("nqhd,nkhd->nhqk", queries, keys)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        scores = torch.softmax(energy / self.embed_size**0.5, dim=3)
        mixed = torch.einsum("nhqk,nkhd->nqhd", scores, values)
        return self.fc_out(mixed.reshape(query.shape[0], query.shape[1], self.embed_size))


class KeyForValueAttention(nn.Module):
    """yflyzhang/AnnotatedTransformer#1: the value goes through the key's projection; `v_proj` is never used."""

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        batch = query.size(0)
        if mask is not None:
            mask = mask.unsqueeze(1)
        query, key, value = (
            layer(part).view(batch, -1, self.n_heads, self.d_k).transpose(1, 2)
            for layer, part in ((self.q_proj, query), (self.k_proj, key), (self.k_proj, value))
        )
        logits = query @ key.transpose(-2, -1) / self.d_k**0.5
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -1e9)
        mixed = self.dropout(torch.softmax(logits, dim=-1)) @ value
        return self.out_proj(mixed.transpose(1, 2).contiguous().view(batch, -1, self.n_heads * self.d_k))


class ViewedAttention(nn.Module):
    """akshitac8/Generative_MLZSL, model.py: split by `view`, yet merged with a transpose.

    Logits of exactly 0 are hidden, too: without a mask there are none. There, the query is added to the result; this is
    what stands before it.
    """

    def __init__(self, heads, d_model, dropout=0.0):
        super().__init__()
        self.h, self.d_k = heads, d_model // heads
        self.q_linear, self.v_linear, self.k_linear, self.out = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v):
        batch = q.size(0)
        k = self.k_linear(k).view(batch, self.h, -1, self.d_k)
        q = self.q_linear(q).view(batch, self.h, -1, self.d_k)
        v = self.v_linear(v).view(batch, self.h, -1, self.d_k)
        logits = torch.matmul(q, k.transpose(-2, -1)) / self.d_k**0.5
        logits = logits.masked_fill(logits == 0, -1e9)
        mixed = torch.matmul(self.dropout(torch.softmax(logits, dim=-1)), v)
        return self.out(mixed.transpose(1, 2).contiguous().view(batch, -1, self.h * self.d_k))


class ExchangedAttention(nn.Module):
    """gazelle93/Transformer-Various-Positional-Encoding#1: (B·H, T, O) is read as (H, B, T, O) when merging."""

    def __init__(self, emb_dim, num_heads):
        super().__init__()
        self.num_heads, self.size = num_heads, emb_dim // num_heads
        self.q_linear, self.k_linear, self.v_linear, self.output_linear = (
            nn.Linear(emb_dim, emb_dim) for _ in range(4)
        )

    def _split(self, array):
        array = array.view(*array.shape[:2], self.num_heads, self.size).transpose(1, 2)
        return array.reshape(-1, *array.shape[2:])

    def forward(self, query, key, value):
        batch = query.size(0)
        query = self._split(self.q_linear(query))
        key, value = self._split(self.k_linear(key)), self._split(self.v_linear(value))
        scores = torch.softmax(query @ key.transpose(1, 2) / self.size**0.5, dim=-1)
        mixed = (scores @ value).view(self.num_heads, batch, -1, self.size)
        return self.output_linear(mixed.permute(1, 2, 0, 3).reshape(batch, -1, self.num_heads * self.size))


class EinsumAttention(nn.Module):
    """rasbt/LLMs-from-scratch#857: kernels are made (out, in) and used as (in, out); it runs because both are equal."""

    def __init__(self, d_in, d_out, num_heads, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.W_query, self.W_key, self.W_value = (nn.Parameter(torch.randn(d_out, d_in)) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = (
            torch.einsum("bnd,di->bni", x, kernel).view(batch, length, self.num_heads, self.head_dim).transpose(1, 2)
            for kernel in (self.W_query, self.W_key, self.W_value)
        )
        logits = torch.einsum("bhnd,bhmd->bhnm", query, key)
        future = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
        scores = torch.softmax(logits.masked_fill(future, -torch.inf) / self.head_dim**0.5, dim=-1)
        mixed = torch.einsum("bhnm,bhmd->bhnd", self.dropout(scores), value)
        return self.out_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
