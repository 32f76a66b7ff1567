"""Forward and backward passes in torch, which runs eagerly only."""

from typing import Any

import numpy as np
import torch


def run(layer: Any, mode: str, upstream: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the outputs, and the gradients of inputs and weights. See `comparing.running.BuiltLayer.run`."""
    tensors = [torch.tensor(x, requires_grad=True) for x in layer.arrays()]
    outputs = layer.call(tensors)
    loss = layer.loss(outputs, torch.tensor(upstream))
    wanted = [*tensors, *(weight.variable.value for weight in layer.weights)]
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    pairs = zip(wanted, gradients, strict=True)
    return [_array(x) for x in outputs], [_array(torch.zeros_like(x) if g is None else g) for x, g in pairs]


def in_mode(mode: str, function: Any) -> Any:
    """Return `function` itself, because torch has a single mode."""
    return function


def _array(x: Any) -> np.ndarray:
    return x.detach().to(torch.float64).numpy()
