"""torch modules with a key/value cache, as people write them."""

import math

import torch
from torch import nn


class Returned(nn.Module):
    """The keys and values are returned, and passed to the next call."""

    new_alone = False

    def __init__(self, d_model=12, num_heads=3, wrong=""):
        super().__init__()
        self.heads, self.size, self.wrong = num_heads, d_model // num_heads, wrong
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, past_kv=None, use_cache=False):
        batch, length, _ = x.shape
        q, k, v = (
            linear(x).view(batch, length, self.heads, self.size).transpose(1, 2)
            for linear in (self.q_proj, self.k_proj, self.v_proj)
        )
        new = k, v
        if past_kv is not None:
            past = tuple(self._spoilt(each) for each in past_kv)
            past = (past[0], past[0]) if self.wrong == "keys as values" else past
            if self.wrong != "withheld":
                k, v = (torch.cat([old, new], dim=2) for old, new in zip(past, (k, v), strict=True))
        total = k.shape[2]
        mask = torch.ones(length, total, dtype=torch.bool).tril(0 if self.wrong == "corner" else total - length)
        logits = (q @ k.transpose(-1, -2) / math.sqrt(self.size)).masked_fill(~mask, -torch.inf)
        y = self.o_proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1))
        if not use_cache:
            return y
        if self.new_alone:
            return y, new
        return y, past_kv if self.wrong == "stale" and past_kv is not None else (k, v)

    def _spoilt(self, past):
        return {
            "first lost": past[:, :, 1:],
            "last lost": past[:, :, :-1],
            "truncated": past[:, :, -4:],
            "half": past.half().to(past.dtype),
            "not reordered": past.roll(1, 0),
        }.get(self.wrong, past)


class ReturnsNew(Returned):
    """The caller appends the keys and values of each call to those of the calls before."""

    new_alone = True


class OfThree(nn.Module):
    """Takes query, key and value. Decoding with the cache, they are one array."""

    def __init__(self, d_model=12, num_heads=3, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_heads, wrong
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None, past_kv=None):
        value = key if self.wrong == "value is key" else value
        q, k, v = (
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        if past_kv is not None:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(past_kv, (k, v), strict=True))
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        logits = logits if mask is None else logits.masked_fill(~mask.bool(), -torch.inf)
        return self.o_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2)), (k, v)


class OfUnknownWeights(Returned):
    """Its weights are none of multi-head attention's."""

    def __init__(self):
        super().__init__()
        self.q_proj = nn.Sequential(nn.Linear(12, 5), nn.Linear(5, 12))


class OfConfig(Returned):
    """A layer of a configuration object."""

    def __init__(self, config):
        super().__init__(config.n_embd, config.n_head, "corner")


class Remembers(nn.Module):
    """Keeps all keys and values until it is told to forget them."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads, self.past = num_heads, []
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def reset(self):
        self.past = []

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.past.append((k, v))
        k, v = (torch.cat(each, dim=2) for each in zip(*self.past, strict=True))
        mask = torch.ones(length, k.shape[2], dtype=torch.bool).tril(k.shape[2] - length)
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Prepared(nn.Module):
    """The caller's dict of keys and values, in which the caller counts the positions too."""

    def __init__(self, d_model=12, num_heads=3):
        super().__init__()
        self.heads, self.size = num_heads, d_model // num_heads
        self.to_qkv, self.to_out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, cache=None, cache_name="own"):
        batch, length, _ = x.shape
        packed = self.to_qkv(x).view(batch, length, 3, self.heads, self.size)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        offset = 0 if cache is None else cache.get("offset", 0)
        if offset:
            k, v = (torch.cat([old, new], dim=2) for old, new in zip(cache[cache_name], (k, v), strict=True))
        if cache is not None:
            cache[cache_name] = k, v
        mask = torch.ones(length, length + offset, dtype=torch.bool).tril(offset)
        logits = (q @ k.transpose(-1, -2) / math.sqrt(self.size)).masked_fill(~mask, -torch.inf)
        return self.to_out((logits.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1))


