"""Right layers in the styles of public packages, each with a mistake that `wrong` makes."""

import math

import torch
from torch import nn


def attend(q, k, v, heads, bias=0.0, wrong=""):
    """Return the mixed values (B, T, H·O) of projected (B, P, H·O). `bias` is added to the logits."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    logits = q @ k.transpose(-1, -2) / (1.0 if wrong == "not scaled" else math.sqrt(q.shape[-1])) + bias
    scores = logits.softmax(-1)
    return ((scores.mT if wrong == "scores transposed" else scores) @ v).transpose(1, 2).flatten(2)


def hiding(mask):
    return 0.0 if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -1e30)


class Attention(nn.Module):
    """Attention to a memory, if `crosses`, or else to the input alone."""

    def __init__(self, hidden_size, num_heads, is_cross_attention=False, strict=False, wrong=""):
        super().__init__()
        self.heads, self.crosses, self.strict, self.wrong = num_heads, is_cross_attention, strict, wrong
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def forward(self, hidden_states, attention_mask=None, encoder_hidden_states=None, encoder_attention_mask=None):
        x, memory, bias = hidden_states, hidden_states, attention_mask
        if encoder_hidden_states is not None and self.strict and not self.crosses:
            raise ValueError("make it with is_cross_attention=True")
        if encoder_hidden_states is not None and self.crosses:
            memory, bias = encoder_hidden_states, encoder_attention_mask
        memory = x if self.wrong == "context ignored" else memory
        bias = 0.0 if bias is None else bias
        mixed = attend(self.q_proj(x), self.k_proj(memory), self.v_proj(memory), self.heads, bias, self.wrong)
        return self.out_proj(mixed)


class Decoder(nn.Module):
    """A decoder layer whose masks are called after the inputs that they belong to."""

    def __init__(self, d_model, num_heads, ffn_dim, wrong=""):
        super().__init__()
        self.self_attn = Attention(d_model, num_heads, wrong=wrong)
        self.encoder_attn = Attention(d_model, num_heads, True, wrong=wrong)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(d_model, ffn_dim), nn.Linear(ffn_dim, d_model)

    def forward(self, hidden_states, attention_mask=None, encoder_hidden_states=None, encoder_attention_mask=None):
        x = self.norm1(hidden_states + self.self_attn(hidden_states, attention_mask))
        x = self.norm2(x + self.encoder_attn(x, None, encoder_hidden_states, encoder_attention_mask))
        return self.norm3(x + self.fc2(torch.relu(self.fc1(x))))


class Norm(nn.Module):
    """A normalization with a gain of 1 + gamma and no shift."""

    def __init__(self, dim):
        super().__init__()
        self.norm, self.gamma = nn.LayerNorm(dim, elementwise_affine=False), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.norm(x) * (1.0 + self.gamma)


class PaddingAndMask(nn.Module):
    """Attention that takes padding as `mask`, (B, S), and a mask as `attn_mask`, (T, S)."""

    def __init__(self, dim=12, heads=3, wrong=""):
        super().__init__()
        self.heads, self.wrong = heads, wrong
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, context=None, mask=None, context_mask=None, attn_mask=None):
        memory = x if context is None else context
        padding = mask if context is None else context_mask
        bias = hiding(attn_mask) + (0.0 if padding is None else hiding(padding[:, None, None]))
        return self.to_out(attend(self.to_q(x), self.to_k(memory), self.to_v(memory), self.heads, bias, self.wrong))


class Block(nn.Module):
    """A built pre-norm block with such norms, whose weights are read more than once."""

    def __init__(self, dim=12, heads=3, wrong=""):
        super().__init__()
        self.heads = heads
        self.attn_norm, self.attn, self.ff_norm = Norm(dim), PaddingAndMask(dim, heads, wrong), Norm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 20), nn.GELU(), nn.Linear(20, dim))

    def forward(self, x, mask=None, attn_mask=None):
        x = x + self.attn(self.attn_norm(x), mask=mask, attn_mask=attn_mask)
        return x + self.ff(self.ff_norm(x))


class Latents(nn.Module):
    """A built pre-norm block whose latents attend to inputs, which are optional if other inputs are given."""

    def __init__(self, dim=12, heads=3, wrong=""):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Pair(dim, heads, wrong)
        self.mlp = nn.Sequential(nn.Linear(dim, 20), nn.GELU(), nn.Linear(20, dim))

    def forward(self, x_q, x_kv=None, x_kv_prefix=None, pad_mask=None):
        kv = self.norm2(torch.cat([x_kv_prefix, x_q], 1) if x_kv is None else x_kv)
        x = x_q + self.attn(self.norm1(x_q), kv, mask=None if pad_mask is None else ~pad_mask[:, None])
        return x + self.mlp(self.norm3(x))


class Pair(nn.Module):
    """Attention of x to y, which only a cache can replace."""

    def __init__(self, embed_dim, num_heads, wrong=""):
        super().__init__()
        self.num_heads, self.wrong = num_heads, wrong
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def forward(self, x, y=None, *, mask=None):
        if y is None:
            raise ValueError("there is no cache")
        bias = 0.0 if mask is None else hiding(mask[:, None])
        return self.out_proj(attend(self.q_proj(x), self.k_proj(y), self.v_proj(y), self.num_heads, bias, self.wrong))


class SkipsWithoutMemory(nn.Module):
    """A built pre-norm block with cross-attention alone, which does nothing without a memory."""

    def __init__(self, dim=12, heads=3, wrong=""):
        super().__init__()
        self.attn_norm, self.attn, self.mlp_norm = nn.LayerNorm(dim), Pair(dim, heads, wrong), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 20), nn.GELU(), nn.Linear(20, dim))

    def forward(self, x, *, encoder_input=None, encoder_mask=None):
        if encoder_input is None:
            return x
        x = x + self.attn(self.attn_norm(x), encoder_input, mask=encoder_mask)
        return x + self.mlp(self.mlp_norm(x))


class Relative(nn.Module):
    """Attention with a table of relative positions, which has the shape of a feed-forward network's kernel."""

    def __init__(self, dim, heads=3, length=64):
        super().__init__()
        self.heads, self.length = heads, length
        self.to_q, self.to_kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.to_out, self.rel_pos_emb = nn.Linear(dim, dim), nn.Embedding(2 * length + 1, dim // heads)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        table = self.rel_pos_emb(places[:, None] - places + self.length)
        q = self.to_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        bias = torch.einsum("bhto,tso->bhts", q, table) / math.sqrt(q.shape[-1])
        return self.to_out(attend(self.to_q(x), *self.to_kv(x).chunk(2, -1), self.heads, bias))


class FewKeys(nn.Module):
    """Attention with fewer heads of keys and values, whose input is normalized, but not its memory."""

    def __init__(self, dim=12, num_heads=4, dim_head=3, few=2, wrong=""):
        super().__init__()
        self.num_heads, self.few, self.wrong = num_heads, few, wrong
        self.norm, inner = nn.LayerNorm(dim), num_heads * dim_head
        self.to_q, self.to_kv = nn.Linear(dim, inner, bias=False), nn.Linear(dim, 2 * few * dim_head, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x, context):
        keys = self.to_kv(context).chunk(2, dim=-1)
        k, v = (
            each.unflatten(-1, (self.few, -1)).repeat_interleave(self.num_heads // self.few, -2).flatten(-2)
            for each in keys
        )
        return self.to_out(attend(self.to_q(self.norm(x)), k, v, self.num_heads, wrong=self.wrong))


class SizesOfRoles(nn.Module):
    """Attention that takes the size of each input, and lengths instead of masks."""

    def __init__(self, key_size, query_size, value_size, num_hiddens, num_heads, wrong=""):
        super().__init__()
        self.num_heads, self.wrong = num_heads, wrong
        self.W_q, self.W_k = nn.Linear(query_size, num_hiddens), nn.Linear(key_size, num_hiddens)
        self.W_v, self.W_o = nn.Linear(value_size, num_hiddens), nn.Linear(num_hiddens, num_hiddens)

    def forward(self, queries, keys, values, valid_lens=None):
        bias = 0.0
        if valid_lens is not None:
            tiled = valid_lens.repeat(self.num_heads)
            lengths = tiled if self.wrong == "mask tiled" else valid_lens.repeat_interleave(self.num_heads)
            bias = hiding(torch.arange(keys.shape[1]) < lengths.reshape(-1, self.num_heads, 1, 1))
        return self.W_o(attend(self.W_q(queries), self.W_k(keys), self.W_v(values), self.num_heads, bias))


class UnknownSizes(SizesOfRoles):
    """The same, with names that tell nothing."""

    def __init__(self, colour, query_size, shade, num_hiddens, num_heads, wrong=""):
        super().__init__(colour, query_size, shade, num_hiddens, num_heads, wrong)


class Head(nn.Module):
    """One head."""

    def __init__(self, width, size, wrong=""):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))
        self.wrong = wrong

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        return attend(self.query(x), self.key(memory), self.value(memory), 1, wrong=self.wrong)


