"""Each operator makes its edit in a small source, in exactly one place."""

import ast

import pytest

from kmha.verify.bank.zoo.operators import OPERATORS, Source
from kmha.verify.mistakes import BANK

TORCH = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.heads, self.d_k = heads, dim // heads
        self.scale = self.d_k ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, context, mask=None):
        b, t, s = x.shape[0], x.shape[1], context.shape[1]
        q = self.to_q(x)
        k = self.to_k(context)
        v = self.to_v(context)
        q = q.view(b, t, self.heads, self.d_k).transpose(1, 2)
        k = k.view(b, s, self.heads, self.d_k).transpose(1, 2)
        v = v.view(b, s, self.heads, self.d_k).transpose(1, 2)
        sim = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        if mask is not None:
            sim = sim.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        attn = F.softmax(sim, dim=-1)
        attn = self.dropout(attn)
        out = torch.matmul(attn, v)
        out = out.transpose(1, 2).reshape(b, t, -1)
        return self.to_out(out), attn
"""

EINOPS = """
import torch
from einops import rearrange, repeat


class Attention(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = torch.nn.Linear(dim, 3 * dim)
        self.to_kv = torch.nn.Linear(dim, 2 * dim)
        self.to_q = torch.nn.Linear(dim, dim)
        self.proj = torch.nn.Linear(dim, dim)

    def forward(self, x, context, mask, causal_mask):
        h = self.heads
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (rearrange(t, "b n (h d) -> (b h) n d", h=h) for t in (q, k, v))
        mask = repeat(mask, "b j -> (b h) () j", h=h)
        mask = mask & causal_mask
        sim = torch.einsum("b i d, b j d -> b i j", q, k) + mask
        sim = sim.softmax(-1)
        out = torch.einsum("b i j, b j d -> b i d", sim, v)
        return self.proj(rearrange(out, "(b h) n d -> b n (h d)", h=h))


def heads(q, k, v, h):
    q, k, v = map(lambda t: rearrange(t, "b n (h d) -> b h n d", h=h), (q, k, v))
    out = q @ k.mT / (q.shape[-1] ** 0.5) @ v
    return rearrange(out, "b h n d -> b n (h d)")


def masks(mask, size):
    hidden = torch.triu(torch.ones(size, size), diagonal=1)
    rows, columns = torch.arange(size)[:, None], torch.arange(size)[None]
    return (rows >= columns[:, :]), mask[:, None, None, :], (1.0 - mask) * -1e9, hidden


def dense(q, k, self):
    return (q - k) @ self.kernel + self.bias


def fused(q, k, v, attn_mask):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=attn_mask is None)
"""

BLOCK = """
import torch.nn as nn
import torch.nn.functional as F


class DecoderLayer(nn.Module):
    def forward(self, x, memory):
        x = x + self.self_attn(self.norm1(x))
        x = x + self.cross_attn(self.norm2(x), memory)
        return x + self.ff(self.norm3(x))


class FeedForward(nn.Module):
    def __init__(self):
        self.made = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 3))

    def forward(self, x):
        return self.linear2(self.dropout(F.relu(self.linear1(x))))


class LayerNorm(nn.Module):
    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        x = (x - mean) / torch.sqrt(var + self.eps)
        return self.gamma * x + self.beta
"""

EMBEDDING = """
import math
import torch


class Embedding(torch.nn.Module):
    def forward(self, x):
        positions = torch.arange(x.shape[1])
        angles = positions[:, None] * torch.exp(torch.arange(0, 6, 2) * -math.log(10000.0) / 6)
        pe = torch.stack([torch.sin(angles), torch.cos(angles)], -1).flatten(-2)
        return self.table(x) * math.sqrt(6) + pe
