"""torch's fused kernel, with all derivatives. The kernel itself has only the first."""

from collections.abc import Callable
from typing import Any

import keras
import torch
from keras import ops
from torch.autograd import forward_ad
from torch.nn import functional

from kmha.core import masks
from kmha.core.tensors import as_tensor

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def attend(
    query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool, flash: bool | None, written_out: Attend
) -> torch.Tensor:
    """Return the mixed values (B, T, H, O), zeros for a query with nothing to attend to.

    The kernel reads the heads where the projections have left them. `keras.ops.dot_product_attention` copies query, key
    and value first, unless it takes FlashAttention.

    Args:
        query: Query (B, T, H, O).
        key: Key (B, S, H, O).
        value: Value (B, S, H, O). Its O may differ from the O of query and key.
        mask: Boolean mask of rank 4 that broadcasts to (B, H, T, S), or `None`.
        scale: Factor of the logits.
        causal: Without a mask: position t attends only to positions s ≤ t.
        flash: `True` asks for FlashAttention, and raises Keras' error where it is not available.
        written_out: The same function, of which higher derivatives are computed.
    """
    query, key, value = map(as_tensor, (query, key, value))
    if not query.dtype == key.dtype == value.dtype:
        common = keras.backend.result_type(*(keras.backend.standardize_dtype(x.dtype) for x in (query, key, value)))
        query, key, value = (ops.cast(x, common) for x in (query, key, value))
    mask = None if mask is None else mask.to(query.device, torch.bool)

    def fused(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if flash:
            options = {"mask": mask, "scale": scale, "is_causal": causal, "flash_attention": True}
            mixed = ops.dot_product_attention(query, key, value, **options)
        else:
            mixed = _on_heads(query, key, value, mask, scale, causal)
        if mask is None:
            return mixed
        # On a processor, `any` takes eight times as long as this sum.
        attending = mask.to(torch.uint8).sum(-1, keepdim=True, dtype=torch.int32) > 0  # (B, H, T, 1)
        return torch.where(attending.transpose(1, 2), mixed, 0.0)

    return with_all_derivatives(fused, written_out, query, key, value)


def _on_heads(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, scale: float, causal: bool
) -> torch.Tensor:
    """Return the mixed values. A query with nothing to attend to sees everything, so that its gradients are finite."""
    heads = [x.transpose(1, 2) for x in (query, key, value)]
    if not (query.is_cpu or (query.is_cuda and torch.version.hip is None)):
        # Some kernels for Apple and AMD give wrong numbers otherwise (pytorch/pytorch#181133, ROCm/pytorch#3230).
        heads = [x.contiguous() for x in heads]
    added = None
    if mask is not None:
        if mask.shape[-1] != key.shape[1]:  # kernels for GPUs refuse an axis S that is written once (keras#20459)
            mask = mask.expand(*mask.shape[:-1], key.shape[1]).contiguous()
        # From a boolean mask, torch makes -inf, and a row of -inf may give NaN.
        added = mask.logical_not().to(query.dtype).mul_(max(masks.LOWEST, torch.finfo(query.dtype).min / 2))
    options: Any = {"attn_mask": added, "is_causal": causal, "scale": scale}
    return functional.scaled_dot_product_attention(*heads, **options).transpose(1, 2)


def with_all_derivatives(
    fused: Attend, written_out: Attend, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    """Return `fused(query, key, value)`, whose higher derivatives are those of `written_out`.

    First derivatives are those of the fused kernel. Inside `torch.func` transformations and forward-mode
    differentiation, the result itself comes from `written_out`.

    >>> x = torch.tensor([[[0.3]]], requires_grad=True)
    >>> result = with_all_derivatives(lambda q, k, v: q * k.detach() * v.detach(), lambda q, k, v: q * k * v, x, x, x)
    >>> (first,) = torch.autograd.grad(result, x, create_graph=True)
    >>> float(torch.autograd.grad(first, x)[0]) > 0
    True
    """
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return written_out(query, key, value)
    recorded = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    if not recorded or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return fused(query, key, value)
    upstream: list[torch.Tensor] = []
    mixed = fused(*_Inputs.apply(written_out, upstream, query, key, value))
    mixed.register_hook(lambda gradient: upstream.append(gradient) if torch.is_grad_enabled() else None)
    return mixed.view_as(mixed)  # hooks of the caller come first, and no gradient ends where ours is called


class _Inputs(torch.autograd.Function):
    """Passes query, key and value on to the kernel, and its gradients back. With create_graph=True, these are replaced
    by the gradients of `written_out`, because nothing can differentiate the kernel's own.
    """

    @staticmethod
    def forward(ctx: Any, written_out: Attend, upstream: list[torch.Tensor], *inputs: torch.Tensor) -> Any:
        ctx.written_out, ctx.upstream = written_out, upstream
        ctx.save_for_backward(*inputs)
        return inputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        if torch.is_grad_enabled():  # with create_graph=True
            inputs, needed = ctx.saved_tensors, ctx.needs_input_grad[2:]
            wanted = [x for x, is_needed in zip(inputs, needed, strict=True) if is_needed]
            output = ctx.written_out(*inputs)
            found = iter(torch.autograd.grad(output, wanted, ctx.upstream.pop(), create_graph=True))
            gradients = tuple(next(found) if is_needed else None for is_needed in needed)
        return None, None, *gradients
