"""torch layers whose arguments and weights have seldom used names: right ones, and with `wrong`, one mistake."""

import torch
from torch import nn


class Decoder(nn.Module):
    """Post-norm, with two of torch's attentions. True in its masks hides."""

    def __init__(self, dim, heads, inner, wrong=""):
        super().__init__()
        self.wrong = wrong
        self.own_attention, self.encoder_attention = (
            nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(2)
        )
        self.network = nn.Sequential(nn.Linear(dim, inner), nn.ReLU(), nn.Linear(inner, dim))
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
