"""torch modules in the styles of packages whose masks, scores, positions or networks differ from the usual ones."""

import torch
from torch import nn


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def mixed(logits, value):
    return (torch.softmax(logits, -1) @ value).transpose(1, 2).flatten(2)


class Projected(nn.Module):
    """Attention with four layers. `hidden` is True where a query must not see a key, in any shape that broadcasts."""

    def __init__(self, dim, heads, scale=True):
        super().__init__()
        self.heads, self.factor = heads, (dim // heads) ** -0.5 if scale else 1.0
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, query, memory, hidden=None):
        query, key, value = (
            split(layer(x), self.heads)
            for layer, x in ((self.q_proj, query), (self.k_proj, memory), (self.v_proj, memory))
        )
        logits = query @ key.transpose(2, 3) * self.factor
        return self.out_proj(mixed(logits if hidden is None else logits.masked_fill(hidden, -torch.inf), value))


class HeadsLast(Projected):
    """It returns the scores as (B, T, S, H)."""

    def forward(self, query, key, value):
        layers = (self.q_proj, self.k_proj, self.v_proj)
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)) for layer, x in zip(layers, (query, key, value), strict=True)
        )
        scores = torch.softmax(torch.einsum("bqnh,bknh->bqkn", query, key) * self.factor, 2)
        return self.out_proj(torch.einsum("bqkn,bknh->bqnh", scores, value).flatten(2)), scores


class MaskOfItemsAndHeads(nn.Module):
    """Its mask is (B·H, T, S), positions come first, and the packed kernel has all queries and then pairs."""

    def __init__(self, dim, heads, scale=True):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.factor = self.size**-0.5 if scale else 1.0
        self.ff_in, self.ff_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, inputs, mask=None):
        length, items, width = inputs.shape
        query, pairs = self.ff_in(inputs).split((width, 2 * width), 2)
        key, value = pairs.reshape(length, items * self.heads, 2, self.size).unbind(2)
        query = query.reshape(length, items * self.heads, self.size).transpose(0, 1)
        logits = query @ key.permute(1, 2, 0) * self.factor
        if mask is not None:
            logits = logits.masked_fill(mask, -1e9)
        found = (torch.softmax(logits, -1) @ value.transpose(0, 1)).transpose(0, 1)
        return self.ff_out(found.reshape(length, items, width))


class Layer(nn.Module):
    """An encoder layer, or a decoder layer (`crosses`), with the names of masks that some packages share for both."""

    def __init__(self, dim, heads, ffn_dim, crosses=False, scale=True):
        super().__init__()
        self.self_attn = Projected(dim, heads, scale)
        self.cross_attn = Projected(dim, heads, scale) if crosses else None
        self.ffn = nn.Sequential(nn.Linear(dim, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, dim))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3 if crosses else 2))

    def forward(
        self,
        query,
        key=None,
        value=None,
        query_pos=None,
        key_pos=None,
        attn_masks=None,
        query_key_padding_mask=None,
        key_padding_mask=None,
    ):
        masks = [*attn_masks] if isinstance(attn_masks, list) else [attn_masks] * (1 + (self.cross_attn is not None))
        paddings = [query_key_padding_mask, key_padding_mask]
        attentions = [self.self_attn, *([self.cross_attn] if self.cross_attn else [])]
        x = query
        for number, attention in enumerate(attentions):
            hidden, padding = masks[number], paddings[number]
            if padding is not None:
                padding = padding[:, None, None]
                hidden = padding if hidden is None else padding | hidden
            x = self.norms[number](x + attention(x, key if number else x, hidden))
        return self.norms[-1](x + self.ffn(x))


class Zeroed(nn.Module):
    """An encoder layer whose output is zero at padding."""

    def __init__(self, dim, heads, ffn_dim, scale=True):
        super().__init__()
        self.attention = Projected(dim, heads, scale)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, tensor, mask):
        x = self.norm1(tensor + self.attention(tensor, tensor, mask[:, None, None] == 0))
        return self.norm2(x + self.ffn(x)) * mask[..., None]


class OnlySquareMasks(nn.Module):
    """A layer with cross-attention alone. torch refuses masks that are not (T, S)."""

    def __init__(self, d_model, nhead, dim_feedforward):
        super().__init__()
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, q, k, mask=None):
        x = self.norm1(q + self.cross_attn(q, k, k, attn_mask=mask)[0])
        return self.norm2(x + self.linear2(self.linear1(x).relu()))


