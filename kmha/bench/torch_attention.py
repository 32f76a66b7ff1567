"""torch's attention layer, and its `scaled_dot_product_attention` between projections, both run eagerly."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from kmha.bench import machine, passes
from kmha.bench.cases import AttentionRow
from kmha.bench.contenders import Arrays, AttentionInputs, Contender, named, padding
from kmha.bench.torch_weights import IN_PROJECTIONS, stacked


def build(name: str, row: AttentionRow, given: AttentionInputs) -> Contender:
    """Return the contender "torch" (`torch.nn.MultiheadAttention`) or "sdpa"."""
    torch.set_num_threads(machine.cores())
    kernels, biases = stacked(given.weights)
    out_kernel, out_bias = (given.weights[f"attention_output/{end}"] for end in ("kernel", "bias"))
    weights = kernels, biases, out_kernel.reshape(-1, row.width).T, out_bias
    call, parameters = {"torch": _layer, "sdpa": _sdpa}[name](row, [torch.tensor(array.copy()) for array in weights])
    run = passes.on_torch(row, call, parameters, torch.tensor(given.x), torch.tensor(given.upstream))
    return Contender(name, run, lambda tensors: named(tensors, lambda found: _canonical(row, *found)))


def _layer(row: AttentionRow, weights: list[Any]) -> tuple[Any, list[Any]]:
    layer = torch.nn.MultiheadAttention(row.width, row.heads, dropout=row.dropout, batch_first=True)
    parameters = [layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias]
    with torch.no_grad():
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(weight)
    layer.train(row.is_training)
    # In this layer's masks, True means hidden.
    hidden = None if not row.is_causal else ~_visible(row)
    padded = torch.tensor(~padding(row)) if row.kind == "padded" else None
    options = {"attn_mask": hidden, "key_padding_mask": padded, "is_causal": row.kind == "causal"}
    return lambda x: layer(x, x, x, need_weights=False, **options)[0], parameters


def _sdpa(row: AttentionRow, weights: list[Any]) -> tuple[Any, list[Any]]:
    parameters = [weight.requires_grad_() for weight in weights]
    kernels, biases, out_kernel, out_bias = parameters
    mask = torch.tensor(padding(row)[:, None, None]) if row.kind == "padded" else None
    if row.kind == "windowed":
        mask = _visible(row)

    def call(x: Any) -> Any:
        projected = functional.linear(x, kernels, biases)
        query, key, value = projected.view(row.batch, row.length, 3, row.heads, row.head_size).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=row.dropout, is_causal=row.kind == "causal"
        )
        return functional.linear(mixed.transpose(1, 2).flatten(2), out_kernel, out_bias)

    return call, parameters


def _visible(row: AttentionRow) -> Any:
    """Return the causal mask (T, S), with the window if there is one. True means attend."""
    lower = torch.ones(row.length, row.length, dtype=torch.bool).tril()
    return lower.triu(1 - row.window) if row.kind == "windowed" else lower


def _canonical(row: AttentionRow, kernels: Any, biases: Any, out_kernel: Any, out_bias: Any) -> Arrays:
    """Return weights in the canonical layout, converted from torch's layout."""
    found: Arrays = {}
    for role, kernel, bias in zip(IN_PROJECTIONS, np.split(kernels, 3), np.split(biases, 3), strict=True):
        found[f"{role}/kernel"] = kernel.reshape(row.heads, row.head_size, row.width).transpose(0, 2, 1)
        found[f"{role}/bias"] = bias.reshape(row.heads, row.head_size)
    found["attention_output/kernel"] = out_kernel.T.reshape(row.heads, row.head_size, row.width)
    found["attention_output/bias"] = out_bias
    return found
