"""Right layers in forms that the diagnosis once refused or accused, each with a mistake that `wrong` makes."""

import math

import torch
from candidates_torch_packages import attend, hiding
from torch import nn


class Projections(nn.Module):
    """Projections of query, key, value and output, with attention between them."""

    def __init__(self, d_model, num_heads, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_heads, wrong
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def attend(self, q, k, v, bias=0.0):
        return self.wo(attend(self.wq(q), self.wk(k), self.wv(v), self.heads, bias, self.wrong))


class Crossing(Projections):
    """A block with cross-attention alone, whose mask is (B, 1, 1, S)."""

    def __init__(self, d_model, num_heads, d_ff, wrong=""):
        super().__init__(d_model, num_heads, wrong)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, context, mask=None):
        attended = self.attend(x, context, context, hiding(mask))
        x = self.norm1(attended if self.wrong == "no residual" else x + attended)
        return self.norm2(x + self.ff(x))


class ValueKeyQuery(Crossing):
    """A block that takes query, key and value, in another order."""

    def forward(self, value, key, query, mask):
        return super().forward(query, key, mask)


class CrossingPreNorm(Crossing):
    """A pre-norm block with a normalization of the memory."""

    def __init__(self, d_model, num_heads, d_ff, wrong=""):
        super().__init__(d_model, num_heads, d_ff, wrong)
        self.norm_context = nn.LayerNorm(d_model)

    def forward(self, x, context):
        context = self.norm_context(context)
        x = x + self.attend(self.norm1(x), context, context)
        return x + self.ff(self.norm2(x))


class NeedsMask(Crossing):
    """An encoder layer whose mask is optional by its signature alone."""

    def forward(self, x, attention_mask=None):
        hidden = (attention_mask == 0).view(attention_mask.shape[0], 1, 1, -1)
        x = self.norm1(x + self.attend(x, x, x, torch.zeros(hidden.shape).masked_fill(hidden, -1e30)))
        return self.norm2(x + self.ff(x))


class EncoderState(Projections):
    """Self-attention in an encoder, whose input is called after it."""

    def __init__(self, head_count, embed_count, wrong=""):
        super().__init__(embed_count, head_count, wrong)

    def forward(self, encoder_state, attention_mask):
        return self.attend(encoder_state, encoder_state, encoder_state, hiding(attention_mask))


class Head(nn.Module):
    def __init__(self, d_in, d_out, context_length, wrong):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
        self.wrong = wrong
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), 1).bool())

    def forward(self, x):
        length = x.shape[1]
        bias = hiding(~self.mask[:length, :length])
        return attend(self.W_query(x), self.W_key(x), self.W_value(x), 1, bias, self.wrong)


class ListOfHeads(nn.Module):
    """Causal heads side by side, without an output projection. `d_out` is the width of each."""

    def __init__(self, d_in, d_out, context_length, num_heads, wrong=""):
        super().__init__()
        self.heads = nn.ModuleList([Head(d_in, d_out, context_length, wrong) for _ in range(num_heads)])

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


class RotatesOnRequest(Projections):
    """Attention with a normalized input, which rotates queries and keys if it gets angles."""

    def __init__(self, d_model, num_heads, wrong=""):
        super().__init__(d_model, num_heads, wrong)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, rotary_emb=None):
        if rotary_emb is not None:
            raise NotImplementedError
        x = self.norm(x)
        return self.attend(x, x, x)


class DropsScores(Projections):
    """Attention that drops scores in training."""

    def __init__(self, d_model, num_heads, dropout=0.0, wrong=""):
        super().__init__(d_model, num_heads, wrong)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.wq, self.wk, self.wv))
        scores = self.drop((q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1))
        scores = scores.transpose(-1, -2) if self.wrong == "transposed" else scores
        return self.wo((scores @ v).transpose(1, 2).flatten(2))


class CacheOfAnother(Projections):
    """Attention that returns its scores, and leaves a cache to hooks that a model may install."""

    def __init__(self, n_state=12, n_head=3, wrong=""):
        super().__init__(n_state, n_head, wrong)

    def forward(self, x, kv_cache=None):
        q, k, _ = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.wq, self.wk, self.wv))
        return self.attend(x, x, x), (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)


class PositionalEncoder(nn.Module):
    """Sinusoids added to vectors (T, B, E)."""

    def __init__(self, emb_size, dropout=0.0, maxlen=64, wrong=""):
        super().__init__()
        angles = torch.arange(maxlen)[:, None] * torch.exp(-torch.arange(0, emb_size, 2) * math.log(1e4) / emb_size)
        table = torch.stack([angles.sin(), angles.sin() if wrong == "sines" else angles.cos()], -1).flatten(1)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", table[:, None])

    def forward(self, token_embedding):
        return self.drop(token_embedding + self.pos_embedding[: token_embedding.shape[0]])