class SingleLayerNetwork(nn.Module):
    """The block of the Set Transformer: its network has one layer."""

    def __init__(self, channels, heads, scale=True):
        super().__init__()
        self.attn, self.lin = Projected(channels, heads, scale), nn.Linear(channels, channels)
        self.layer_norm1, self.layer_norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)

    def forward(self, x, y, y_mask=None):
        hidden = None if y_mask is None else ~y_mask[:, None, None]
        x = self.layer_norm1(x + self.attn(x, y, hidden))
        return self.layer_norm2(x + self.lin(x).relu())


class Guided(nn.Module):
    """A block of an image model: it attends to itself and to a text, and is not causal."""

    def __init__(self, dim, heads, scale=True):
        super().__init__()
        self.attn1, self.attn2 = Projected(dim, heads, scale), Projected(dim, heads, scale)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, hidden_states, context=None):
        x = self.norm1(hidden_states)
        hidden_states = hidden_states + self.attn1(x, x)
        x = self.norm2(hidden_states)
        hidden_states = hidden_states + self.attn2(x, x if context is None else context)
        return hidden_states + self.ff(self.norm3(hidden_states))


class Pairs(nn.Module):
    """Attention of x to y without weights, with settings that the class does not have by default."""

    def __init__(self, kind="cosine", scale=True):
        super().__init__()
        self.kind, self.scale = kind, scale

    def forward(self, xs, ys, mask_ys=None):
        if self.kind == "cosine":
            xs, ys = nn.functional.normalize(xs, dim=-1), nn.functional.normalize(ys, dim=-1)
        logits = xs @ ys.transpose(1, 2) / (xs.shape[-1] ** 0.5 if self.scale else 1)
        if mask_ys is not None:
            logits = logits.masked_fill(mask_ys[:, None] == 0, -1e9)
        return torch.softmax(logits, -1) @ ys


class CountedPositions(nn.Module):
    """Trained positions from row 1 on. Padding is not counted, and gets row 0."""

    def __init__(self, vocab_size, dim, max_len=64, pad_token_id=3, divide=False):
        super().__init__()
        self.pad_token_id, self.divide = pad_token_id, divide
        self.tokens = nn.Embedding(vocab_size, dim, padding_idx=pad_token_id)
        self.positions = nn.Embedding(max_len, dim, padding_idx=0)

    def forward(self, ids):
        real = (ids != self.pad_token_id).int()
        positions = self.positions((torch.cumsum(real, 1) * real).long())
        return (self.tokens(ids) + positions) / (self.tokens.embedding_dim**0.5 if self.divide else 1)


class WithFunction(nn.Module):
    """As in minGPT, a function of the constructor keeps the network, which no copy of the layer may use."""

    def __init__(self, dim, heads, scale=True):
        super().__init__()
        self.attn = Projected(dim, heads, scale)
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(dim, 2 * dim), "c_proj": nn.Linear(2 * dim, dim)})
        network = self.mlp
        self.mlpf = lambda x: network.c_proj(network.c_fc(x).relu())

    def forward(self, x):
        normal = self.ln_1(x)
        x = x + self.attn(normal, normal)
        return x + self.mlpf(self.ln_2(x))


class NormAndPart(nn.Module):
    """Its sublayers are called after their normalizations."""

    def __init__(self, embed_dim, heads, scale=True):
        super().__init__()
        self.pre_norm_mha = nn.Sequential(nn.LayerNorm(embed_dim), Packed(embed_dim, heads, scale))
        forward = nn.Linear(embed_dim, 2 * embed_dim), nn.ReLU(), nn.Linear(2 * embed_dim, embed_dim)
        self.pre_norm_ffn = nn.Sequential(nn.LayerNorm(embed_dim), *forward)

    def forward(self, x):
        x = x + self.pre_norm_mha(x)
        return x + self.pre_norm_ffn(x)


class Packed(nn.Module):
    """Self-attention alone: keys and values may not be given, although there are arguments for them."""

    def __init__(self, dim, heads, scale=True):
        super().__init__()
        self.heads, self.factor = heads, (dim // heads) ** -0.5 if scale else 1.0
        self.qkv_proj, self.out_proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, query, key=None, value=None):
        if key is not None or value is not None:
            raise ValueError("key and value must be None")
        query, key, value = (split(x, self.heads) for x in self.qkv_proj(query).chunk(3, -1))
        return self.out_proj(mixed(query @ key.transpose(2, 3) * self.factor, value))


