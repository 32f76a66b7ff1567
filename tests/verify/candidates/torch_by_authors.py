"""Modules in the styles of authors who had not read kmha."""

import torch
from torch import nn


class T5Attention(nn.Module):
    """Logits are not scaled, as in T5. Its mask is made in float32 of the smallest number of its own dtype."""

    def __init__(self, d_model=32, d_kv=8, num_heads=4, num_buckets=32):
        super().__init__()
        self.n_heads, self.d_kv, self.num_buckets = num_heads, d_kv, num_buckets
        self.q, self.k, self.v = (nn.Linear(d_model, num_heads * d_kv, bias=False) for _ in range(3))
        self.o = nn.Linear(num_heads * d_kv, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)

    def forward(self, hidden_states, attention_mask=None):
        b, n, _ = hidden_states.shape
        q, k, v = (
            f(hidden_states).view(b, n, self.n_heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        places = torch.arange(n)
        bias = self.relative_attention_bias((places[:, None] - places).abs().clamp(max=self.num_buckets - 1))
        scores = q @ k.transpose(3, 2) + bias.permute(2, 0, 1)
        if attention_mask is not None:
            scores = scores + (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(scores.dtype).min
        mixed = torch.softmax(scores.float(), dim=-1).type_as(scores) @ v
        return self.o(mixed.transpose(1, 2).reshape(b, n, -1))


class Chunked(nn.Module):
    """Causal attention that keeps its own cache so that prompts can be fed in chunks."""

    def __init__(self, dim, n_head, wrong=""):
        super().__init__()
        self.n_head, self.hd, self.wrong = n_head, dim // n_head, wrong
        self.wqkv, self.wo = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.reset()

    def reset(self):
        self.cache_k = None
        self.cache_v = None

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, self.n_head, self.hd).permute(2, 0, 3, 1, 4)
        if self.cache_k is not None:
            k, v = torch.cat((self.cache_k, k), dim=2), torch.cat((self.cache_v, v), dim=2)
        self.cache_k, self.cache_v = k.detach(), v.detach()
        visible = torch.ones(t, k.size(2), dtype=torch.bool).tril(0 if self.wrong == "corner" else k.size(2) - t)
        att = (q @ k.transpose(-1, -2) / self.hd**0.5).masked_fill(~visible, float("-inf")).softmax(dim=-1)
        return self.wo((att @ v).transpose(1, 2).reshape(b, t, c))


class PartlyRotary(nn.Module):
    """The first `rotary_dim` features of each head are turned, in pairs of neighbours as in GPT-J."""

    def __init__(self, n_embd=32, n_head=2, rotary_dim=8):
        super().__init__()
        self.n_head, self.head_dim, self.rotary_dim = n_head, n_embd // n_head, rotary_dim
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(n_embd, n_embd, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(n_embd, n_embd, bias=False)

    def turned(self, x):
        frequencies = 1.0 / (10000 ** (torch.arange(0, self.rotary_dim, 2) / self.rotary_dim))
        angles = torch.arange(x.size(1)).float()[:, None] * frequencies
        sin, cos = (each.repeat_interleave(2, 1)[None, :, None, :].to(x.dtype) for each in (angles.sin(), angles.cos()))
        part, rest = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        swapped = torch.stack((-part[..., 1::2], part[..., ::2]), dim=-1).flatten(-2)
        return torch.cat([part * cos + swapped * sin, rest], dim=-1)

    def forward(self, hidden_states):
        b, t, _ = hidden_states.shape
        q, k, v = (f(hidden_states).view(b, t, self.n_head, -1) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (each.transpose(1, 2) for each in (self.turned(q), self.turned(k), v))
        mixed = torch.softmax(q @ k.transpose(-1, -2) / self.head_dim**0.5, dim=-1) @ v
        return self.out_proj(mixed.transpose(1, 2).reshape(b, t, -1))
