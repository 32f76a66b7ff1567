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
