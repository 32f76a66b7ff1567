"""Adapters that create, build and call Keras layers and torch modules, and find their weights."""

import contextlib
import functools
import importlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.adapter import Adapter
from kmha.verify.diagnosing.attributes import walk
from kmha.verify.diagnosing.calling import METHODS, call_parameters, constructor, positional_only
from kmha.verify.diagnosing.copies import copied
from kmha.verify.diagnosing.jax_adapters import EquinoxAdapter, HaikuAdapter, LinenAdapter, NnxAdapter
from kmha.verify.diagnosing.plain_adapter import PlainAdapter, is_plain
from kmha.verify.diagnosing.reproduction import SEED
from kmha.verify.diagnosing.shared_variables import keep, with_shared
from kmha.verify.diagnosing.weights import Slot, Variable
from kmha.verify.diagnosing.with_parameters import FunctionAdapter, WithParameters

OWN = ("name", "dtype", "trainable")  # arguments of every Keras layer


class KerasAdapter(Adapter):
    """Adapter of a `keras.Layer`, or of a layer of an older Keras under another name."""

    framework = "keras"
    method = "call"
    half = True
    epsilon = 1e-3

    def __init__(self, package: str = "keras") -> None:
        self.package = package
        self.unused: weakref.WeakSet[Any] = weakref.WeakSet()  # sublayers that the call does not use

    def configured(self, layer: Any) -> dict[str, Any] | None:
        """Return the constructor's arguments of a layer that was never called, or `None` if it has its weights."""
        if layer.built or layer.weights:
            return None
        try:
            found = layer.get_config()
        except (NotImplementedError, TypeError, ValueError):  # its class does not say its arguments
            return None
        if "layers" in found:  # a model of other layers, of which the class alone does not make another
            return None
        known = constructor(type(layer))
        return {name: value for name, value in found.items() if name in known and name not in OWN}

    @functools.cached_property
    def keras(self) -> Any:
        """The package that has the layer's classes."""
        return importlib.import_module(self.package)

    def working_copy(self, layer: Any) -> Any:
        """Return the layer itself, because calls do not change it."""
        return layer

    @contextlib.contextmanager
    def _computing_in(self, dtype: str) -> Iterator[None]:
        """Set the global dtype policy, which applies to the sublayers that a constructor makes."""
        precision = self.keras.mixed_precision
        before = precision.global_policy()
        precision.set_global_policy(dtype)
        try:
            yield
        finally:
            precision.set_global_policy(before)

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        with self._computing_in(dtype):
            return layer_class(**arguments)

    def build(self, layer: Any, arguments: Mapping[str, Any], dtype: str) -> None:
        """Make the weights, by a first call."""
        if layer.built:  # it is the user's, and is left as it is
            with self._computing_in(dtype):
                self.call(layer, arguments, False)
            return
        shape = next((tuple(value.shape) for value in arguments.values() if hasattr(value, "shape")), None)
        with self._computing_in(dtype):
            with _built_by_calling(layer, shape):
                self.call(layer, arguments, False)
            for part in layer._flatten_layers(include_self=False):
                if isinstance(part, self._dense) and not part.built and shape:
                    part.build(shape)  # the call never uses this sublayer, which is a mistake, but it needs weights
                    self.unused.add(part)

    def call(self, layer: Any, arguments: Mapping[str, Any], training: bool) -> Any:
        """Call the layer. Keras passes `training` on to sublayers even if the layer's own call has no such argument."""
        arguments = dict(arguments)
        first = [arguments.pop(name) for name in list(arguments)[:1] if isinstance(arguments[name], list | dict)]
        if self.method == "call" or "training" in call_parameters(layer, self.method):
            arguments = {"training": training, **arguments}
        return self.entry(layer)(*first, **arguments)

    def variables(self, layer: Any) -> list[Variable]:
        """Return the variables, named by attribute path, because Keras itself calls a sublayer `wq` just `dense_4`."""
        variable_type = getattr(self.keras, "Variable", None) or importlib.import_module("tensorflow").Variable
        paths = {id(variable): path for path, variable in walk(layer, self.base, variable_type)}
        unused = {id(variable) for part in self.parts(layer) if part in self.unused for variable in part.weights}
        found = [
            Variable(
                paths.get(id(variable)) or getattr(variable, "path", variable.name),
                tuple(variable.shape),
                variable.assign,
                functools.partial(_value, variable),
                used=id(variable) not in unused,
                frozen=not variable.trainable,
            )
            for variable in layer.weights
        ]
        return with_shared(layer, [*found, *self._never_made(layer)])

    def is_weightless(self, layer: Any) -> bool:
        return bool(layer.built) and not self.variables(layer)

    def has_weights(self, layer: Any) -> bool:
        return bool(layer.weights) or not (layer.built or type(layer).build is self.base.build)

    @property
    def base(self) -> Any:
        return self.keras.layers.Layer

    @functools.cached_property
    def _dense(self) -> Any:
        """The classes of projections."""
        layers = self.keras.layers
        return tuple(getattr(layers, name) for name in ("Dense", "EinsumDense") if hasattr(layers, name))

    def _never_made(self, layer: Any) -> Iterator[Variable]:
        """Yield the weights of each projection that a built layer never calls, in the shapes of one that it calls."""
        parts = list(walk(layer, self.base, self._dense))
        for path, part in parts:
            alike = [other for _, other in parts if other.built and _settings(other) == _settings(part)]
            for variable in () if part.built or not alike else alike[0].weights:
                array = np.random.default_rng(SEED).normal(size=tuple(variable.shape))
                kind = variable.name.rpartition("/")[2].partition(":")[0]
                yield Variable(f"{path}.{kind}", array.shape, keep, functools.partial(np.array, array), used=False)

    def parts(self, layer: Any) -> list[Any]:
        """Return the sublayers of a layer."""
        return list(layer._flatten_layers(include_self=False))

    def _policy(self, dtype: str) -> list[str]:
        """Return lines that set the dtype policy."""
        imported = [] if self.package == "keras" else [f"import {self.package}"]
        return [*imported, f"{self.package}.mixed_precision.set_global_policy({dtype!r})"]

    def seeded(self, made: str, call: str, dtype: str) -> list[str]:
        """Return lines that make a layer with weights drawn by seed."""
        return [
            *self._policy(dtype),
            f"layer = {made}",
            f"{call}  # makes the weights",
            f"rng = np.random.default_rng({SEED})",
            "for variable in layer.weights:",
            "    variable.assign(rng.normal(size=variable.shape).round(2))",
        ]

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make a layer with these weights."""
        arrays = [f"    {array},  # {slot.variable.path}" for slot, array in zip(slots, weights, strict=True)]
        return [
            *self._policy(dtype),
            f"layer = {made}",
            f"{call}  # makes the weights",
            "weights = [",
            *arrays,
            "]",
            "for variable, array in zip(layer.weights, weights):",
            "    variable.assign(array)",
        ]


class TorchAdapter(Adapter):
    """Adapter of a `torch.nn.Module`.

    Attributes:
        unregistered: Names of plain lists of modules, whose weights torch does not know.
        made_as: How a script makes a module in a dtype: the lines before it, and the call after its constructor.
    """

    framework = "torch"
    method = "forward"

    def __init__(self) -> None:
        self.unregistered: set[str] = set()
        self.made_as: tuple[list[str], str] = [], ".to(torch.{})"

    def working_copy(self, layer: Any) -> Any:
        """Return a copy, because the diagnosis changes the module's dtype and mode."""
        return self._with_registered(copied(layer))

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        return self._converted(self._with_registered(layer_class(**arguments)), dtype)

    def _converted(self, layer: Any, dtype: str) -> Any:
        """Return a module with numbers of a dtype. Complex buffers stay, of which torch would keep the real part."""
        if frameworks.has_complex_buffers(layer):
            self.made_as = ["torch.set_default_dtype(torch.{})"], ""
        return frameworks.converted(layer, dtype)

    def _with_registered(self, layer: Any) -> Any:
        """Replace each plain list of modules that are nowhere else, so that their weights can be set.

        A list of one module is a customary way to refer to a module that belongs elsewhere.
        """
        from torch import nn

        known = {*layer.modules()}
        for part in known:
            for name, value in [*vars(part).items()]:
                several = type(value) in (list, tuple) and len(value) > (name not in self.unregistered)
                if several and all(isinstance(each, nn.Module) and each not in known for each in value):
                    setattr(part, name, nn.ModuleList(value))
                    self.unregistered.add(name)
        return layer

    def build(self, layer: Any, arguments: Mapping[str, Any], dtype: str) -> None:
        """Make the weights of lazy modules, by a first call."""
        self._converted(layer, dtype)
        self.call(layer, arguments, False)
        self._converted(layer, dtype)

    def call(self, layer: Any, arguments: Mapping[str, Any], training: bool) -> Any:
        import torch

        layer.train(training)
        compiled = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # torch's compiled blocks ignore the methods of a subclass
        named = dict(arguments)
        first = [named.pop(name) for name in positional_only(call_parameters(layer, self.method)) if name in named]
        try:
            with torch.no_grad():
                return self.entry(layer)(*first, **named)
        finally:
            torch.backends.mha.set_fastpath_enabled(compiled)

    def variables(self, layer: Any) -> list[Variable]:
        # The `weight` of torch's own layers is (out, in). Other parameters may be (out, in) or (in, out), also those in
        # a `ParameterDict` or `ParameterList`.
        homes = {name: type(part).__module__ for name, part in layer.named_modules()}
        own = {name for name, home in homes.items() if home.startswith("torch.nn") and not home.endswith(".container")}
        found = [
            Variable(
                name,
                tuple(parameter.shape),
                functools.partial(_copy, parameter),
                functools.partial(frameworks.to_numpy, parameter),
                True if name.rpartition(".")[0] in own or name.endswith("_proj_weight") else None,
                frozen=not parameter.requires_grad,
            )
            for name, parameter in layer.named_parameters()
        ]
        return with_shared(layer, found)

    def is_weightless(self, layer: Any) -> bool:
        return not self.variables(layer)

    def weights_dtype(self, layer: Any) -> str:
        found = (parameter.dtype for parameter in layer.parameters() if parameter.is_floating_point())
        name = str(next(found, "float64")).removeprefix("torch.")
        return name if name != "bfloat16" else "float32"  # NumPy has no bfloat16

    def has_weights(self, layer: Any) -> bool:
        return next(layer.parameters(), None) is not None

    @property
    def base(self) -> type:
        return importlib.import_module("torch").nn.Module

    def parts(self, layer: Any) -> list[Any]:
        """Return the submodules of a module."""
        return list(layer.modules())[1:]

    def seeded(self, made: str, call: str, dtype: str) -> list[str]:
        """Return lines that make a module with weights drawn by seed."""
        return [
            *self._made(made, dtype),
            f"{call}  # makes the weights of lazy modules",
            f"rng = np.random.default_rng({SEED})",
            "for parameter in layer.parameters():",
            "    parameter.data.copy_(torch.tensor(rng.normal(size=parameter.shape).round(2)))",
        ]

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make a module with these weights."""
        given = [(slot.variable.path, f"torch.tensor({array})") for slot, array in zip(slots, weights, strict=True)]
        arrays = ",\n    ".join(f"{path!r}: {array}" for path, array in given)
        loaded = [f"layer.load_state_dict({{\n    {arrays},\n}}, strict=False)"] if arrays else []
        return [*self._made(made, dtype), f"{call}  # makes the weights of lazy modules", *loaded]

    def _made(self, made: str, dtype: str) -> list[str]:
        before, after = self.made_as
        return [*(line.format(dtype) for line in before), f"layer = {made}{after.format(dtype)}.eval()"]


def _settings(layer: Any) -> dict[str, Any]:
    """Return the configuration of a Keras layer without its name and the record of how it was built."""
    return {name: value for name, value in layer.get_config().items() if name not in ("name", "build_config")}


def _value(variable: Any) -> np.ndarray:
    return frameworks.to_numpy(variable.value() if callable(variable.value) else variable.value)


def _dtype(name: str) -> Any:
    return getattr(importlib.import_module("torch"), name)


def _copy(parameter: Any, array: np.ndarray) -> None:
    import torch

    with torch.no_grad():
        parameter.copy_(torch.tensor(np.ascontiguousarray(array)))


def oriented(
    variables: Sequence[Variable], adapter: Any, layer_class: Any, arguments: Mapping[str, Any], name: str, dtype: str
) -> list[Variable]:
    """Return the variables of a layer, with the orientation of square matrices found by building a second layer.

    The second layer has one more input feature. `name` is the constructor's argument for the number of input features.
    """
    if all(each.transposed is not None for each in variables):
        return list(variables)
    try:
        other = adapter.new(layer_class, {**arguments, name: arguments[name] + 1}, dtype)
    except (Exception, SystemExit):  # untrusted code may raise anything
        return list(variables)
    shapes = {each.path: each.shape for each in adapter.variables(other)}
    return [each.oriented_like(shapes.get(each.path, each.shape)) for each in variables]


def adapter_of(layer_class: type) -> Any:
    """Return the adapter that matches the base classes of a class.

    Raises:
        ValueError: The class is not a layer or module of a known framework.
    """
    if issubclass(layer_class, WithParameters):
        return FunctionAdapter(layer_class)
    homes = [parent.__module__ for parent in layer_class.__mro__]
    for package, adapter in ADAPTERS.items():
        if any(f"{home}.".startswith(f"{package}.") for home in homes):
            found = adapter()
            if not issubclass(layer_class, found.base):  # such as `torch.amp.autocast`
                continue
            if not _has_own(layer_class, found.method, package):
                # The class replaces the framework's own way of calling, or has another one.
                own = [name for name in ("__call__", *METHODS) if _has_own(layer_class, name, package)]
                found.method, found.calls_by_name = (*own, found.method)[0], bool(own) and own[0] != "__call__"
            return found
    if is_plain(layer_class):
        return PlainAdapter(layer_class)
    raise ValueError(
        f"{layer_class.__name__} is neither a keras.Layer nor a torch.nn.Module, nor a module of flax, Haiku or "
        "Equinox, nor a class with arrays as weights that can be called. Give a function that calls it."
    )


def _has_own(layer_class: type, method: str, package: str) -> bool:
    """Return whether a class gets a method from code outside of the package of its framework."""
    home = next((parent.__module__ for parent in layer_class.__mro__ if method in vars(parent)), package)
    return not f"{home}.".startswith(f"{package}.")


def is_layer(thing: Any) -> bool:
    """Return whether an object is a layer or module of a known framework."""
    try:
        is_tensor = all(hasattr(thing, name) for name in ("shape", "dtype", "ndim"))
        return not (is_tensor or isinstance(adapter_of(type(thing)), PlainAdapter))
    except ValueError:
        return False


ADAPTERS: dict[str, Callable[[], Any]] = {  # keyed by the package of a base class
    "keras": KerasAdapter,
    "tf_keras": functools.partial(KerasAdapter, "tf_keras"),  # Keras 2
    "keras_core": functools.partial(KerasAdapter, "keras_core"),  # Keras 3 before it was called so
    "torch": TorchAdapter,
    "flax.linen": LinenAdapter,
    "flax.nnx": NnxAdapter,
    "haiku": HaikuAdapter,
    "equinox": EquinoxAdapter,
}


@contextlib.contextmanager
def _built_by_calling(layer: Any, shape: Any) -> Iterator[None]:
    """Let the first call of a Keras layer make the weights of its sublayers.

    If a layer has no `build` of its own, Keras first traces its call for that, which takes longer than the call.
    """
    parts = [each for each in layer._flatten_layers() if not each.built and getattr(each.build, "_is_default", False)]
    for part in parts:
        part.built = True
    try:
        yield
    except BaseException:
        for part in parts:
            part.built = False
        raise
    for part in reversed(parts):  # the inner ones first
        part.built = False
        if part is layer or all(each.built for each in part._flatten_layers(include_self=False)):
            part.build(shape)  # from now on, its weights are complete
