"""A function that makes its layers, as a class of its framework.

In Keras' functional style, `encoder(inputs, num_heads, ff_dim)` makes layers and applies them to `inputs`, which is
symbolic. In Haiku, such a function runs inside `hk.transform`. Called twice, it makes new weights. So kmha wraps it in
a class: the settings are arguments of the constructor, the inputs are those of the call, and weights are made once.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import EMPTY, Parameters, parameters
from kmha.verify.diagnosing.with_parameters import SETTINGS, class_around

FLAGS = ("training", "deterministic", "causal")
MODEL = re.compile(r"\b(Model|Sequential)\(")  # code that makes a model of Keras
INPUT = inspect.Parameter("inputs", inspect.Parameter.KEYWORD_ONLY)


def as_layer(function: Any) -> type | None:
    """Return a class of Keras or Haiku that wraps a function, or `None` unless the function makes layers."""
    plain = inspect.unwrap(function)
    package = _package(plain) if inspect.isfunction(plain) else ""
    if not package:
        return None
    found = parameters(function)
    roles = {name: role for role, name in naming.roles_of(found).items()}
    settings = {n: each for n, each in found.items() if _is_setting(each, roles.get(n, ""))}
    inputs = {n: each for n, each in found.items() if n not in settings}
    if not inputs:  # it returns layers
        return _of_model(package, function, settings) if package != "haiku" and MODEL.search(_code_of(plain)) else None
    return _haiku(function, settings, inputs) if package == "haiku" else _keras(package, function, settings, inputs)


def _package(function: Callable[..., Any]) -> str:
    """Return the package whose layers with weights the code of a function makes, or "" if it makes none."""
    for each in frameworks.with_helpers([function]):
        for name, value in frameworks.named_in(each).items():
            for made in _called(each, name, value):
                if package := _package_of(made):
                    return package
    return ""


def _called(function: Any, name: str, value: Any) -> list[Any]:
    """Return the class with this name, or what the code calls as attributes of the module with this name."""
    if not inspect.ismodule(value):
        return [value]
    used = re.findall(rf"\b{re.escape(name)}((?:\.\w+)+)\(", frameworks.source_of(function))
    return [_at(value, path[1:].split(".")) for path in used]


def _at(found: Any, names: Sequence[str]) -> Any:
    for name in names:
        found = getattr(found, name, None)
    return found


def _package_of(made: Any) -> str:
    """Return the package of a class of layers, or "" for other objects and for layers that never have weights.

    >>> import keras
    >>> _package_of(keras.layers.Dense), _package_of(keras.layers.Softmax), _package_of(keras.layers.Add)
    ('keras', '', '')
    """
    mro: tuple[Any, ...] = made.__mro__ if isinstance(made, type) else ()
    parents = {f"{each.__module__}.{each.__name__}": each for each in mro}
    for name in ("keras.src.layers.layer.Layer", "tf_keras.src.engine.base_layer.Layer", "haiku._src.module.Module"):
        if name in parents:
            package = name.partition(".")[0]
            plain = package != "haiku" and mro[0].build is parents[name].build
            merges = any(each.endswith(("base_merge.Merge", "base_merge._Merge")) for each in parents)
            return "" if plain or merges else package
    return ""


def _is_setting(parameter: inspect.Parameter, role: str) -> bool:
    """Return whether an argument is a setting: by its role, or because it is a number, a text or a class by default."""
    default = parameter.default
    known = role in (*SETTINGS, "dropout", "use_bias", "activation", "norm_first", "length", "vocabulary", "depth")
    is_plain = default is not EMPTY and isinstance(default, bool | int | float | str | type)  # EMPTY is a class, too
    return known or (role not in FLAGS and is_plain)


def _haiku(function: Any, settings: Parameters, inputs: Parameters) -> Any:
    import haiku as hk

    def construct(self: Any, **arguments: Any) -> None:
        hk.Module.__init__(self)
        self.settings = arguments

    def call(self: Any, **arguments: Any) -> Any:
        return function(**arguments, **self.settings)

    body = {"__init__": construct, "__call__": call, "makes_layers": True}
    return class_around(function, hk.Module, settings, inputs, body)


def _code_of(function: Any) -> str:
    return "".join(frameworks.source_of(each) for each in frameworks.with_helpers([function]))


def _of_model(package: str, function: Any, settings: Parameters) -> Any:
    """Return the class of a function that makes a model, as in `build_model(vocab_size, num_heads)`."""
    layer = importlib.import_module(package).layers.Layer

    def construct(self: Any, **arguments: Any) -> None:
        layer.__init__(self)
        self.model = function(**arguments)
        if not isinstance(self.model, layer):
            raise TypeError(f"expected a model of Keras. Received: {self.model!r}.")

    def call(self: Any, inputs: Any, training: Any = None) -> Any:
        return self.model(inputs, training=training)

    training = inspect.Parameter("training", inspect.Parameter.KEYWORD_ONLY, default=None)
    body = {"__init__": construct, "call": call, "makes_layers": True}
    return class_around(function, layer, settings, {"inputs": INPUT, "training": training}, body)


class Models:
    """Models of one function, for inputs of several shapes. Keras does not track what this object holds."""

    def __init__(self) -> None:
        self.by_key: dict[Any, Any] = {}


def _keras(package: str, function: Any, settings: Parameters, inputs: Parameters) -> Any:
    keras = importlib.import_module(package)
    layer, precision = keras.layers.Layer, keras.mixed_precision

    def construct(self: Any, **arguments: Any) -> None:
        layer.__init__(self)
        self.settings, self.model, self.models = arguments, None, Models()
        self.policy = precision.global_policy()

    def made(self: Any, arguments: Mapping[str, Any]) -> Any:
        """Return the model for inputs of these shapes, because some functions read the number of positions."""
        arrays = {n: each for n, each in arguments.items() if n in inputs and hasattr(each, "shape")}
        rest = {n: each for n, each in arguments.items() if n in inputs and n not in arrays}
        key = (*((n, *each.shape[1:]) for n, each in arrays.items()), *rest.items())
        if key not in self.models.by_key:
            symbols = {n: keras.Input(tuple(each.shape)[1:], dtype=each.dtype, name=n) for n, each in arrays.items()}
            before = precision.global_policy()
            precision.set_global_policy(self.policy)  # of the layers that the function makes
            try:
                self.models.by_key[key] = keras.Model(symbols, function(**symbols, **rest, **self.settings))
            finally:
                precision.set_global_policy(before)
        return self.models.by_key[key]

    def start(self: Any, *args: Any, **arguments: Any) -> Any:
        if self.model is None:  # its layers must exist before Keras builds this one
            self.model = made(self, arguments)
        return layer.__call__(self, *args, **arguments)

    def call(self: Any, **arguments: Any) -> Any:
        model = made(self, arguments)
        if model is not self.model:
            model.set_weights(self.model.get_weights())
        arrays = {n: each for n, each in arguments.items() if hasattr(each, "shape")}
        return model(arrays, training=arguments.get("training"))

    # Keras passes `training` on to the layers inside only if the call takes it.
    training = inspect.Parameter("training", inspect.Parameter.KEYWORD_ONLY, default=None)
    body = {"__init__": construct, "__call__": start, "call": call, "makes_layers": True}
    return class_around(function, layer, settings, {"training": training} | inputs, body)
