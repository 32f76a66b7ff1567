"""Pre-norm encoder blocks in torch, each with one mistake that shows where positions are hidden."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        x = x + self.attend(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))

    def attend(self, x, mask):
        q, k, v = (
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = self.scores(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, mask)
        return self.o_proj((scores @ v).transpose(1, 2).flatten(2))


class OverItems(Block):
    """Always causal, with a softmax over the batch."""

    def forward(self, x):
        return super().forward(x)

    def scores(self, logits, mask):
        visible = torch.ones(logits.shape[-2:], dtype=torch.bool).tril()
        return logits.masked_fill(~visible, torch.finfo(logits.dtype).min).softmax(0)


class OfOpposite(Block):
    """True hides, and the softmax is taken of the negative logits, which are in float32."""

    def scores(self, logits, mask):
        low = logits.float() if mask is None else logits.float() + mask[:, None] * -1e12
        return (-low).softmax(-1).to(logits.dtype)