"""

SOURCES = {
    "torch": (TORCH, ["Attention"], "attention"),
    "einops": (EINOPS, ["Attention", "heads", "masks", "fused", "dense"], "attention"),
    "block": (BLOCK, ["DecoderLayer", "FeedForward", "LayerNorm"], "decoder"),
    "embedding": (EMBEDDING, ["Embedding"], "embedding"),
}
# For each operator: the source, and the line that the edit gives. Each source has exactly one such edit, unless it says
# how many.
EDITS = {
    "activation-after-second": ("block", "return F.relu(self.linear2(self.dropout(self.linear1(x))))"),
    "activation-dropped": ("block", "return self.linear2(self.dropout((self.linear1(x))))"),
    "activation-sigmoid": ("block", "return self.linear2(self.dropout(F.sigmoid(self.linear1(x))))"),
    "activation-tanh": (
        "block",
        "self.made = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))",
    ),
    "bias-dropped": ("einops", "return ((q - k) @ self.kernel)"),
    "causal-comparison-strict": (
        "einops",
        "return ((rows > columns[:, :])), mask[:, None, None, :], (1.0 - mask) * -1e9, hidden",
    ),
    "causal-flag-dropped": (
        "einops",
        "return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=False)",
    ),
    "causal-flag-set": (
        "einops",
        "return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=True)",
    ),
    "context-ignored": ("einops", "k, v = self.to_kv(x).chunk(2, dim=-1)"),
    "decoder-attention-shared": ("block", "x = x + self.self_attn(self.norm2(x), memory)"),
    "decoder-memory-from-block": ("block", "x = x + self.cross_attn(self.norm2(x), self.norm2(x))"),
    "diagonal-one-less": ("einops", "hidden = torch.triu(torch.ones(size, size), diagonal=(1 -1))"),
    "diagonal-one-more": ("einops", "hidden = torch.triu(torch.ones(size, size), diagonal=(1 +1))"),
    "dropout-at-inference": ("torch", "attn = torch.nn.functional.dropout(attn, self.dropout.p)"),
    "dropout-dropped": ("torch", "attn = (attn)"),
    "dropout-on-logits": ("torch", "attn = F.softmax(self.dropout(sim), dim=-1)"),
    "dropout-twice": ("torch", "attn = self.dropout(self.dropout(attn))"),
    "embedding-divided": ("embedding", "return (self.table(x) / math.sqrt(6)) + pe"),
    "embedding-scale-dropped": ("embedding", "return (self.table(x)) + pe"),
    "embedding-scaled-by-width": ("embedding", "return (self.table(x) * math.sqrt(6) * math.sqrt(6)) + pe"),
    "feed-forward-twice": ("block", "return x + self.ff(self.ff(self.norm3(x)))"),
    "fused-part-twice": ("einops", "k, v = self.to_kv(context).chunk(2, dim=-1); v = k"),
    "heads-averaged": ("torch", "out = out.mean(1, keepdim=True).expand_as(out).transpose(1, 2).reshape(b, t, -1)"),
    "heads-reshaped": ("torch", "q = q.view(b, self.heads, t, self.d_k)"),
    "heads-size-first": (
        "einops",
        "q, k, v = map(lambda t: rearrange(t, 'b n (d h) -> b h n d', h=h), (q, k, v))",
    ),
    "input-of-other-role": ("torch", "k = self.to_k(x)"),
    "kernel-of-other-role": ("torch", "k = self.to_q(context)"),
    "kernels-swapped": ("einops", "v, k = self.to_kv(context).chunk(2, dim=-1)"),
    "logits-key-key": ("torch", "sim = torch.matmul(k, k.transpose(-2, -1)) * self.scale"),
    "logits-query-query": ("torch", "sim = torch.matmul(q, q.transpose(-2, -1)) * self.scale"),
    "logits-query-value": ("torch", "sim = torch.matmul(q, v.transpose(-2, -1)) * self.scale"),
    "logits-transposed": ("einops", "sim = torch.einsum('b i d, b j d -> b j i', q, k) + mask"),
    "mask-adds-other-number": (
        "einops",
        "return (rows >= columns[:, :]), mask[:, None, None, :], (1.0 - mask) * -10.0, hidden",
    ),
    "mask-after-softmax": ("torch", None),  # the softmax is not in the next statement
    "mask-dropped": ("torch", "sim = (sim)"),
    "mask-fills-other-number": ("torch", "sim = sim.masked_fill(mask.unsqueeze(1) == 0, 1e-9)"),
    "mask-inverted": ("torch", "sim = sim.masked_fill((mask.unsqueeze(1) != 0), -1e9)"),
    "mask-not-passed-on": (
        "einops",
        "return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=attn_mask is None)",
    ),
    "mask-tiled": ("einops", "mask = repeat(mask, 'b j -> (h b) () j', h=h)"),
    "mask-without-heads-axis": ("torch", "sim = sim.masked_fill(mask.unsqueeze(0) == 0, -1e9)"),
    "masks-either": ("einops", "mask = (mask | causal_mask)"),
    "merge-batch-exchanged": ("einops", "return self.proj(rearrange(out, '(h b) n d -> b n (h d)', h=h))"),
    "merge-not-transposed": ("torch", "out = (out).reshape(b, t, -1)"),
    "merge-size-first": ("torch", "out = out.permute(0, 2, 3, 1).reshape(b, t, -1)"),
    "mix-key": ("torch", "out = torch.matmul(attn, k)"),
    "norm-bias-dropped": ("block", "return (self.gamma * x)"),
    "norm-dropped": ("block", "x = x + self.self_attn((x))"),
    "norm-epsilon-outside": ("block", "x = (x - mean) / (torch.sqrt(var) + self.eps)"),
    "norm-gain-dropped": ("block", "return (x) + self.beta"),
    "norm-not-centred": ("block", "x = ((x)) / torch.sqrt(var + self.eps)"),
    "norm-of-other-sublayer": ("block", "x = x + self.self_attn(self.norm2(x))"),
    "norm-unbiased": ("block", "mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=True)"),
    "norm-without-root": ("block", "x = (x - mean) / (var + self.eps)"),
    "output-projection-dropped": ("torch", "return (out), attn"),
    "output-rectified": ("torch", "return (lambda output: (output + abs(output)) / 2)(self.to_out(out)), attn"),
    "output-through-query": ("torch", "return self.to_q(out), attn"),
    "padding-on-queries": (
        "einops",
        "return (rows >= columns[:, :]), mask[:, None, :, None], (1.0 - mask) * -1e9, hidden",
    ),
    "positions-alone": ("embedding", "return (pe + 0.0 * (self.table(x) * math.sqrt(6)))"),
    "positions-base-1000": (
        "embedding",
        "angles = positions[:, None] * torch.exp(torch.arange(0, 6, 2) * -math.log(1000.0) / 6)",
    ),
    "positions-base-100000": (
        "embedding",
        "angles = positions[:, None] * torch.exp(torch.arange(0, 6, 2) * -math.log(100000.0) / 6)",
    ),
    "positions-cosines-only": (
        "embedding",
        "pe = torch.stack([torch.cos(angles), torch.cos(angles)], -1).flatten(-2)",
    ),
    "positions-dropped": ("embedding", "return ((self.table(x) * math.sqrt(6)))"),
    "positions-exponent-halved": (
        "embedding",
        "angles = positions[:, None] * torch.exp(torch.arange(0, 6, 2) * -math.log(100.0) / 6)",
    ),
    "positions-exponent-positive": (
        "embedding",
        "angles = positions[:, None] * torch.exp(torch.arange(0, 6, 2) * math.log(10000.0) / 6)",
    ),
    "positions-from-one": ("embedding", "positions = (torch.arange(x.shape[1]) + 1)"),
    "positions-multiplied": ("embedding", "return ((self.table(x) * math.sqrt(6)) * pe)"),
    "positions-sines-only": ("embedding", "pe = torch.stack([torch.sin(angles), torch.sin(angles)], -1).flatten(-2)"),
    "positions-subtracted": ("embedding", "return ((self.table(x) * math.sqrt(6)) - pe)"),
    "positions-twice": ("embedding", "return ((self.table(x) * math.sqrt(6)) + pe + pe)"),
    "projection-dropped": ("torch", "q = x"),
    "projection-shared": ("torch", "self.to_k = self.to_q"),
    "residual-doubled": ("block", "x = (x + x + self.self_attn(self.norm1(x)))"),
    "residual-dropped": ("block", "x = (self.self_attn(self.norm1(x)))"),
    "residual-from-normed": ("block", "x = self.norm1(x) + self.self_attn(self.norm1(x))"),
    "residual-output-doubled": ("block", "x = (2.0 * self.self_attn(self.norm1(x)))"),
    "residual-sublayer-doubled": ("block", "x = (x + 2.0 * self.self_attn(self.norm1(x)))"),
    "residual-unused": ("block", "x = (x)"),
    "returned-logits": ("torch", "return self.to_out(out), sim"),
    "returned-transposed": ("torch", "return self.to_out(out), attn.transpose(-2, -1)"),
    "scale-dropped": ("torch", "sim = (torch.matmul(q, k.transpose(-2, -1)))"),
    "scale-multiplied": ("torch", "self.scale = (self.d_k ** 0.5)"),
    "scale-of-all-heads": ("torch", "self.scale = (self.d_k * heads) ** -0.5"),
    "scale-of-length": ("einops", "out = q @ k.mT / (q.shape[-2] ** 0.5) @ v"),
    "scale-one": ("torch", "self.scale = 1.0"),
    "scale-without-root": ("torch", "self.scale = (float(self.d_k) ** -1.0)"),
    "scores-transposed": ("einops", "out = torch.einsum('b j i, b j d -> b i d', sim, v)"),
    "softmax-dropped": ("torch", "attn = (sim)"),
    "softmax-in-half-precision": ("torch", "attn = F.softmax(sim.half(), dim=-1)"),
    "softmax-logarithm": ("torch", "attn = F.log_softmax(sim, dim=-1)"),
    "softmax-of-opposite": ("torch", "attn = F.softmax((-(sim)), dim=-1)"),
    "softmax-over-axis-0": ("torch", "attn = F.softmax(sim, dim=0)"),
    "softmax-over-axis-1": ("torch", "attn = F.softmax(sim, dim=1)"),
    "softmax-over-flattened": ("torch", "attn = sim.flatten(-2).softmax(-1).reshape(sim.shape)"),
    "softmax-over-queries": ("torch", "attn = F.softmax(sim, dim=-2)"),
    "softmax-sigmoid": ("torch", "attn = (1 / (1 + 2.718281828459045 ** -(sim)))"),
    "softmax-twice": ("torch", "attn = F.softmax((F.softmax(sim, dim=-1)), dim=-1)"),
    "triangle-of-the-other-side": ("einops", "hidden = torch.tril(torch.ones(size, size), diagonal=-(1))"),
}


def changed(operator: str) -> list[tuple[str, str]]:
    """Return the text and the changed line of each edit."""
    where = EDITS[operator][0]
    text, names, kind = SOURCES[where]
    source = Source(text, names, kind)
    found = []
    for edit in OPERATORS[operator].edits(source):
        new = source.replaced(edit)
        lines = [line.strip() for line, old in zip(new.splitlines(), text.splitlines(), strict=False) if line != old]
        found.append((new, lines[0] if lines else ""))
    return found


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_an_operator_makes_its_edit_in_one_place(operator):
    edits, wanted = changed(operator), EDITS[operator][1]
    for new, _ in edits:
        ast.parse(new)
    assert len({new for new, _ in edits}) == len(edits)
    assert wanted is None or wanted in [line for _, line in edits]


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_every_right_answer_is_in_the_bank(operator):
    own = OPERATORS[operator].ids
    source = Source(*SOURCES[EDITS[operator][0]])
    edits = list(OPERATORS[operator].edits(source))
    for edit in edits:
        assert edit.ids or own
        assert set(edit.ids or own) <= set(BANK)


def test_an_edit_keeps_the_numbers_of_later_lines():
    text = "def attend(q, k, v):\n    x = (\n        q @ k.T\n        / 2\n    )\n    return softmax(x) @ v\n"
    source = Source(text, ["attend"])
    first = next(source.walk(ast.Assign))
    from kmha.verify.bank.zoo.operators import Edit

    assert source.replaced(Edit(first, "x = q")).splitlines()[5] == "    return softmax(x) @ v"


def test_code_that_the_entry_does_not_use_is_not_edited():
    text = (
        "def used(q, k, v):\n    return softmax(q @ k) @ v\n\n\ndef unused(q, k, v):\n    return softmax(q @ k) @ v\n"
    )
    edits = list(OPERATORS["softmax-dropped"].edits(Source(text, ["used"])))
    assert [edit.line for edit in edits] == [2]


def ids_of(operator: str, text: str, kind: str = "attention") -> list[tuple[str, ...]]:
    """Return the right answers of each edit of a source, which may be one function."""
    return [edit.ids for edit in OPERATORS[operator].edits(Source(text, ["EncoderLayer", "attend"], kind))]


ENCODER = """
class EncoderLayer:
    def forward(self, x):
        residual = x
        x = self.first_norm(x)
        x = residual + self.attn(x)
        residual = x
        x = self.last_norm(x)
        x = self.mlp(x)
        return residual + x
