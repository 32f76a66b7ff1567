"""Record the calls that a diagnosis makes, and repeat them with a mutant, to see whether it computes something else.

The mutant is made with the recorded arguments of the constructor, gets the recorded weights by their names, and draws
the same random numbers. So its numbers differ only if its code computes something else.
"""

import contextlib
import copy
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify import diagnose
from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.closures import stand_in
from kmha.verify.diagnosing.layer_adapters import adapter_of

MOST = 60  # number of calls that are kept
ENOUGH = 6  # number of calls more that run than that raise errors, after which no more are needed
TOLERANCE = 1e-5  # relative difference of two results that differ by more than rounding
ERRORS = (Exception, SystemExit)  # what other people's code may raise


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """One call that the diagnosis made of an entry.

    Attributes:
        made: Positional and keyword arguments of the constructor, or `None` if it was no class that was diagnosed.
        policy: Keras' dtype policy at the call of the constructor.
        state: Weights, keyed by name, or a list of weights in Keras.
        training: Whether a torch module was in training mode.
        arguments: Positional and keyword arguments of the call.
    """

    made: tuple[tuple[Any, ...], dict[str, Any]] | None
    policy: Any
    state: Any
    training: bool
    arguments: tuple[tuple[Any, ...], dict[str, Any]]


def recorded(entry: Entry, seed: int = 0) -> list[Call]:
    """Diagnose an entry, and return different calls that it answered, at most `MOST`. An unreadable entry has none."""
    calls: dict[Any, Call] = {}
    seed_everything(0)
    thing = entry.made()
    with contextlib.suppress(*ERRORS), _recording(thing, calls) as instrumented:
        diagnose(instrumented, seed=seed, **entry.options)
    return list(calls.values())[:MOST]


@contextlib.contextmanager
def _recording(thing: Any, calls: dict[Any, Call]) -> Iterator[Any]:
    """Record every successful call of `thing`, which may be a class, a layer or a function."""
    is_function = not isinstance(thing, type) and not _is_layer(thing)
    held = stand_in(thing) if is_function else None
    if is_function and (held is None or isinstance(held, type)):
        yield _wrapped(thing, calls)
        return
    thing = thing if held is None else held
    owner = thing if isinstance(thing, type) else type(thing)
    adapter = adapter_of(owner) if held is not None else None
    called = adapter.method if adapter is not None and adapter.calls_by_name else "__call__"
    constructions: dict[int, Any] = {}
    saved = {name: owner.__dict__.get(name) for name in ("__init__", called)}
    if isinstance(thing, type):
        constructor = getattr(owner, "__init__")  # noqa: B009 - mypy forbids to read or set it as an attribute
        setattr(owner, "__init__", _noting(constructor, constructions))  # noqa: B010
    setattr(owner, called, _recorder(getattr(owner, called), calls, constructions, held is None))
    try:
        yield thing
    finally:
        for name, method in saved.items():
            if method is not None:
                setattr(owner, name, method)
            elif name in owner.__dict__:
                delattr(owner, name)


def _is_layer(thing: Any) -> bool:
    return any(hasattr(thing, method) for method in ("call", "forward"))


def _noting(constructor: Callable[..., None], constructions: dict[int, Any]) -> Callable[..., None]:
    """Return a constructor that notes its arguments. Subclasses call it too, but the last note is the outermost."""

    @functools.wraps(constructor)
    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        constructor(self, *args, **kwargs)
        constructions[id(self)] = (args, kwargs), _policy()

    # Keras reads the signature without following what is wrapped.
    noting.__signature__ = inspect.signature(constructor)  # type: ignore[attr-defined]
    return noting


def _recorder(
    method: Callable[..., Any], calls: dict[Any, Call], constructions: dict[int, Any], with_state: bool
) -> Callable[..., Any]:
    """Return a method that records its calls. A function around a layer keeps the weights that it has: no state."""
    depth = [0]

    @functools.wraps(method)
    def recorder(self: Any, *args: Any, **kwargs: Any) -> Any:
        outermost = not depth[0]
        arguments = _copied(args, kwargs) if outermost else None
        depth[0] += 1
        try:
            result = method(self, *args, **kwargs)
        finally:
            depth[0] -= 1
        if arguments is not None and _arrays(result) is not None:
            made, policy = constructions.get(id(self), (None, None))
            call = Call(
                made, policy, _state(self) if with_state else None, bool(getattr(self, "training", False)), arguments
            )
            calls.setdefault(_signature(call), call)
        return result

    return recorder


