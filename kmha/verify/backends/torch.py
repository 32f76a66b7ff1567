"""Forward and gradients in torch, as they come."""

from typing import Any

import numpy as np
import torch


def run(candidate: Any, mode: str, upstream: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the outputs, and the gradients of inputs and weights; see `comparing.running.Candidate.run`."""
    tensors = [torch.tensor(x, requires_grad=True) for x in candidate.arrays()]
    outputs = candidate.call(tensors)
    loss = candidate.loss(outputs, torch.tensor(upstream))
    wanted = [*tensors, *(weight.variable.value for weight in candidate.weights)]
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    pairs = zip(wanted, gradients, strict=True)
    return [_array(x) for x in outputs], [_array(torch.zeros_like(x) if g is None else g) for x, g in pairs]


def in_mode(mode: str, function: Any) -> Any:
    """`function` itself: torch has the one mode."""
    return function


def _array(x: Any) -> np.ndarray:
    return x.detach().to(torch.float64).numpy()