"""


def test_an_encoder_in_the_name_of_a_class_is_no_sublayer():
    assert ids_of("residual-doubled", ENCODER, "encoder") == [
        ("residual-doubled-attention",),
        ("residual-doubled-feed-forward",),
    ]


def test_a_statement_names_its_sublayer_better_than_its_class():
    text = """
class ResidualAttentionBlock:
    def forward(self, x):
        x = x + self.attn(self.attn_ln(x))
        x = x + self.mlp(self.mlp_ln(x))
        return x
"""
    edits = OPERATORS["residual-doubled"].edits(Source(text, ["ResidualAttentionBlock"], "encoder"))
    assert [edit.ids for edit in edits] == [("residual-doubled-attention",), ("residual-doubled-feed-forward",)]


def test_a_norm_of_keras_that_is_never_called_has_no_weights_to_tell_it_by():
    text = "class EncoderLayer:\n    def call(self, x):\n        x = self.norm1(x + self.attn(x))\n"
    text += "        return self.norm2(x + self.mlp(x))\n"
    both = ("norm-shared-1-last", "norm-shared-last-1")
    assert {ids[:1] for ids in ids_of("norm-of-other-sublayer", text, "encoder")} == {both[:1], both[1:]}
    assert all({*both} == {*ids} for ids in ids_of("norm-of-other-sublayer", f"import keras\n{text}", "encoder"))


def test_a_norm_of_an_input_that_is_kept_belongs_to_the_next_sublayer():
    assert ids_of("norm-dropped", ENCODER, "encoder") == [("norm-missing-attention",), ("norm-missing-feed-forward",)]


def test_a_fill_that_does_not_matter_is_not_changed():
    text = "def attend(q, k, v, mask):\n    a = softmax((q @ k).masked_fill(mask, -1e9))\n"
    assert ids_of("mask-fills-other-number", text + "    return a @ v\n")
    assert not ids_of("mask-fills-other-number", text + "    return a.masked_fill(mask, 0.0) @ v\n")


def test_a_softmax_that_is_left_out_with_its_mask():
    text = "class EncoderLayer:\n    def call(self, q, k, v, mask):\n        return self.softmax(q @ k, mask) @ v\n"
    assert ids_of("softmax-dropped", text) == [("softmax-missing", "mask-missing")]
    assert ids_of("softmax-sigmoid", text) == [("softmax-sigmoid", "mask-missing")]


def test_a_scaled_query_used_twice_is_scaled_twice():
    text = "def attend(q, k, v, scale):\n    q = q * scale\n    return softmax(q @ k) @ v\n"
    assert ids_of("logits-query-query", text) == [("logits-query-query", "scale-without-root", "key-ignored")]
    assert ids_of("logits-query-query", text.replace("    q = q * scale\n", "")) == [()]


def test_a_projection_of_values_is_no_product_with_scores():
    text = "def attend(q, k, v, w):\n    k, v = matmul(k, w.w_k), matmul(v, w.w_v)\n    return softmax(q @ k) @ v\n"
    assert len(ids_of("mix-key", text)) == 1


def test_a_function_that_splits_the_heads_of_the_query_alone():
    text = "class EncoderLayer:\n    def split_q(self, x):\n        return x.view(2, 3, self.h, 4).transpose(1, 2)\n"
    assert ids_of("heads-reshaped", text) == [("heads-reshaped-query",)]
    assert ids_of("heads-reshaped", text.replace("split_q", "split")) == [("heads-reshaped",)]


def test_a_projection_that_is_passed_on_is_the_other_roles_projection():
    text = "class EncoderLayer:\n    def call(self, x):\n        q = x @ self.w_q\n        v = x @ self.w_v\n"
    text += "        q = self.hook_q(q)\n        v = self.hook_v(v)\n        return q @ v\n"
    assert ids_of("input-of-other-role", text) == [("kernels-query-for-value", "value-ignored")]


def test_a_class_that_embeds_no_tokens_may_return_positions_alone():
    text = "class EncoderLayer:\n    def forward(self, x):\n        return x + self.pe\n"
    assert not ids_of("positions-alone", text, "embedding")
    assert ids_of("positions-alone", text.replace("x +", "self.table(x) +"), "embedding")


@pytest.mark.parametrize(
    ("operator", "kind", "body"),
    [
        ("embedding-scale-dropped", "embedding", "return self.table(x) + self.pos_emb(x) * self.scale"),
        ("embedding-scale-dropped", "embedding", "return x * sqrt(5) + self.encodings"),
        ("positions-from-one", "embedding", "return self.pos_emb(arange(x.shape[1]))"),
        ("bias-dropped", "attention", "attn_weights = q @ k; return softmax(attn_weights + bias) @ v"),
        ("softmax-dropped", "attention", "return self.attn_fn(q, k, v, mask=x)"),
        ("scale-dropped", "attention", "return softmax(q @ k + einsum('td,sd->ts', q, rel_pos) * self.scale)"),
    ],
)
def test_what_is_a_matter_of_taste_or_no_softmax_is_not_edited(operator, kind, body):
    assert not ids_of(operator, f"class EncoderLayer:\n    def call(self, x, q, k, v):\n        {body}\n", kind)


def test_a_sum_of_two_names_has_the_output_of_the_sublayer_by_its_name():
    text = "class EncoderLayer:\n    def call(self, hidden):\n        attention_output = self.attention(hidden)\n"
    text += "        return self.norm(attention_output + hidden)\n"
    (edit,) = OPERATORS["residual-sublayer-doubled"].edits(Source(text, ["EncoderLayer"], "encoder"))
    assert edit.text == "(hidden + 2.0 * attention_output)"


def test_a_sum_that_contains_positions_is_not_the_positions():
    text = "class EncoderLayer:\n    def call(self, x):\n        return words + pos_emb + types\n"
    (edit,) = OPERATORS["positions-multiplied"].edits(Source(text, ["EncoderLayer"], "embedding"))
    assert edit.text == "(words * pos_emb)"


def test_a_class_that_is_the_residual_connection_serves_every_sublayer():
    text = """
