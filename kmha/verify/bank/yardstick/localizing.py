"""Find the modules of a model that do not compute what they computed before a fault was injected.

All calls of modules are recorded while the model runs. Each recorded call is made again with the module of the model
as it was built. So a module whose inputs are wrong, because an earlier module is wrong, is not blamed.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(eq=False)
class Call:
    """A recorded call of a module: its arguments, and all tensors of its result."""

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    results: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Suspect:
    """A module whose result is wrong although its inputs, and all modules inside it, are right.

    Attributes:
        path: Path of the module in its model.
        module: Module of the model with the fault.
        clean: The same module of the model as it was built.
        call: Recorded call.
        expected: Tensors that the clean module returns for the same arguments.
        inside: Recorded calls of the modules inside, keyed by their paths relative to `path`.
    """

    path: str
    module: Any
    clean: Any
    call: Call
    expected: tuple[Any, ...]
    inside: Mapping[str, Call]


def record(model: Any, *arguments: Any, **keywords: Any) -> dict[str, Call]:
    """Run a model, and return the first call of each of its modules, keyed by path, which is "" for the model."""
    import torch

    calls: dict[str, Call] = {}

    def hook(path: str) -> Any:
        def keep(module: Any, given: tuple, named: dict, result: Any) -> None:
            calls.setdefault(path, Call(_copies(given), _copies(named), tensors(_copies(result))))

        return keep

    handles = [module.register_forward_hook(hook(path), with_kwargs=True) for path, module in model.named_modules()]
    try:
        with torch.no_grad():
            model(*arguments, **keywords)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _copies(value: Any) -> Any:
    """Return copies of all tensors in a structure, because a later module may change a tensor in place."""
    import torch

    if torch.is_tensor(value):
        return value.detach().clone()
    if isinstance(value, tuple | list):
        return tuple(_copies(each) for each in value)
    if isinstance(value, dict):
        return {name: _copies(each) for name, each in value.items()}
    return value


def tensors(value: Any) -> tuple[Any, ...]:
    """Return all tensors in a structure, in order."""
    import torch

    if torch.is_tensor(value):
        return (value,)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return tuple(tensor for each in inner for tensor in tensors(each))


def suspects(model: Any, clean: Any, calls: Mapping[str, Call]) -> list[Suspect]:
    """Return the innermost modules that do not compute what the clean model's modules compute, in the model's order."""
    wrong: dict[str, tuple[Any, ...]] = {}
    for path, call in calls.items():
        expected = again(clean.get_submodule(path), call)
        if not same(call.results, expected):
            wrong[path] = expected
    inner = [path for path in wrong if not any(_is_inside(other, path) for other in wrong)]
    return [
        Suspect(
            path,
            model.get_submodule(path),
            clean.get_submodule(path),
            calls[path],
            wrong[path],
            {name.removeprefix(f"{path}."): call for name, call in calls.items() if _is_inside(name, path)},
        )
        for path in inner
    ]


def _is_inside(path: str, outer: str) -> bool:
    return path != outer and (not outer or path.startswith(f"{outer}."))


def again(module: Any, call: Call) -> tuple[Any, ...]:
    """Return the tensors of the result of a module that is called with the arguments of a recorded call."""
    import torch

    with torch.no_grad():
        return tensors(_copies(module(*_copies(call.arguments), **_copies(call.keywords))))


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether all tensors are identical. The same code with the same numbers gives the same bits."""
    import torch

    return len(one) == len(other) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for a, b in zip(one, other, strict=True)
    )
