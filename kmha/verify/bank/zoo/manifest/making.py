"""Ways to make what a user would diagnose from a class of a package.

torch and flax are imported only when something is made.
"""

import importlib
from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry

WIDTH, HEADS, SIZE, INNER = 12, 3, 4, 20  # features, heads, features of each head, features of the feed-forward network
VOCABULARY, LENGTH = 17, 64  # tokens, maximum number of positions


def of(package: str, start: str, framework: str = "torch") -> Callable[..., Entry]:
    """Return a function that makes entries of a package. `start` is the part that all names have in common."""

    def entry(
        name: str, kind: str, make: Callable[[Any], Any] | None = None, norm: str = "", mask: str = "", **more: Any
    ) -> Entry:
        return Entry(package, start + name, kind, framework, make, norm, mask, **more)

    return entry


def with_arguments(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that calls a class with these arguments."""
    return lambda found: found(*arguments, **more)


def with_config(where: str, *arguments: Any, **settings: Any) -> Callable[[Any], Any]:
    """Return a function that calls a class with a configuration object, then with further arguments.

    Args:
        where: Class of the configuration, as MODULE:NAME.
        *arguments: Arguments after the configuration.
        **settings: Arguments of the configuration.
    """
    return lambda found: found(config(where, **settings), *arguments)


def with_rngs(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that calls a class of `flax.nnx` with these arguments and generators of random numbers."""

    def make(found: Any) -> Any:
        from flax import nnx

        return found(*arguments, **more, rngs=nnx.Rngs(0))

    return make


def config(where: str, **settings: Any) -> Any:
    """Make a configuration object of the class at `where`, given as MODULE:NAME."""
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)(**settings)


def called(layer: Any, call: Callable[..., Any]) -> Any:
    """Return a module that contains `layer`, and whose `forward(x, mask=None)` returns `call(layer, x, mask)`.

    Some layers need more than an input and a mask, such as rotary angles for each position or a mask object of their
    package. What a model computes and hands to them, `call` computes here.
    """
    return with_forward(layer, lambda self, x, mask=None: call(self.layer, x, mask))


def with_forward(layer: Any, call: Callable[..., Any]) -> Any:
    """Return a module that contains `layer`, and whose method `forward` is the function `call`.

    The function takes a mask only if it uses it: a mask that is ignored is a mistake.
    """
    import torch

    class Called(torch.nn.Module):
        forward = call

        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

    return Called()
