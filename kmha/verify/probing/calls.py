"""Calls of the layer, model or function under test, each from the same random state."""

import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from keras import ops

from kmha.layers import masking
from kmha.verify import backends
from kmha.verify.probing.inputs import CannotTry, Inputs, Slot
from kmha.verify.probing.sublayers import find, is_keras, layers_of, parameters_of, paths, wrapped

Outputs = dict[str, np.ndarray]
SCORES = "return_attention_scores"


class NotCalled(ValueError):
    """The chosen layer was not called when the model was called."""


class Callee:
    """A layer, model or function under test, and the layer within it whose outputs are examined.

    Args:
        thing: Layer, model or function to call.
        layer: Layer within `thing` whose outputs are examined, or its name. `None` examines `thing` itself.

    Raises:
        ValueError: `thing` cannot be called, or has no such layer.
    """

    def __init__(self, thing: Any, layer: Any = None) -> None:
        if isinstance(thing, type) or not callable(thing):
            fix = f"Build it first: probe({thing.__name__}(…), x)." if isinstance(thing, type) else ""
            raise ValueError(f"probe expects a layer, a model or a function. Received: {thing!r}. {fix}".rstrip())
        self.thing = thing
        self.layer = None if layer is None else find(thing, layer)
        self._start: list[tuple[Any, np.ndarray]] = []

    @property
    def weights(self) -> list[Any]:
        """The trainable weights of the examined layer."""
        examined = self.thing if self.layer is None else self.layer
        return list(examined.trainable_weights) if is_keras(examined) else []

    @property
    def trains(self) -> bool:
        """True if the call takes `training`."""
        return is_keras(self.thing) or "training" in parameters_of(self.thing)

    @property
    def dtypes(self) -> set[str]:
        """The dtypes that the layers under test compute in."""
        return {layer.compute_dtype for layer in layers_of(self.thing)}

    def remember(self) -> None:
        """Remember the present weights and random states. Every call starts from this state."""
        if is_keras(self.thing):
            variables = [x for x in self.thing.non_trainable_variables if x.dtype != "string"]
            self._start = [(variable, ops.convert_to_numpy(variable).copy()) for variable in variables]

    def restore(self) -> None:
        for variable, value in self._start:
            variable.assign(value)

    def call(self, inputs: Inputs, training: bool = False) -> Any:
        """Return the result of the call, or of the examined layer. A layer called several times gives a list."""
        args, kwargs = inputs.filled(self._tensor)
        if self.trains:
            kwargs["training"] = training
        seen: list[Any] = []

        def keep(_: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            seen.append(call(*args, **kwargs))
            return seen[-1]

        with warnings.catch_warnings(action="ignore"), wrapped([] if self.layer is None else [self.layer], keep):
            result = self.thing(*args, **kwargs)
        if self.layer is None:
            return result
        if not seen:
            raise NotCalled(f"layer: {self.layer.name!r} is not called when {self.thing.name!r} is.")
        return seen[0] if len(seen) == 1 else seen

    def run(self, inputs: Inputs, training: bool = False, again: bool = False) -> Outputs:
        """Return the outputs as arrays, keyed by name. With `again`, continue from the last call's random state."""
        if not again:
            self.restore()
        return {name: array(x) for name, x in leaves(self.call(inputs, training)).items()}

    def scores(self, inputs: Inputs) -> Outputs:
        """Return the attention scores of the innermost layers that can return scores, keyed by layer.

        Whenever such a layer is called, it is called a second time to get its scores.
        """
        examined = self.thing if self.layer is None else self.layer
        askable = [layer for layer in layers_of(examined) if SCORES in parameters_of(layer)]
        innermost = [
            x for x in askable if not any(other is not x and other in askable for other in x._flatten_layers())
        ]
        found: Outputs = {}
        problems: list[Exception] = []
        names = {id(each): name for name, each in paths(self.thing)}

        def ask(layer: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            given = inspect.signature(call).bind(*args, **kwargs)
            given.arguments[SCORES] = True
            try:
                _, *more = leaves(call(*given.args, **given.kwargs)).values()
            except Exception as error:
                problems.append(error)
            else:
                for x in more:
                    found[_free(names[id(layer)] or layer.name, found)] = array(x)
            return call(*args, **kwargs)

        self.restore()
        with wrapped(innermost, ask):
            self.call(inputs)
        if problems and not found:
            raise CannotTry(f"asked for its scores, the layer raised {type(problems[0]).__name__}: {problems[0]}")
        return found

    def with_other_padding(self, inputs: Inputs, rng: np.random.Generator) -> tuple[Outputs, int]:
        """Return the outputs with noise as the embedding of padding, and the number of embedding layers affected."""
        marked = [(x, slot.pad) for slot, x in inputs.pairs() if slot.pad is not None]
        count = 0

        def disturb(_: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            nonlocal count
            result, given = call(*args, **kwargs), array(args[0]) if args else None
            for x, pad in marked:
                if given is not None and np.array_equal(given, x):
                    count += 1
                    return _disturbed(result, (x == pad).reshape(*x.shape[:2], -1).all(axis=-1), rng)
            return result

        kinds = keras.layers.Embedding, keras.layers.Masking
        with wrapped([layer for layer in layers_of(self.thing) if isinstance(layer, kinds)], disturb):
            outputs = self.run(inputs)
        return outputs, count

    def gradients(self, inputs: Inputs, upstream: Outputs) -> list[np.ndarray]:
        """Return the gradient of Σ output · upstream for each weight, with zeros for weights without a gradient."""
        dtype = "float64" if "float64" in self.dtypes else "float32"

        def call(_: Any) -> tuple[Any]:
            outputs = leaves(Callee(self.thing).call(inputs))
            flat = [ops.reshape(ops.cast(outputs[name], dtype), (-1,)) for name in upstream]
            return (ops.concatenate(flat),)

        candidate = SimpleNamespace(
            layer=self.thing,
            weights=[SimpleNamespace(variable=variable) for variable in self.weights],
            arrays=list,
            call=call,
            loss=lambda outputs, upstream: ops.sum(ops.multiply(outputs[0], upstream)),
        )
        self.restore()
        flat = np.concatenate([x.reshape(-1) for x in upstream.values()]).astype(dtype)
        return backends.current().run(candidate, "eager", flat)[1]

    def _tensor(self, slot: Slot, given: np.ndarray, carried: np.ndarray | None) -> Any:
        if not is_keras(self.thing):
            return _as_of(slot.framework, given)
        tensor = ops.convert_to_tensor(given)
        if carried is not None:
            masking.carry(tensor, ops.convert_to_tensor(carried))
        return tensor


def leaves(result: Any, name: str = "output") -> dict[str, Any]:
    """Return the numeric arrays of a nested result, keyed by name."""
    if isinstance(result, Mapping):
        parts = [(f"{name}[{key!r}]", item) for key, item in result.items()]
    elif isinstance(result, list | tuple):
        parts = [(f"{name}[{number}]", item) for number, item in enumerate(result)]
    else:
        return {name: result} if hasattr(result, "shape") else {}
    return {path: x for part, item in parts for path, x in leaves(item, part).items()}


def array(x: Any) -> np.ndarray:
    """Convert any framework's tensor to an array."""
    if ops.is_tensor(x):
        return ops.convert_to_numpy(x)
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """Return `name`, followed by a number if `name` is taken."""
    number = 1
    while (result := name if number == 1 else f"{name} ({number})") in taken:
        number += 1
    return result


def _disturbed(x: Any, where: np.ndarray, rng: np.random.Generator) -> Any:
    """Return `x` (B, T, I) with noise where `where` (B, T) is True. The result carries the mask of `x`."""
    noise = 3 * rng.normal(size=tuple(x.shape)) * (float(np.std(array(x).astype("float64"))) or 1.0)
    where = where.reshape(*where.shape, *[1] * (len(x.shape) - 2))
    disturbed = ops.where(ops.convert_to_tensor(where), ops.cast(ops.convert_to_tensor(noise), x.dtype), x)
    if (mask := masking.carried(x)) is not None:
        masking.carry(disturbed, mask)
    return disturbed


def _as_of(framework: str, given: np.ndarray) -> Any:
    """Convert an array back to a tensor of the framework that the input came from."""
    if framework == "numpy":
        return given
    module = importlib.import_module({"jax": "jax.numpy"}.get(framework, framework))
    return getattr(module, {"tensorflow": "constant", "torch": "as_tensor", "jax": "asarray"}[framework])(given)
