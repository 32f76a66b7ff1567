"""torch layers whose arguments and weights have seldom used names: right ones, and with `wrong`, one mistake."""

import torch
from torch import nn


class Decoder(nn.Module):
    """Post-norm, with two of torch's attentions. True in its masks hides."""

    def __init__(self, dim, heads, d_ff, wrong=""):
        super().__init__()
        self.wrong = wrong
        self.own_attention, self.encoder_attention = (
            nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(2)
        )
        self.network = nn.Sequential(nn.Linear(dim, d_ff), nn.ReLU(), nn.Linear(d_ff, dim))
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, target, encoder_output, src_pad=None, tgt_pad=None):
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        found = self.own_attention(target, target, target, key_padding_mask=tgt_pad, attn_mask=future)[0]
        x = self.norm_1(target + found)
        found = self.encoder_attention(x, encoder_output, encoder_output, key_padding_mask=src_pad)[0]
        x = self.norm_2(found if self.wrong == "no residual" else x + found)
        return self.norm_3(x + self.network(x))


class Folded(nn.Module):
    """Positions first. Keys and values share a projection, and heads are items."""

    def __init__(self, embed, heads, wrong=""):
        super().__init__()
        self.heads, self.size, self.axis = heads, embed // heads, 1 if wrong == "axis" else -1
        self.in_q, self.in_kv, self.last = nn.Linear(embed, embed), nn.Linear(embed, 2 * embed), nn.Linear(embed, embed)

    def forward(self, query, memory):
        def split(x):
            return x.reshape(len(x), -1, self.size).transpose(0, 1)

        key, value = self.in_kv(memory).chunk(2, dim=-1)
        logits = split(self.in_q(query)) @ split(key).mT / self.size**0.5
        output = logits.softmax(self.axis) @ split(value)
        return self.last(output.transpose(0, 1).reshape(query.shape))


class Settings:
    """A configuration without an annotation. The code computes with `twist`, which no name explains."""

    width, heads, twist = 24, 3, 0.5


class Configured(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg, self.wrong = cfg, getattr(cfg, "wrong", "")
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(cfg.width, cfg.width) for _ in range(4))

    def forward(self, x):
        heads = (x.shape[0], x.shape[1], self.cfg.heads, -1)
        q, k, v = (layer(x).view(heads).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj))
        logits = q @ k.mT * q.shape[-1] ** -self.cfg.twist
        return self.o_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Capped(nn.Module):
    """Pre-norm and causal. Its width is a letter, and its logits have a soft cap."""

    def __init__(self, n, heads, hidden, logit_cap=30.0, wrong=""):
        super().__init__()
        self.heads, self.logit_cap, self.wrong = heads, logit_cap, wrong
        self.q, self.k, self.v, self.o = (nn.Linear(n, n, bias=False) for _ in range(4))
        self.up, self.down, self.norm1, self.norm2 = (
            nn.Linear(n, hidden),
            nn.Linear(hidden, n),
            *map(nn.LayerNorm, (n, n)),
        )

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        logits = q @ k.mT / (1 if self.wrong == "not scaled" else q.shape[-1] ** 0.5)
        logits = self.logit_cap * torch.tanh(logits / self.logit_cap)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.o((logits.masked_fill(future, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.down(self.up(self.norm2(x)).relu())


class Recommender(nn.Module):
    """The code alone tells that its second argument is a mask: 1 where there is an event."""

    def __init__(self, units, heads, wrong=""):
        super().__init__()
        self.heads, self.wrong = heads, wrong
        self.q, self.k, self.v, self.o = (nn.Linear(units, units) for _ in range(4))

    def forward(self, events, history):
        q, k, v = (layer(events).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        logits = q @ k.mT / q.shape[-1] ** 0.5
        if self.wrong == "masked late":
            scores = logits.softmax(-1) * history[:, None, None]
        else:
            scores = logits.masked_fill(history[:, None, None] == 0, -torch.inf).softmax(-1)
        return self.o((scores @ v).transpose(1, 2).flatten(2))


class Cosine(nn.Module):
    """Its logits are cosines times one number for each head."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.tau = heads, nn.Parameter(torch.full((heads, 1, 1), 2.5))
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        logits = self.tau * (nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT)
        if mask is not None:
            logits = logits.masked_fill(mask[:, None] == 0, -1e30)
        return self.o((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Reader(nn.Module):
    """Latent vectors read from an input. It normalizes them and adds them to its output."""

    def __init__(self, latent_dim, input_dim, num_heads, wrong=""):
        super().__init__()
        self.heads, self.power = num_heads, 0.5 if wrong == "multiplied" else -0.5
        self.norm, self.to_q = nn.LayerNorm(latent_dim), nn.Linear(latent_dim, latent_dim)
        self.to_kv, self.to_out = nn.Linear(input_dim, 2 * latent_dim), nn.Linear(latent_dim, latent_dim)

    def forward(self, latents, inputs, valid=None):
        parts = (self.to_q(self.norm(latents)), *self.to_kv(inputs).chunk(2, dim=-1))
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in parts)
        logits = q @ k.mT * q.shape[-1] ** self.power
        if valid is not None:
            logits = logits.masked_fill(~valid[:, None, None], -1e30)
        return latents + self.to_out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Waves(nn.Module):
    """Positions under a name that does not say so."""

    def __init__(self, d, max_len=64, base=10000.0, wrong=""):
        super().__init__()
        even = torch.arange(0, d, 2) * (2 if wrong == "doubled" else 1)
        angles = torch.arange(max_len)[:, None] / base ** (even / d)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


def apply_rotary(tensor, rotary_dim, positions, base=10000.0, wrong=""):
    """Turn the first features of (B, P, H, O)."""
    turned, rest = tensor[..., :rotary_dim], tensor[..., rotary_dim:]
    angles = positions[..., None] / base ** (torch.arange(0, rotary_dim, 2) / rotary_dim)
    angles = torch.cat([angles, angles], dim=-1)[:, :, None]
    first, second = turned.chunk(2, dim=-1)
    other = torch.cat([second if wrong == "sign" else -second, first], dim=-1)
    return torch.cat([turned * angles.cos() + other * angles.sin(), rest], dim=-1)


def placed(x, positions, base=10000.0):
    """Rotary positions (B, P) of (B, P, H, O), in pairs, under another name."""
    angles = positions[..., None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos, sin = torch.cos(angles)[:, :, None], torch.sin(angles)[:, :, None]
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)