class StatedSize(nn.Module):
    """Its attributes state the size of a head, but no number of heads."""

    def __init__(self, heads, dim, key_size, scale=True):
        super().__init__()
        self.key_size, self.factor = key_size, key_size**-0.5 if scale else 1.0
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(dim, heads * key_size)) for _ in range(3))
        self.W_O = nn.Parameter(torch.randn(heads * key_size, dim))

    def forward(self, query, memory):
        query, key, value = (
            (x @ kernel).unflatten(-1, (-1, self.key_size)).transpose(1, 2)
            for x, kernel in ((query, self.W_Q), (memory, self.W_K), (memory, self.W_V))
        )
        return mixed(query @ key.transpose(2, 3) * self.factor, value) @ self.W_O


def core(q, k, v, *, attn_mask, scale):
    logits = torch.matmul(q, k.transpose(-2, -1)) * scale
    return torch.softmax(logits if attn_mask is None else logits.masked_fill(attn_mask == 0, -torch.inf), -1) @ v


class HeadsBeforeItems(Projected):
    """Its mask is (H·B, T, S)."""

    def forward(self, query, memory, attn_mask=None):
        query, key, value = (
            torch.cat(layer(x).chunk(self.heads, -1))
            for layer, x in ((self.q_proj, query), (self.k_proj, memory), (self.v_proj, memory))
        )
        logits = query @ key.mT * self.factor
        if attn_mask is not None:
            logits = logits.masked_fill(attn_mask.expand(len(logits), -1, -1), -torch.inf)
        return self.out_proj(torch.cat((torch.softmax(logits, -1) @ value).chunk(self.heads), -1))


class TwoAttentions(nn.Module):
    def __init__(self, dim, heads, ffn_dim, scale=True):
        super().__init__()
        self.self_attn, self.cross_attn = Projected(dim, heads, scale), Projected(dim, heads, scale)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, dim))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))

    def decode(self, x, memory, hidden):
        x = self.norm1(x + self.self_attn(x, x, hidden))
        x = self.norm2(x + self.cross_attn(x, memory))
        return self.norm3(x + self.ffn(x))


class OneMask(TwoAttentions):
    """A decoder layer whose only mask is self-attention's, although its name has a plural."""

    def forward(self, tgt, memory, attn_masks=None):
        return self.decode(tgt, memory, attn_masks)


class OwnPadding(TwoAttentions):
    """A decoder layer that is causal by itself, and whose only mask is the padding of its own input."""

    def forward(self, x, encoder_hidden_states, key_padding_mask=None):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        if key_padding_mask is not None:
            hidden = hidden | key_padding_mask[:, None, None]
        return self.decode(x, encoder_hidden_states, hidden)


class BothPaddings(Layer):
    """An encoder layer that hides the keys of its self-attention by one of two masks."""

    def forward(self, query, query_key_padding_mask=None, key_padding_mask=None):
        return super().forward(query, query_key_padding_mask=key_padding_mask)


class SelfAlone(nn.Module):
    def __init__(self, dim, heads, causal=False):
        super().__init__()
        self.attention, self.is_causal = Projected(dim, heads), causal

    def forward(self, x):
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.attention(x, x, future if self.is_causal else None)


class CausalAlone(SelfAlone):
    def __init__(self, dim, heads):
        super().__init__(dim, heads, causal=True)


class LayerBefore(nn.Module):
    """A layer before the attention, which is no feed-forward network."""

    def __init__(self, dim, heads):
        super().__init__()
        self.attn, self.proj_in = Projected(dim, heads), nn.Linear(dim, dim)
        self.norm_in, self.norm_out = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        inner = self.proj_in(self.norm_in(x))
        return x + self.norm_out(self.attn(inner, inner))


class PositionalLookup(nn.Module):
    """Tokens with positions: its only trained table has the tokens, although its name is about positions."""

    def __init__(self, vocab_size, dim, divide=False):
        super().__init__()
        self.embeddings, self.divide = nn.Embedding(vocab_size, dim), divide
        angles = torch.arange(64.0)[:, None] / 10000.0 ** (torch.arange(0, dim, 2) / dim)
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, x):
        found = self.embeddings(x) * self.embeddings.embedding_dim**0.5 + self.pe[: x.shape[1]]
        return found / self.embeddings.embedding_dim**0.5 if self.divide else found


class NormsExchanged(Zeroed):
    """Its second normalization by name comes first."""

    def forward(self, tensor, mask):
        x = self.norm2(tensor + self.attention(tensor, tensor, mask[:, None, None] == 0))
        return self.norm1(x + self.ffn(x))
