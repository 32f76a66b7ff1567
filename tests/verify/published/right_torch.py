"""Modules that public threads took to be wrong, and that are right, in own words."""

import torch
from torch import nn


class NotebookAttention(nn.Module):
    """phlippe/uvadlc_notebooks#72: `q.size()[-1]` is the head size, not the length. Packed head by head."""

    def __init__(self, input_dim, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.qkv_proj, self.o_proj = nn.Linear(input_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None, return_attention=False):
        batch, length, _ = x.size()
        packed = self.qkv_proj(x).reshape(batch, length, self.num_heads, -1).permute(0, 2, 1, 3)
        q, k, v = packed.chunk(3, dim=-1)
        logits = torch.matmul(q, k.transpose(-2, -1)) / q.size()[-1] ** 0.5
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -9e15)
        scores = torch.softmax(logits, dim=-1)
        output = self.o_proj(torch.matmul(scores, v).permute(0, 2, 1, 3).reshape(batch, length, self.embed_dim))
        return (output, scores) if return_attention else output


class LatentAttention(nn.Module):
    """lucidrains/perceiver-pytorch#46: the softmax runs over the keys of each query, as it should."""

    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=64):
        super().__init__()
        context_dim = query_dim if context_dim is None else context_dim
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(context_dim, heads * dim_head * 2, bias=False)
        self.to_out = nn.Linear(heads * dim_head, query_dim)

    def forward(self, x, context=None):
        context = x if context is None else context
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)
            for part in (self.to_q(x), *self.to_kv(context).chunk(2, dim=-1))
        )
        logits = torch.einsum("bid,bjd->bij", query, key) * self.scale
        mixed = torch.einsum("bij,bjd->bid", logits.softmax(dim=-1), value)
        return self.to_out(mixed.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2))


class LensAttention(nn.Module):
    """TransformerLensOrg/TransformerLens#284: `triu` with diagonal=1 hides the future alone. It is causal."""

    def __init__(self, d_model, n_heads, d_head):
        super().__init__()
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(n_heads, d_model, d_head)) for _ in range(3))
        self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model))
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.zeros(n_heads, d_head)) for _ in range(3))
        self.b_O = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        query, key, value = (
            torch.einsum("bpm,hmd->bphd", x, kernel) + bias
            for kernel, bias in ((self.W_Q, self.b_Q), (self.W_K, self.b_K), (self.W_V, self.b_V))
        )
        logits = torch.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
        future = torch.triu(torch.ones(logits.shape[-2:]), diagonal=1).bool()
        scores = logits.masked_fill(future, -1e5).softmax(-1)
        return torch.einsum("bhqk,bkhd,hdm->bqm", scores, value, self.W_O) + self.b_O


class DiffusionAttention(nn.Module):
    """openai/improved-diffusion#54: query and key are both scaled by the fourth root, which makes one square root."""

    def __init__(self, channels, num_heads=1):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj_out = nn.Linear(channels, channels * 3), nn.Linear(channels, channels)

    def forward(self, x):
        packed = self.qkv(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2).flatten(0, 1)
        query, key, value = packed.chunk(3, dim=-1)
        scale = 1 / query.shape[-1] ** 0.25
        scores = torch.einsum("btc,bsc->bts", query * scale, key * scale).softmax(dim=-1)
        mixed = torch.einsum("bts,bsc->btc", scores, value)
        return self.proj_out(mixed.unflatten(0, (-1, self.num_heads)).transpose(1, 2).flatten(2))
