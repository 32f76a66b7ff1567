"""torch modules in the styles of course notebooks: lists of heads, modules passed in, names of other languages."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Heads(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.w_q, self.w_k, self.w_v, self.w_concat = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:2], self.n_head, -1).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        logits = q @ k.transpose(2, 3) / math.sqrt(k.shape[-1])
        if mask is not None:
            logits = logits.masked_fill(mask == 0, -torch.inf)
        return self.w_concat((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, hidden, drop_prob=0.1):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, hidden), nn.Linear(hidden, d_model)
        self.dropout = nn.Dropout(drop_prob)

    def forward(self, x):
        return self.linear2(self.dropout(F.relu(self.linear1(x))))


class EncoderLayer(nn.Module):
    def __init__(self, hidden, attn_heads, feed_forward_hidden, drop_prob):
        super().__init__()
        self.attention = Heads(hidden, attn_heads)
        self.ffn = PositionwiseFeedForward(hidden, feed_forward_hidden, drop_prob)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x, src_mask):
        x = self.norm1(x + self.attention(x, x, x, src_mask))
        return self.norm2(x + self.ffn(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, ffn_hidden, n_head, drop_prob, wrong=""):
        super().__init__()
        self.self_attention, self.enc_dec_attention = Heads(d_model, n_head), Heads(d_model, n_head)
        self.ffn = PositionwiseFeedForward(d_model, ffn_hidden, drop_prob)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.wrong = wrong

    def forward(self, dec, enc, trg_mask, src_mask):
        x = self.norm1(dec + self.self_attention(dec, dec, dec, trg_mask))
        crossed = self.enc_dec_attention(x, enc, enc, src_mask)
        x = self.norm2(crossed if self.wrong else crossed + x)
        return self.norm3(x + self.ffn(x))


class Decodeur(DecoderLayer):
    """The names of the inputs and the masks mean nothing to kmha."""

    def __init__(self, d_model, n_head, d_ff):
        super().__init__(d_model, d_ff, n_head, 0.0)

    def forward(self, cible, origine, masque_cible=None, masque_origine=None):
        return super().forward(cible, origine, masque_cible, masque_origine)


class Head(nn.Module):
    def __init__(self, n_embd, head_size, block_size, wrong=""):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.ones(block_size, block_size).tril())
        self.wrong = wrong

    def forward(self, x):
        k, q, v = self.key(x), self.query(x), self.value(x)
        weights = q @ k.transpose(-2, -1) * (x if self.wrong == "width" else k).shape[-1] ** -0.5
        length = x.shape[1]
        return weights.masked_fill(self.tril[:length, :length] == 0, -torch.inf).softmax(-1) @ v


class ListOfHeads(nn.Module):
    def __init__(self, n_embd, num_heads, head_size, block_size=256, wrong=""):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embd, head_size, block_size, wrong) for _ in range(num_heads)])
        self.proj = nn.Linear(head_size * num_heads, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


class Block(nn.Module):
    """A block whose constructor does not say how wide its feed-forward network is."""

    def __init__(self, n_embd, n_head, wrong=""):
        super().__init__()
        self.sa = ListOfHeads(n_embd, n_head, n_embd // n_head)
        self.ffwd = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.wrong = wrong

    def forward(self, x):
        normed = self.ln1(x)
        x = (normed if self.wrong else x) + self.sa(normed)
        return x + self.ffwd(self.ln2(x))


class Sublayer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))


class Assembled(nn.Module):
    """A pre-norm encoder layer of modules that its constructor takes."""

    def __init__(self, size, self_attn, feed_forward):
        super().__init__()
        self.self_attn, self.feed_forward = self_attn, feed_forward
        self.sublayer = nn.ModuleList([Sublayer(size), Sublayer(size)])

    def forward(self, x, mask):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer[1](x, self.feed_forward)


class Attention(nn.Module):
    """Its mask hides where True, and its flag has a name of its own."""

    def __init__(self, largeur, tetes, causale=False, wrong=""):
        super().__init__()
        self.tetes, self.causale = tetes, causale and not wrong
        self.requetes, self.cles, self.valeurs, self.sortie = (nn.Linear(largeur, largeur) for _ in range(4))

    def forward(self, entree, masque=None):
        layers = self.requetes, self.cles, self.valeurs
        q, k, v = (layer(entree).view(*entree.shape[:2], self.tetes, -1).transpose(1, 2) for layer in layers)
        logits = q @ k.mT / q.shape[-1] ** 0.5
        if self.causale:
            logits = logits.masked_fill(torch.ones(logits.shape[-2:]).triu(1).bool(), -torch.inf)
        if masque is not None:
            logits = logits.masked_fill(masque, -torch.inf)
        return self.sortie((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


def with_bias(q, k, v, attn_bias):
    return (q @ k.mT / q.size(-1) ** 0.5 + attn_bias).softmax(-1) @ v


assembled = Assembled(24, Heads(24, 3), PositionwiseFeedForward(24, 40))
built_in_encoder = nn.TransformerEncoderLayer(20, 4, 36, norm_first=True)
built_in_attention = nn.MultiheadAttention(24, 3)
