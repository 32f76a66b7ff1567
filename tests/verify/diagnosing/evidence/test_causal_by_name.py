"""Attention that is causal by its name alone."""

import pytest

from kmha.verify import diagnose


def heads(torch):
    class Heads(torch.nn.Module):
        def __init__(self, d_model, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.qkv, self.out = torch.nn.Linear(d_model, 3 * d_model), torch.nn.Linear(d_model, d_model)

        def mixed(self, x, hidden=None):
            parts = self.qkv(x).chunk(3, -1)
            q, k, v = (each.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2) for each in parts)
            logits = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
            logits = logits if hidden is None else logits.masked_fill(hidden, float("-inf"))
            return self.out((logits.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))

        def forward(self, x):
            return self.mixed(x)

    return Heads


def test_name_decides_only_if_nothing_else_can():
    torch = pytest.importorskip("torch")
    plain = heads(torch)

    class CausalSelfAttention(plain):
        pass

    class NonCausalAttention(plain):
        pass

    class CausalAttention(plain):
        def forward(self, x):
            return self.mixed(x, torch.ones(x.shape[1], x.shape[1]).triu(1).bool())

    class CausalWithMask(plain):
        def forward(self, x, mask=None):
            return self.mixed(x, mask)

    assert diagnose(CausalSelfAttention).ids == ("causal-missing",)
    assert diagnose(plain).right
    assert diagnose(NonCausalAttention).right
    assert diagnose(CausalAttention).right
    assert diagnose(CausalWithMask).right