class TextToImage(nn.Module):
    """Attention whose widths have names of their own."""

    def __init__(self, text_dim, image_dim, hidden_dim, num_heads, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_heads, wrong
        self.query, self.out = nn.Linear(text_dim, hidden_dim), nn.Linear(hidden_dim, text_dim)
        self.key, self.value = nn.Linear(image_dim, hidden_dim), nn.Linear(image_dim, hidden_dim)

    def forward(self, text, regions):
        mixed = attend(self.query(text), self.key(regions), self.value(regions), self.heads, 0.0, self.wrong)
        return self.out(mixed)


class OfConfig(nn.Module):
    """Causal attention whose configuration calls the largest length a context."""

    def __init__(self, config, wrong=""):
        super().__init__()
        self.heads, self.wrong = config.heads, wrong
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(config.hidden, config.hidden) for _ in range(4))
        self.register_buffer("seen", torch.ones(config.context, config.context).tril().bool())

    def forward(self, hidden_states):
        x, length = hidden_states, hidden_states.shape[1]
        bias = hiding(self.seen[:length, :length])
        return self.wo(attend(self.wq(x), self.wk(x), self.wv(x), self.heads, bias, self.wrong))


class WithValueSize(nn.Module):
    """A decoder layer whose constructor takes two head sizes, and whose masks have rare names."""

    def __init__(self, d_model, d_inner, n_head, d_k, d_v, wrong=""):
        super().__init__()
        self.slf, self.enc = Projections(n_head * d_k, n_head, wrong), Projections(n_head * d_v, n_head, wrong)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))

    def forward(self, dec_input, enc_output, slf_attn_mask=None, dec_enc_attn_mask=None):
        x = dec_input
        x = self.norms[0](x + self.slf.attend(x, x, x, hiding(slf_attn_mask)))
        x = self.norms[1](x + self.enc.attend(x, enc_output, enc_output, hiding(dec_enc_attn_mask)))
        return self.norms[2](x + self.ff(x))


class Packed(nn.Module):
    """Query, key and value in one layer, with fewer heads of keys and values, in one of several orders."""

    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, order="roles", wrong=""):
        super().__init__()
        self.heads, self.groups, self.size, self.order = num_heads, num_kv_heads, d_model // num_heads, order
        self.wrong = wrong
        self.qkv_proj = nn.Linear(d_model, (num_heads + 2 * num_kv_heads) * self.size, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x):
        q, k, v = (each.transpose(1, 2) for each in self.split(self.qkv_proj(x).unflatten(-1, (-1, self.size))))
        k, v = (each.repeat_interleave(self.heads // self.groups, dim=1) for each in (k, v))
        logits = q @ k.transpose(-1, -2) / (1 if self.wrong == "no scale" else math.sqrt(self.size))
        return self.out_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def split(self, heads):
        if self.order == "groups":
            of_groups = heads.unflatten(2, (self.groups, -1))
            return of_groups[:, :, :, :-2].flatten(2, 3), of_groups[:, :, :, -2], of_groups[:, :, :, -1]
        if self.order == "pairs":
            pairs = heads[:, :, self.heads :].unflatten(2, (self.groups, 2))
            return heads[:, :, : self.heads], pairs[:, :, :, 0], pairs[:, :, :, 1]
        q, k, v = heads.split([self.heads, self.groups, self.groups], dim=2)
        return (q, v, k) if self.order == "value before key" else (q, k, v)


class Parts(nn.Module):
    """A list of parts, each with two heads."""

    def __init__(self):
        super().__init__()
        self.parts, self.out = nn.ModuleList([Part(), Part()]), nn.Linear(32, 32)

    def forward(self, x):
        return self.out(torch.cat([part(x) for part in self.parts], dim=-1))


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 16, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = (each(x).unflatten(-1, (2, 8)).transpose(1, 2) for each in (self.q, self.k, self.v))
        return ((q @ k.transpose(-1, -2) / math.sqrt(8)).softmax(-1) @ v).transpose(1, 2).flatten(2)


class FusedHeads(nn.Module):
    """A list of heads, each with query, key and value in one layer."""

    def __init__(self, size=4, heads=3):
        super().__init__()
        self.heads = nn.ModuleList([FusedHead(size * heads, size) for _ in range(heads)])
        self.out = nn.Linear(size * heads, size * heads)

    def forward(self, x):
        return self.out(torch.cat([head(x) for head in self.heads], dim=-1))


class FusedHead(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * size)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v


class GroupedBlock(nn.Module):
    """A block in which keys and values have fewer heads, in one packed layer or in layers of their own."""

    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, packed=False, wrong=""):
        super().__init__()
        self.attn = (Packed if packed else Separate)(d_model, num_heads, num_kv_heads, wrong=wrong)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.linear2(torch.nn.functional.gelu(self.linear1(self.norm2(x))))


class Separate(Packed):
    def __init__(self, d_model, num_heads, num_kv_heads, wrong=""):
        super().__init__(d_model, num_heads, num_kv_heads, wrong=wrong)
        del self.qkv_proj
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj, self.v_proj = (nn.Linear(d_model, num_kv_heads * self.size) for _ in range(2))

    def qkv_proj(self, x):
        return torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], dim=-1)