def _wrapped(function: Callable[..., Any], calls: dict[Any, Call]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        arguments = _copied(args, kwargs)
        result = function(*args, **kwargs)
        call = Call(None, None, None, False, arguments)
        if _arrays(result) is not None:
            calls.setdefault(_signature(call), call)
        return result

    return wrapped


def _copied(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        return copy.deepcopy((tuple(args), dict(kwargs)))
    except ERRORS:
        return tuple(args), dict(kwargs)


def _signature(call: Call) -> Any:
    """Return what makes two calls the same: the values of all arguments, and the mode."""
    args, kwargs = call.arguments
    given = [*enumerate(args), *kwargs.items()]
    return str([(name, _kind(value)) for name, value in given]), call.training, str(call.made)


def _kind(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_kind(each) for each in value]
    arrays = _arrays(value) if hasattr(value, "shape") else None
    return [(each.shape, str(each.dtype), hash(each.tobytes())) for each in arrays] if arrays else repr(value)[:40]


def _policy() -> Any:
    return sys.modules["keras"].config.dtype_policy() if "keras" in sys.modules else None


def _state(layer: Any) -> Any:
    if hasattr(layer, "state_dict"):
        return {name: value.clone() for name, value in layer.state_dict().items() if hasattr(value, "clone")}
    if hasattr(layer, "weights"):
        return [np.array(weight) for weight in _weights(layer)]
    return None


def _weights(layer: Any) -> list[Any]:
    """Return the weights of a Keras layer without the states of its random numbers. Keras 2 has no paths."""
    return [weight for weight in layer.weights if "seed" not in str(getattr(weight, "path", ""))]


def seed_everything(seed: int) -> None:
    """Seed the random numbers of all frameworks that are imported."""
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(seed)


class Replay:
    """A class, layer or function that answers recorded calls. Equal arguments of the constructor make one layer."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.layers: dict[str, Any] = {}

    def answer(self, call: Call) -> list[np.ndarray] | None:
        """Return the arrays that a call returns, and its inputs after the call, or `None` if it raises an error."""
        try:
            with quietly():
                return self._answer(call)
        except ERRORS:
            return None

    def _answer(self, call: Call) -> list[np.ndarray]:
        layer = self._layer(call)
        args, kwargs = _copied(*call.arguments)
        seed_everything(0)
        torch = sys.modules.get("torch")
        with torch.no_grad() if torch is not None else contextlib.nullcontext():
            result = layer(*args, **kwargs)
        return (_arrays(result) or []) + (_arrays([*args, *kwargs.values()]) or [])

    def _layer(self, call: Call) -> Any:
        """Return the layer with the recorded weights, or the function itself."""
        key = f"{call.made} {call.policy}"
        if key not in self.layers:
            self.layers[key] = self.thing if call.made is None else self._constructed(call)
        layer = self.layers[key]
        if isinstance(call.state, dict):
            _load_torch(layer, call)
        elif isinstance(call.state, list):
            for weight, value in zip(_weights(layer), call.state, strict=False):
                if tuple(weight.shape) == value.shape:
                    weight.assign(value)
        return layer

    def _constructed(self, call: Call) -> Any:
        args, kwargs = call.made or ((), {})
        before = _policy()
        seed_everything(0)
        if call.policy is not None:
            sys.modules["keras"].config.set_dtype_policy(call.policy)
        try:
            layer = self.thing(*args, **kwargs)
            if isinstance(call.state, list) and not layer.built:
                layer(*call.arguments[0], **call.arguments[1])
        finally:
            if call.policy is not None:
                sys.modules["keras"].config.set_dtype_policy(before)
        return layer


def _load_torch(module: Any, call: Call) -> None:
    dtypes = [value.dtype for value in call.state.values() if value.is_floating_point()]
    if dtypes:
        module.to(dtypes[0])
    own = module.state_dict()
    module.load_state_dict(
        {name: value for name, value in call.state.items() if name in own and own[name].shape == value.shape},
        strict=False,
    )
    module.train(call.training)


def _arrays(result: Any) -> list[np.ndarray] | None:
    """Return all arrays in a result, or `None` if there are none, as in a symbolic call."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, list | tuple):
        found = [_arrays(each) for each in result]
        return [array for each in found if each for array in each] or None
    if hasattr(result, "detach"):
        result = result.detach().cpu()
        result = result.float() if str(result.dtype) == "torch.bfloat16" else result
    try:
        array = np.asarray(result)
    except ERRORS:
        return None
    return [array] if array.dtype.kind in "fiub" else None


SAME, OTHER, RAISES = "same", "other", "raises"


def compared(mutant: Any, calls: Sequence[Call], expected: Sequence[list[np.ndarray] | None]) -> str:
    """Return whether a mutant answers as `expected`: `SAME` or `OTHER`, or `RAISES` if it mostly raises errors."""
    replay, ran, failed, other = Replay(mutant), 0, 0, False
    for call, right in zip(calls, expected, strict=True):
        if right is None:
            continue
        found = replay.answer(call)
        ran, failed = ran + (found is not None), failed + (found is None)
        other = other or (found is not None and not same(found, right))
        if other and ran >= failed + ENOUGH:
            break
    return RAISES if failed > 2 * ran else OTHER if other else SAME


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Return whether two lists of arrays are equal, up to rounding."""
    if len(one) != len(other):
        return False
    return all(_close(left, right) for left, right in zip(one, other, strict=True))


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind not in "f":
        return np.array_equal(one, other)
    one, other = one.astype("float64"), other.astype("float64")
    finite = np.isfinite(other)
    if not np.array_equal(finite, np.isfinite(one)):
        return False
    largest = float(np.max(np.abs(other), where=finite, initial=0.0))
    return bool(np.all(np.abs(one - other)[finite] <= TOLERANCE * max(largest, 1e-30)))
