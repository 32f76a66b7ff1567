"""All derivatives of torch's fused kernel, which itself has only the first."""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


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
    return _Fused.apply(fused, written_out, query, key, value)


class _Fused(torch.autograd.Function):
    """The fused kernel, with a backward pass that can itself be differentiated."""

    @staticmethod
    def forward(ctx: Any, fused: Attend, written_out: Attend, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.fused, ctx.written_out = fused, written_out
        ctx.save_for_backward(*inputs)
        ctx.recorded = _record(fused, inputs)
        return ctx.recorded[0].detach()

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # with create_graph=True
            inputs = ctx.saved_tensors
            output = ctx.written_out(*inputs)
        else:
            # A second backward pass through the same graph records the kernel again, so that the first frees memory.
            output, inputs = ctx.recorded or _record(ctx.fused, ctx.saved_tensors)
            ctx.recorded = None
        wanted = [x for x, needed in zip(inputs, ctx.needs_input_grad[2:], strict=True) if needed]
        gradients = iter(torch.autograd.grad(output, wanted, upstream, create_graph=torch.is_grad_enabled()))
        return None, None, *(next(gradients) if needed else None for needed in ctx.needs_input_grad[2:])


def _record(fused: Attend, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the kernel's output, and the inputs that it can be differentiated by."""
    with torch.enable_grad():
        inner = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        return fused(*inner), inner