class HeadsInAList(nn.Module):
    """Heads in a `ModuleList`, or in a plain list."""

    def __init__(self, n_embd, num_heads, plain=False, wrong=""):
        super().__init__()
        heads = [Head(n_embd, n_embd // num_heads, wrong) for _ in range(num_heads)]
        self.heads = heads if plain else nn.ModuleList(heads)
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], -1))


class RefersToOthers(HeadsInAList):
    """Modules in plain lists that are registered elsewhere, or that belong to another module."""

    def __init__(self, n_embd, num_heads):
        super().__init__(n_embd, num_heads)
        self.both, self.owner = [self.heads, self.proj], [nn.Linear(3, 5)]


class HeadOfPadding(nn.Module):
    """One head, whose mask (B, S) hides padding."""

    def __init__(self, width, size, wrong=""):
        super().__init__()
        self.query_embedding, self.key_embedding, self.value_embedding = (nn.Linear(width, size) for _ in range(3))
        self.wrong = wrong

    def forward(self, x, mask=None):
        bias = 0.0 if mask is None else hiding(mask.unsqueeze(1))[:, None]
        q, k, v = self.query_embedding(x), self.key_embedding(x), self.value_embedding(x)
        return attend(q, k, v, 1, bias, self.wrong)


class HeadsOfPadding(nn.Module):
    """A list of heads. Nothing states their number."""

    def __init__(self, width, count, wrong=""):
        super().__init__()
        self.attention_heads = nn.ModuleList(HeadOfPadding(width, width // count, wrong) for _ in range(count))
        self.output_projection = nn.Linear(width, width)

    def forward(self, x, mask=None):
        return self.output_projection(torch.cat([head(x, mask) for head in self.attention_heads], -1))


class BlockOfPadding(nn.Module):
    """A post-norm block of heads in a list, whose mask is for padding alone."""

    def __init__(self, width, heads, wrong=""):
        super().__init__()
        self.attention, self.norm1, self.norm2 = (
            HeadsOfPadding(width, heads, wrong),
            nn.LayerNorm(width),
            nn.LayerNorm(width),
        )
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


def block_of_padding(wrong=""):
    return BlockOfPadding(12, 3, wrong)


class SourceAndTarget(nn.Module):
    """The target attends to the source, which comes first."""

    def __init__(self, hidden_size, num_heads, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_heads, wrong
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def forward(self, src, tgt, mask=None):
        q, k, v = self.q_proj(tgt), self.k_proj(src), self.v_proj(src)
        return self.out_proj(attend(q, k, v, self.heads, hiding(mask), self.wrong))


class ActivatedBlock(nn.Module):
    """A pre-norm block with an activation that is no design choice."""

    def __init__(self, width, heads, activation=None):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), activation or nn.Tanh(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def activated(activation=None):
    return ActivatedBlock(12, 3, activation)


class ListOfAttentions(nn.Module):
    """A decoder layer with its two attentions in a list. Nothing states that they have one head."""

    def __init__(self, width):
        super().__init__()
        self.attentions = nn.ModuleList(Head(width, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x, memory):
        x = self.norms[0](x + self.attentions[0](x))
        x = self.norms[1](x + self.attentions[1](x, memory))
        return self.norms[2](x + self.mlp(x))


def list_of_attentions():
    return ListOfAttentions(12)


class QueryLast(nn.Module):
    """Attention whose second input gives the queries."""

    def __init__(self, hidden_size, num_heads, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_heads, wrong
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def forward(self, x, y):
        return self.out_proj(attend(self.q_proj(y), self.k_proj(x), self.v_proj(x), self.heads, wrong=self.wrong))


class ContextFirst(QueryLast):
    """The names of its inputs tell that they are exchanged."""

    def forward(self, x, context):
        return super().forward(x, context)


class OfItself(QueryLast):
    """Attends to the queries alone, if a flag says so."""

    def __init__(self, hidden_size, num_heads, self_attention=True, wrong=""):
        super().__init__(hidden_size, num_heads, wrong)
        self.self_attention = self_attention

    def forward(self, query, key=None, value=None):
        key, value = (query, query) if self.self_attention else (key, value)
        return self.out_proj(
            attend(self.q_proj(query), self.k_proj(key), self.v_proj(value), self.heads, wrong=self.wrong)
        )


class PositionalEncodingOfSteps(nn.Module):
    """Looks positions up, such as the steps of a diffusion."""

    def __init__(self, d_model, length=64):
        super().__init__()
        angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, x):
        return self.pe[x]


class SplitsInAHelper(nn.Module):
    """Scaled dot-product attention of several heads, without weights."""

    def __init__(self, d_k, n_heads):
        super().__init__()
        self.d_k, self.count = d_k, n_heads

    def split(self, x):
        return x.unflatten(-1, (self.count, -1)).transpose(1, 2)

    def forward(self, query, key, value):
        query, key, value = map(self.split, (query, key, value))
        return ((query @ key.mT / math.sqrt(self.d_k)).softmax(-1) @ value).transpose(1, 2).flatten(2)


class NeverReadsItsHeads(nn.Module):
    def __init__(self, d_model, d_k, n_heads, wrong=""):
        super().__init__()
        self.d_model, self.d_k, self.n_heads, self.wrong = d_model, d_k, n_heads, wrong

    def forward(self, query, key, value):
        size = self.d_model if self.wrong else self.d_k
        return (query @ key.transpose(-1, -2) / math.sqrt(size)).softmax(-1) @ value


class LengthsForAKernel(nn.Module):
    """`lengths` serve a kernel that takes no mask. Without this kernel, they have no effect."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(hidden_size, hidden_size) for _ in range(4))

    def forward(self, hidden_states, attention_mask=None, lengths=None):
        x, bias = hidden_states, 0.0 if attention_mask is None else attention_mask
        return self.out_proj(attend(self.q_proj(x), self.k_proj(x), self.v_proj(x), self.heads, bias))
