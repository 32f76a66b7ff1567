"""Decoding with a Flax (linen) module, whose cache is a collection of variables that its field `decode` turns on."""

import inspect
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.caches.arrays import causal_rows
from kmha.verify.diagnosing.caches.calls import WIDTH
from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.candidate import quietly


def has_cache(thing: Any) -> bool:
    """Return whether this is an instance of a Flax module with a field `decode`."""
    fields = getattr(type(thing), "__dataclass_fields__", {})
    return "decode" in fields and hasattr(thing, "apply") and hasattr(thing, "clone")


def decoding_of(module: Any) -> Decoding | None:
    """Return the decoding of a module, or `None` if it cannot be called with features (B, T, I) alone."""
    import jax

    width = next((number for number in _numbers(module) if number), WIDTH)
    mask = next((n for n in inspect.signature(type(module).__call__).parameters if naming.argument(n) == "mask"), None)
    names = {naming.argument(name): name for name in inspect.signature(type(module).__call__).parameters}
    options = {names["deterministic"]: True} if "deterministic" in names else {}
    without, cached = module.clone(decode=False), module.clone(decode=True)

    def tensor(tokens: np.ndarray) -> Any:
        return frameworks.to_tensor(tokens, "jax", "float32")

    def full(tokens: np.ndarray) -> np.ndarray:
        length = tokens.shape[1]
        causal = {} if mask is None else {mask: causal_rows(0, length, length)[None, None]}
        result = without.apply({"params": variables["params"]}, tensor(tokens), **causal, **options)
        return np.asarray(frameworks.output_and_scores(result)[0], "float64")

    def start(batch: int, capacity: int) -> Any:
        made = cached.init(jax.random.key(0), tensor(np.zeros((batch, capacity, width))), **options)
        return made["cache"]

    def step(tokens: np.ndarray, cache: Any, position: int) -> tuple[Any, Any]:
        collections = {"params": variables["params"], "cache": cache}
        result, changed = cached.apply(collections, tensor(tokens), mutable=["cache"], **options)
        return frameworks.to_numpy(frameworks.output_and_scores(result)[0]), changed["cache"]

    try:
        with quietly():
            variables = without.init(jax.random.key(0), tensor(np.zeros((1, 2, width))), **options)
            start(1, 2)
    except (Exception, SystemExit):  # untrusted code may raise anything
        return None
    return Decoding(full, start, step, width, several=False, dtype="float32", says="the collection `cache`")


def _numbers(module: Any) -> list[int]:
    """Return the numbers of features that a module states, the likeliest first."""
    stated = {naming.argument(name): value for name, value in vars(module).items() if isinstance(value, int)}
    return [stated[role] for role in ("width", "inputs", "output") if isinstance(stated.get(role), int)]