class Kept(nn.Module):
    """The module keeps keys and values in buffers until `reset_cache`."""

    def __init__(self, d_in, d_out, context_length, num_heads, wrong=""):
        super().__init__()
        self.heads, self.wrong = num_heads, wrong
        self.W_query, self.W_key, self.W_value, self.out_proj = (
            nn.Linear(d_in, d_out),
            nn.Linear(d_in, d_out),
            nn.Linear(d_in, d_out),
            nn.Linear(d_out, d_out),
        )
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), 1).bool(), persistent=False)
        self.reset_cache()

    def reset_cache(self):
        if self.wrong != "not reset" or not hasattr(self, "pointer"):
            self.cache_k, self.cache_v = None, None
        self.pointer = 0

    def forward(self, x, use_cache=False):
        batch, length, _ = x.shape
        q, k, v = (linear(x).view(batch, length, self.heads, -1) for linear in (self.W_query, self.W_key, self.W_value))
        start = 0
        if use_cache:
            if self.cache_k is not None:
                k, v = torch.cat([self.cache_k, k], 1), torch.cat([self.cache_v, v], 1)
            self.cache_k, self.cache_v = k, v
            start, self.pointer = self.pointer, self.pointer + length
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        logits = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        logits = logits.masked_fill(self.mask[start : start + length, : k.shape[2]], -torch.inf)
        return self.out_proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1))


class Preallocated(nn.Module):
    """The cache has room for all positions, and the caller says where a call starts and what it may see."""

    def __init__(self, dim=12, n_heads=3, wrong=""):
        super().__init__()
        self.heads, self.size, self.wrong = n_heads, dim // n_heads, wrong
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.register_buffer("cache_k", torch.zeros(8, 64, n_heads, self.size), persistent=False)
        self.register_buffer("cache_v", torch.zeros(8, 64, n_heads, self.size), persistent=False)

    def forward(self, x, start_pos, mask=None):
        batch, length, dim = x.shape
        q, k, v = (w(x).view(batch, length, self.heads, self.size) for w in (self.wq, self.wk, self.wv))
        first = start_pos - 1 if self.wrong == "early" and start_pos else start_pos
        self.cache_k[:batch, first : first + length] = k
        self.cache_v[:batch, first : first + length] = v
        k, v = self.cache_k[:batch, : start_pos + length], self.cache_v[:batch, : start_pos + length]
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        logits = q @ k.transpose(2, 3) / math.sqrt(self.size)
        logits = logits if mask is None else logits + mask
        return self.wo((logits.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, dim))


class Store:
    """A cache object of several layers, with the interface that models share."""

    def __init__(self):
        self.layers = {}

    def update(self, key, value, layer):
        if layer in self.layers:
            key, value = (torch.cat(pair, dim=1) for pair in zip(self.layers[layer], (key, value), strict=True))
        self.layers[layer] = key, value
        return key, value


class Model(nn.Module):
    """A language model of two layers, with learned positions and a cache object that `init_cache` makes."""

    def __init__(self, vocab_size=11, d_model=6, wrong=""):
        super().__init__()
        self.wrong, self.tokens, self.places = wrong, nn.Embedding(vocab_size, d_model), nn.Embedding(32, d_model)
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(3)) for _ in range(2))
        self.head = nn.Linear(d_model, vocab_size)

    def init_cache(self):
        return Store()

    def forward(self, input_ids, cache=None, start_pos=0):
        total = start_pos + input_ids.shape[1]
        first = 0 if self.wrong == "positions restart" else start_pos
        x = self.tokens(input_ids) + self.places(torch.arange(first, first + input_ids.shape[1]))
        for number, (query, key, value) in enumerate(self.layers):
            q, k, v = query(x), key(x), value(x)
            if cache is not None:
                layer = 0 if self.wrong == "one cache for all layers" else number
                k, v = cache.update(k, v, layer)
                if self.wrong == "withheld":
                    k, v = k[:, -x.shape[1] :], v[:, -x.shape[1] :]
            mask = torch.ones(x.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - x.shape[1])
            x = x + (q @ k.transpose(1, 2)).masked_fill(~mask, -torch.inf).softmax(-1) @ v
        assert total
        return self.head(x)
