"""Functions and methods around layers of torch, as people hand them over who want another call or another result."""

import functools

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, scaled=True):
        super().__init__()
        self.heads, self.scaled = heads, scaled
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def attend(self, x, context_bsd):
        q, k, v = (layer(each) for layer, each in ((self.q, x), (self.k, context_bsd), (self.v, context_bsd)))
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
        weights = (q @ k.mT / (q.shape[-1] ** 0.5 if self.scaled else 1.0)).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2)), weights

    def forward(self, x, context_bsd):
        return self.attend(x, context_bsd)[0]


def around(layer):
    return lambda x, memory: layer(x, memory)


def method(layer):
    return layer.attend


def forward(layer):
    return layer.forward


right, wrong = Attention(12, 3), Attention(12, 3, scaled=False)
softmax = nn.Softmax(-1)


def of_module(x, memory):
    return right(x, memory)


def through_another(x, memory):
    return wrong_inside(x, memory)


def wrong_inside(x, memory):
    return wrong(x, memory)


def weightless(query, key, value):
    return softmax(query @ key.mT / query.shape[-1] ** 0.5) @ value


def builtin(layer=None):
    layer = nn.MultiheadAttention(12, 3, batch_first=True) if layer is None else layer
    return lambda q, k, v, key_padding_mask=None: layer(q, k, v, key_padding_mask)[0]


def counting(x, memory):
    return right(x, memory) if memory is not None else torch.zeros_like(x) + counting(x, x)


def doubled(function):
    @functools.wraps(function)
    def changed(x, memory):
        return function(x, memory) * 2

    return changed


@doubled
def doubled_by_a_decorator(x, memory):
    return right(x, memory)


@doubled
def halved_before(x, memory):
    return right(x, memory) / 2


linear, norm = nn.Linear(12, 12), nn.LayerNorm(7)  # of other code: below, these are names of attributes


def attributes_of_these_names(query, key, value):
    assert query.norm() >= 0
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
    return F.linear(weights @ value, torch.eye(value.shape[-1], dtype=value.dtype))


def by_position(x, memory, /):
    return right(x, memory)


def names_of_modules(layer=None):
    training = half = Attention(12, 3)
    return lambda x, memory: (training(x, memory) + half(x, memory)) / 2


class Counted(Attention):
    """Its number of heads is a number in its code."""

    def attend(self, x, context_bsd):
        q, k, v = self.q(x), self.k(context_bsd), self.v(context_bsd)
        q, k, v = (each.unflatten(-1, (3, -1)).transpose(1, 2) for each in (q, k, v))
        return self.o(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)), None


def counted():
    layer = Counted(12, None)
    return lambda x, memory: layer.attend(x, memory)[0]


def through(layer, x, memory):
    return layer(x, memory)


def by_name(x, memory, layer):
    return layer(x, memory)


def by_default(x, memory, layer=right):
    return layer(x, memory)


in_dict, in_lists = {"own": right, "else": None}, [[wrong]]
first_bound, named_bound = functools.partial(through, right), functools.partial(by_name, layer=wrong)
layer_bound = functools.partial(nn.MultiheadAttention(12, 3, batch_first=True), need_weights=False)


def of_dict(x, memory):
    return in_dict["own"](x, memory)


def of_lists(x, memory):
    return in_lists[0][0](x, memory)


def passing_on(function):
    return lambda *args, **options: function(*args, **options)


passed_on = passing_on(nn.MultiheadAttention(12, 3, batch_first=True))

matrices = [torch.randn(12, 12, generator=torch.Generator().manual_seed(number)) for number in range(4)]
W_q, W_k, W_v, W_o = matrices


def of_tensors(x):
    q, k, v = ((x @ each).unflatten(-1, (3, 4)).transpose(1, 2) for each in (W_q, W_k, W_v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) @ W_o


def of_parameters():
    own = nn.ParameterDict({f"W_{name}": nn.Parameter(each) for name, each in zip("qkvo", matrices, strict=True)})

    def attend(x, num_heads=3):
        q, k, v = ((x @ own[f"W_{name}"]).unflatten(-1, (num_heads, -1)).transpose(1, 2) for name in "qkv")
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) @ own["W_o"]

    return attend


projections = {name: nn.Linear(12, 12) for name in "qkvo"}
dropout, lower = nn.Dropout(0.5), torch.ones(64, 64).tril().bool()


def of_letters(x, num_heads=3, swapped=False, causal=False):
    q, k, v = (projections[name](x) for name in ("qvk" if swapped else "qkv"))
    q, k, v = (each.unflatten(-1, (num_heads, -1)).transpose(1, 2) for each in (q, k, v))
    logits = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        logits = logits.masked_fill(~lower[: x.shape[1], : x.shape[1]], -torch.inf)
    return projections["o"]((dropout(logits.softmax(-1)) @ v).transpose(1, 2).flatten(2))


def of_letters_swapped(x):
    return of_letters(x, 3, swapped=True)


def of_letters_causal(x, num_heads=3):
    return of_letters(x, num_heads, causal=True)
