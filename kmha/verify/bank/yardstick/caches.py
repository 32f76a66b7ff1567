"""Name what a model's cached decoding does instead of attending to the whole past."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

CACHE = "past_key_values"  # the name by which DEForm finds a cache; transformers 5.24 deprecates it for `cache`
PROMPT, STEPS = 40, 4
LIMIT = 1e-4  # largest relative difference between cached and uncached float32 logits of a right model

LAYERS = (slice(None), slice(0, 1), slice(1, 2), slice(-1, None))  # the layers whose cache may be wrong

Change = Callable[[Any], Any]  # of keys or values (B, H, S, O)


def _unchanged(array: Any) -> Any:
    return array


def effect(model: Any, clean: Any) -> str:
    """Return the effect in cached decoding, or "" if the cached logits are those of the whole sequence.

    Args:
        model: Model to judge.
        clean: The same model as it was built, which serves to try what breaks a cache.
    """
    ids = _ids(0)
    if _leaks(model, ids):
        return "cache leaks between requests"
    found = _cached(model, ids)
    if _same(found, _uncached(clean, ids)):
        return ""
    for name, change in _CHANGES.items():
        for layers in LAYERS:
            if _same(found, _cached(clean, ids, change, layers)):
                return name
    return "cache changed"


def changes(model: Any, clean: Any) -> bool:
    """Return whether two models differ in cached decoding or in a second request."""
    ids = _ids(1)
    return _leaks(model, ids) or not _same(_cached(model, ids), _cached(clean, ids))


def _ids(seed: int) -> Any:
    import torch

    return torch.randint(3, 97, (2, PROMPT + STEPS), generator=torch.Generator().manual_seed(seed))


def _uncached(model: Any, ids: Any) -> np.ndarray:
    """Return the logits of the last `STEPS` positions, computed from the whole sequence."""
    import torch

    with torch.no_grad():
        return np.asarray(model(input_ids=ids, use_cache=False).logits[:, PROMPT:])


def _cached(model: Any, ids: Any, change: Change = _unchanged, layers: slice = slice(None)) -> np.ndarray | str:
    """Return the same logits, computed from a prompt and then step by step with a cache, or the error of a step.

    Args:
        model: Model to run.
        ids: Token ids (B, T).
        change: Change of the cached keys and values before each step.
        layers: Layers whose cache is changed.
    """
    import torch

    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            cache = getattr(model(input_ids=ids[:, :PROMPT], use_cache=True), CACHE)
            steps = []
            for step in range(PROMPT, PROMPT + STEPS):
                for layer in cache.layers[layers]:
                    layer.keys, layer.values = change(layer.keys), change(layer.values)
                result = model(input_ids=ids[:, step : step + 1], use_cache=True, **{CACHE: cache})
                cache = getattr(result, CACHE)
                steps.append(np.asarray(result.logits[:, -1]))
    except (RuntimeError, IndexError) as error:  # caches of different lengths
        return str(error)
    return np.stack(steps, 1)


def _leaks(model: Any, ids: Any) -> bool:
    """Return whether a second request without a cache gives other logits than the first, identical request."""
    import torch

    with torch.no_grad():
        first, second = (np.asarray(model(input_ids=ids, use_cache=True).logits) for _ in range(2))
    return first.shape != second.shape or not _same(first, second)


def _same(one: np.ndarray | str, other: np.ndarray | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return str(one) == str(other)
    return one.shape == other.shape and bool(np.abs(one - other).max() <= LIMIT * np.abs(other).max())


def _shifted(by: int) -> Change:
    def change(array: Any) -> Any:
        import torch

        moved = torch.roll(array, by, -2)
        moved[..., slice(0, by) if by > 0 else slice(by, None), :] = 0.0
        return moved

    return change


def _kept(length: int) -> Change:
    return lambda array: array[..., -length:, :]


_CHANGES: dict[str, Change] = {
    "cache without the newest position": lambda array: array[..., :-1, :],
    "cache shifted by one": _shifted(1),
    "cache shifted by minus one": _shifted(-1),
    **{f"cache truncated to {length}": _kept(length) for length in range(1, PROMPT)},
}
