"""Right layers with habits of public packages: what they take without reading it, and how they hold their parts."""

import torch
from torch import nn


def attend(q, k, v, heads, bias=0.0):
    q, k, v = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in (q, k, v))
    logits = q @ k.mT / q.shape[-1] ** 0.5 + bias
    return (logits.softmax(-1) @ v).transpose(1, 2).flatten(2)


class NumberedAttention(nn.Module):
    """Its projections are a list."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.linears = heads, nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory, bias=0.0):
        q, k, v = (layer(each) for layer, each in zip(self.linears[:3], (x, memory, memory), strict=True))
        return self.linears[3](attend(q, k, v, self.heads, bias))


class Decoder(nn.Module):
    """Post-norm. If `shifted`, the first normalization is at the end."""

    def __init__(self, width, heads, inner, shifted=False):
        super().__init__()
        self.self_attention, self.source_attention = (NumberedAttention(width, heads) for _ in range(2))
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(width, eps=1e-6) for _ in range(3))
        self.shifted = shifted

    def forward(self, x, memory):
        norms = (self.ln2, self.ln3, self.ln1) if self.shifted else (self.ln1, self.ln2, self.ln3)
        causal = torch.full((x.shape[1],) * 2, -torch.inf, dtype=x.dtype).triu(1)
        x = norms[0](x + self.self_attention(x, x, causal))
        x = norms[1](x + self.source_attention(x, memory))
        return norms[2](x + self.fc2(self.fc1(x).relu()))


class Inside(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, memory):
        return self.layer(x, memory)


class Projected(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))


class SelfAttention(Projected):
    """It takes a memory, as the other layers of its package do, and never reads it."""

    def forward(self, hidden_states, encoder_hidden_states=None, encoder_attention_mask=None):
        x = hidden_states
        return self.out(attend(self.query(x), self.key(x), self.value(x), self.heads))


class OtherAttention(SelfAttention):
    """The same under a name that promises more."""

    def forward(self, hidden_states, encoder_hidden_states=None):
        x = hidden_states
        return self.out(attend(self.query(x), self.key(x), self.value(x), self.heads))


class MaskOfHeads(Projected):
    """Its mask must have an axis of heads of their number."""

    def forward(self, x, mask=None):
        if mask is None:
            mask = torch.ones(len(x), self.heads, x.shape[1], x.shape[1], dtype=torch.bool)
        if mask.shape != (len(x), self.heads, x.shape[1], x.shape[1]) or mask.dtype != torch.bool:
            raise ValueError("expected a boolean mask (B, H, T, S)")
        bias = torch.zeros(mask.shape, dtype=x.dtype).masked_fill(~mask, -torch.inf)
        return self.out(attend(self.query(x), self.key(x), self.value(x), self.heads, bias))


class FloatMask(Projected):
    """Its mask is added. Only another branch knows boolean masks."""

    def forward(self, x, attention_mask: torch.FloatTensor | None = None, flash=False):
        if flash and attention_mask is not None and attention_mask.dtype == torch.bool:
            raise NotImplementedError
        bias = 0.0 if attention_mask is None else attention_mask
        return self.out(attend(self.query(x), self.key(x), self.value(x), self.heads, bias + 0.0))


class CrossAttention(Projected):
    """Its cache keeps the projected memory."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.is_cross = True

    def forward(self, x, kv_source=None, past_kv=None, use_cache=False):
        source = x if kv_source is None else kv_source
        k, v = (self.key(source), self.value(source)) if past_kv is None else past_kv
        output = self.out(attend(self.query(x), k, v, self.heads))
        return output, ((k, v) if use_cache else None)


class ScaledDotProduct(nn.Module):
    def forward(self, roles):
        q, k, v = roles
        return (q @ k.mT / q.size(-1) ** 0.5).softmax(-1) @ v


def calling(module):
    """Return a function that uses nothing of torch but an object."""

    def attention(query, key, value):
        return module((query, key, value))

    return attention
