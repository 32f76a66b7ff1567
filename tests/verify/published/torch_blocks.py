"""Encoder layers and embeddings of public threads in torch, in own words."""

import math

import torch
from torch import nn


class _Attention(nn.Module):
    # The usual one.

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.fc_q, self.fc_k, self.fc_v)
        )
        scores = torch.softmax(query @ key.transpose(2, 3) / query.shape[-1] ** 0.5, dim=-1)
        return self.fc_o((scores @ value).transpose(1, 2).flatten(2))


class SharedNormLayer(nn.Module):
    """bentrevett/pytorch-seq2seq#100: one LayerNorm serves the attention and the feed-forward."""

    def __init__(self, hid_dim, n_heads, pf_dim, dropout=0.1):
        super().__init__()
        self.ln = nn.LayerNorm(hid_dim, eps=1e-6)
        self.sa = _Attention(hid_dim, n_heads)
        self.fc_1, self.fc_2 = nn.Linear(hid_dim, pf_dim), nn.Linear(pf_dim, hid_dim)
        self.do = nn.Dropout(dropout)

    def forward(self, src):
        src = self.ln(src + self.do(self.sa(src)))
        return self.ln(src + self.do(self.fc_2(self.do(torch.relu(self.fc_1(src))))))


class LatticeLayer(nn.Module):
    """LeeSureman/Flat-Lattice-Transformer#34: the add step adds the sublayer's output to itself; the input is lost."""

    def __init__(self, hidden_size, num_heads, ff_size):
        super().__init__()
        self.attn = _Attention(hidden_size, num_heads)
        self.linear_1, self.linear_2 = nn.Linear(hidden_size, ff_size), nn.Linear(ff_size, hidden_size)
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden_size, eps=1e-6), nn.LayerNorm(hidden_size, eps=1e-6)

    def _process(self, inp, norm, sequence="an"):
        output = inp
        for operation in sequence:
            output = output + inp if operation == "a" else norm(output)
        return output

    def forward(self, inp):
        output = self._process(self.attn(inp), self.norm_1)
        return self._process(self.linear_2(torch.relu(self.linear_1(output))), self.norm_2)


def _table(length, width, sine, cosine):
    # Sines on even and cosines on odd columns, of position and column.
    table = torch.zeros(length, width, dtype=torch.float64)
    for position in range(length):
        for i in range(0, width, 2):
            table[position, i] = math.sin(sine(position, i))
            table[position, i + 1] = math.cos(cosine(position, i))
    return table


class EvenEmbedding(nn.Module):
    """SamLynnEvans/Transformer#25: i is even already, and doubled; the cosine's exponent is one pair further, too."""

    def __init__(self, vocab_size, d_model, max_seq_len=80):
        super().__init__()
        self.d_model, self.embed = d_model, nn.Embedding(vocab_size, d_model)
        table = _table(
            max_seq_len,
            d_model,
            lambda position, i: position / 10000 ** (2 * i / d_model),
            lambda position, i: position / 10000 ** (2 * (i + 1) / d_model),
        )
        self.register_buffer("pe", table)

    def forward(self, x):
        return self.embed(x) * self.d_model**0.5 + self.pe[: x.size(1)]


class ThousandEmbedding(nn.Module):
    """maxjcohen/transformer#62: the base is 1,000, and the cosines' exponents start at 1."""

    def __init__(self, vocab_size, d_model, max_seq_len=80):
        super().__init__()
        self.d_model, self.embed = d_model, nn.Embedding(vocab_size, d_model)
        table = _table(
            max_seq_len,
            d_model,
            lambda position, i: position / 1000 ** (i / d_model),
            lambda position, i: position / 1000 ** ((i + 1) / d_model),
        )
        self.register_buffer("pe", table)

    def forward(self, x):
        return self.embed(x) * self.d_model**0.5 + self.pe[: x.size(1)]


class ColumnEmbedding(nn.Module):
    """jadore801120/attention-is-all-you-need-pytorch#32: the exponent is 2·i/d for every column i, not every pair."""

    def __init__(self, vocab_size, d_model, n_position=80):
        super().__init__()
        self.d_model, self.embed = d_model, nn.Embedding(vocab_size, d_model)
        positions = torch.arange(n_position, dtype=torch.float64)[:, None]
        table = positions / 10000 ** (2 * torch.arange(d_model, dtype=torch.float64) / d_model)
        table[:, 0::2], table[:, 1::2] = torch.sin(table[:, 0::2]), torch.cos(table[:, 1::2])
        self.register_buffer("pe", table)

    def forward(self, x):
        return self.embed(x) * self.d_model**0.5 + self.pe[: x.size(1)]