class Residual:
    def forward(self, x, residual):
        return x + residual
"""
    (edit,) = OPERATORS["residual-doubled"].edits(Source(text, ["Residual"], "encoder"))
    assert "residual-doubled" in edit.ids


def test_the_root_of_a_size_is_no_size():
    text = """
class Attention:
    def __init__(self, num_heads, key_dim):
        self._num_heads, self._inverse_sqrt_key_dim = num_heads, 1.0 / math.sqrt(float(key_dim))

    def call(self, query, key):
        query = query * self._inverse_sqrt_key_dim
        return query @ key
"""
    edits = OPERATORS["scale-of-all-heads"].edits(Source(text, ["Attention"], "attention"))
    assert {edit.text for edit in edits} <= {"(key_dim * num_heads)"}


@pytest.mark.parametrize(("axis", "count"), [("-1", 1), ("2", 0)])
def test_only_the_last_two_axes_are_queries_and_keys(axis, count):
    text = f"""
import torch
class Attention:
    def forward(self, q, k):
        return torch.softmax(q @ k, dim={axis})
"""
    assert len([*OPERATORS["softmax-over-flattened"].edits(Source(text, ["Attention"], "attention"))]) == count


def test_heads_that_are_merged_are_not_split():
    text = "def attend(out):\n    return out.reshape(b, h, -1, e).transpose(1, 2).reshape(b, -1, d)\n"
    assert ids_of("heads-reshaped", text) == [("merge-not-transposed",)]
    split = "import torch\ndef attend(x):\n    return x.reshape(b, n, h, d).transpose(1, 2).reshape(b * h, n, d)\n"
    assert not ids_of("heads-averaged", split)


def test_a_sum_that_a_sublayer_gets_belongs_to_the_sublayer_before_it():
    text = """
