"""torch modules in the styles of code in public repositories, with masks and sizes that are called differently."""

import torch
from torch import nn


class Attention(nn.Module):
    """`slip` misspells a method in every call, or "mask" only in calls with a mask."""

    def __init__(self, vec_breadth, num_heads, slip="", scale=True):
        super().__init__()
        self.num_heads, self.slip, self.scale = num_heads, slip, scale
        self.queries, self.keys, self.values, self.out = (nn.Linear(vec_breadth, vec_breadth) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        split = (*query.shape[:1], -1, self.num_heads, query.shape[-1] // self.num_heads)
        query, key, value = (
            layer(x).view(split).transpose(1, 2)
            for layer, x in ((self.queries, query), (self.keys, key), (self.values, value))
        )
        logits = query @ (key.tanspose(2, 3) if self.slip == "always" else key.transpose(2, 3))
        if mask is not None:
            hide = logits.mask_fill if self.slip == "mask" else logits.masked_fill
            logits = hide(mask == 0, -1e9)
        if self.slip == "attribute":
            logits = logits / self.d_head**0.5
        scores = torch.softmax(logits / split[-1] ** 0.5 if self.scale else logits, -1)
        mixed = (scores @ value).transpose(1, 2)
        return self.out(mixed.reshape(len(mixed), mixed.shape[1], -1))


class Placed(nn.Module):
    """Its inputs have no usual names, and keys and values share a projection if `shared`."""

    def __init__(self, d_model, num_heads, shared=True):
        super().__init__()
        self.num_heads, self.size = num_heads, d_model // num_heads
        self.W_Q, self.W_K = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.W_V = self.W_K if shared else nn.Linear(d_model, d_model, bias=False)
        self.W_O = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x_query, x_key, x_value, attention_mask=None):
        query, key, value = (
            layer(x).unflatten(-1, (self.num_heads, self.size)).transpose(1, 2)
            for layer, x in ((self.W_Q, x_query), (self.W_K, x_key), (self.W_V, x_value))
        )
        logits = query @ key.transpose(2, 3) / self.size**0.5
        if attention_mask is not None:
            logits = logits.masked_fill(attention_mask == 0, -torch.inf)
        return self.W_O((torch.softmax(logits, -1) @ value).transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    """Its memory has no usual name, its masks are required, and the first is called `mask`."""

    def __init__(self, d_model, heads, ff, dp=0.1):
        super().__init__()
        self.first, self.second = Attention(d_model, heads), Attention(d_model, heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, ff), nn.ReLU(), nn.Linear(ff, d_model))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, mask, gedaechtnis, src_mask):
        x = self.norms[0](x + self.first(x, x, x, mask))
        x = self.norms[1](x + self.second(x, gedaechtnis, gedaechtnis, src_mask))
        return self.norms[2](x + self.ffn(x))


class HeadsOfItems(nn.Module):
    """An encoder layer whose mask (B, T, S) gets its new axis at the front, so that each head has an item's mask."""

    def __init__(self, d_model, num_heads, ff):
        super().__init__()
        self.attention = Attention(d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, ff), nn.ReLU(), nn.Linear(ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, x, mask if mask is None else mask.unsqueeze(0)))
        return self.norm2(x + self.ffn(x))


class SelfMaskedDecoder(DecoderLayer):
    """Its only mask is the one of its self-attention."""

    def __init__(self, d_model, heads, neurons, scale=True):
        super().__init__(d_model, heads, neurons)
        self.first.scale = self.second.scale = scale

    def forward(self, x, memory, mask=None):
        return super().forward(x, None if mask is None else mask.unsqueeze(1), memory, None)


class Interleaved(nn.Module):
    """Take the features of query, key and value in turn, scale by the width, and ignore the mask."""

    def __init__(self, emb_size, num_heads):
        super().__init__()
        self.num_heads, self.emb_size = num_heads, emb_size
        self.qkv, self.projection = nn.Linear(emb_size, 3 * emb_size), nn.Linear(emb_size, emb_size)

    def forward(self, x, mask=None):
        items, length, width = x.shape
        into = self.qkv(x).view(items, length, self.num_heads, width // self.num_heads, 3)
        query, key, value = into.permute(4, 0, 2, 1, 3)
        scores = (query @ key.transpose(-2, -1) / self.emb_size**0.5).softmax(-1)
        return self.projection((scores @ value).transpose(1, 2).reshape(x.shape))