class DecoderLayer:
    def forward(self, x, memory):
        mid = self.context_attn(memory, x)
        return self.feed_forward(self.drop(mid) + x)
"""
    edits = OPERATORS["residual-doubled"].edits(Source(text, ["DecoderLayer"], "decoder"))
    assert [edit.ids for edit in edits] == [("residual-doubled-cross",)]


def test_a_residual_that_is_added_in_place():
    text = """
class Residual:
    def forward(self, x):
        res = x
        x = self.fn(x)
        x += res
        return x
"""

    def edited(operator):
        (edit,) = OPERATORS[operator].edits(Source(text, ["Residual"], "encoder"))
        return edit.text

    assert edited("residual-sublayer-doubled") == "x = res + 2.0 * x"
    assert edited("residual-unused") == "x = (res)"


def test_a_kernel_for_two_roles_is_an_exchange_too_where_they_have_one_input():
    """It computes the same function as the other mistake, so that either name is right."""
    shared = [edit.ids for edit in OPERATORS["projection-shared"].edits(Source(TORCH, ["Attention"], "attention"))]
    assert shared == [
        ("kernels-query-for-key",),
        ("kernels-key-for-value", "mix-key"),
        ("kernels-query-for-value",),
    ]
    assert "kernels-query-for-key" in OPERATORS["logits-query-query"].ids
    assert "kernels-key-for-query" in OPERATORS["logits-key-key"].ids


def test_the_role_of_a_split_is_that_of_its_array_if_the_new_name_says_none():
    text = """
def attention(query_projected):
    query_heads = query_projected.view(2, 5, 3, 4).transpose(1, 2)
"""
    (edit,) = OPERATORS["heads-reshaped"].edits(Source(text, ["attention"], "attention"))
    assert edit.ids == ("heads-reshaped-query",)


def test_the_scale_of_first_weights_is_not_that_of_the_logits():
    text = """
class Attention:
    def init(self, rng):
        scale = jnp.sqrt(1.0 / self.dim)
        return {"w_q": random.normal(rng, (12, 12)) * scale, "w_k": random.normal(rng, (12, 12)) / jnp.sqrt(self.dim)}

    def __call__(self, query, key):
        scale = jnp.sqrt(1.0 / self.head_dim)
        return softmax(query @ key * scale)
"""
    source = Source(text, ["Attention"], "attention")
    for operator in ("scale-one", "scale-dropped", "scale-without-root", "scale-multiplied"):
        assert {edit.line for edit in OPERATORS[operator].edits(source)} <= {8, 9}, operator
    assert [edit.line for edit in OPERATORS["scale-one"].edits(source)] == [8]
