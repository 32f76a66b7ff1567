"""The adapter of plain Python classes, whose weights are arrays of NumPy, TensorFlow, torch or JAX among attributes."""

import contextlib
import dataclasses
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.adapter import Adapter
from kmha.verify.diagnosing.calling import METHODS, CandidateError, random_names
from kmha.verify.diagnosing.copies import copied
from kmha.verify.diagnosing.weights import PACKS, Slot, Variable

# Names of arrays that a constructor computes, and that nobody trains.
CONSTANTS = re.compile(
    r"mask(?!ed)|tri[lu]|pos(?!e|t|s|ition_?wise)|(^|[._])pe([._]|$)|sin(?!gle|gul)|cos(?!t)|freq|angle|cache|grad|encoding|last_(in|out)put"
)
POSITIONS = re.compile("pos|encoding|embed")
DATA = ("data", "_data", "array")  # usual attributes for the array of a tensor
GRADIENT = re.compile(r"^d_?")
PACKAGES = (*frameworks.FRAMEWORKS, "jaxlib", "builtins", "functools")  # their objects hold no weights of a layer


@dataclasses.dataclass(frozen=True)
class Place:
    """A place that holds an array of weights, or something that contains one.

    Attributes:
        path: Names and indices that lead to the array, separated by dots.
        code: Python code that leads from a layer to the array, such as ".heads[0].kernel".
        holder: Object, list, dict or tuple that holds the array.
        key: Name, index or key of the array in `holder`.
        parent: Place of `holder`, or `None` for a layer itself.
    """

    path: str
    code: str
    holder: Any
    key: Any
    parent: "Place | None" = None

    def and_above(self) -> Iterator["Place"]:
        """Yield the place, and those that lead to it."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.parent

    def value(self) -> Any:
        """Return what the place holds."""
        holder = self._holder()
        if isinstance(holder, tuple):
            return tuple(holder)[self._index(holder)]
        return holder[self.key] if isinstance(holder, list | dict) else getattr(holder, self.key)

    def put(self, value: Any) -> None:
        """Set what the place holds. A tuple or a frozen dataclass is replaced by another one."""
        holder = self._holder()
        if self.parent is not None and isinstance(holder, tuple):
            items = [value if n == self._index(holder) else item for n, item in enumerate(holder)]
            self.parent.put(type(holder)(*items) if hasattr(holder, "_fields") else tuple(items))
        elif self.parent is not None and _is_frozen(holder):
            self.parent.put(dataclasses.replace(holder, **{self.key: value}))
        elif isinstance(holder, list | dict):
            holder[self.key] = value
        elif _refuses(holder):
            object.__setattr__(holder, self.key, value)
        else:
            setattr(holder, self.key, value)

    def statement(self, owner: str, array: str) -> str:
        """Return the line of code that sets the array of the object called `owner`."""
        holder = self._holder()
        if self.parent is None or not (isinstance(holder, tuple) or _is_frozen(holder)):
            if isinstance(holder, list | dict) or not _refuses(holder):
                return f"{owner}{self.code} = {array}"
            before = f"{owner}{self.parent.code}" if self.parent else owner
            return f"object.__setattr__({before}, {self.key!r}, {array})"
        before = f"{owner}{self.parent.code}"
        if _is_frozen(holder):
            return self.parent.statement(owner, f"dataclasses.replace({before}, {self.key}={array})")
        if hasattr(holder, "_fields"):
            return self.parent.statement(owner, f"{before}._replace({self.key}={array})")
        index = self._index(holder)
        return self.parent.statement(owner, f"(*{before}[:{index}], {array}, *{before}[{index + 1}:])")

    def _holder(self) -> Any:
        return self.holder if self.parent is None else self.parent.value()

    def _index(self, holder: Any) -> int:
        index: int = holder._fields.index(self.key) if hasattr(holder, "_fields") else self.key
        return index


class PlainAdapter(Adapter):
    """Adapter of a class that is no layer of a framework.

    Args:
        layer_class: Class whose instances are called.
    """

    def __init__(self, layer_class: type) -> None:
        self.method = _method(layer_class) or "__call__"
        self.framework = frameworks.likely_frameworks(getattr(layer_class, self.method))[0]
        self.calls_by_name = self.method != "__call__"
        self.dtype = "float64"
        self.places: dict[str, Place] = {}  # keyed by path
        self.is_lazy = False  # whether the weights are made by the first call
        self.results: frozenset[str] = frozenset()  # paths of arrays in which a call keeps results

    def supplied(self, found: Mapping[str, Any]) -> frozenset[str]:
        return random_names(found)

    def working_copy(self, layer: Any) -> Any:
        """Return a copy, because the diagnosis changes the weights' dtype.

        Raises:
            CandidateError: Something in the object cannot be copied.
        """
        try:
            return copied(layer)
        except Exception as error:  # untrusted code may raise anything
            name = type(layer).__name__
            raise CandidateError(f"{name}: the object cannot be copied ({error}). Give kmha its class.") from None

    def new(self, layer_class: Any, arguments: Mapping[str, Any], dtype: str) -> Any:
        layer = layer_class(**arguments, **self._random(layer_class.__init__))
        self._cast(layer, dtype)
        return layer

    def _random(self, function: Any) -> dict[str, Any]:
        """Return a source of random numbers for each argument without a default that takes one."""
        found = inspect.signature(function).parameters
        return {name: self._source() for name in random_names(found) if found[name].default is found[name].empty}

    def _source(self) -> Any:
        if self.framework != "jax":
            return np.random.default_rng(0)
        import jax

        return jax.random.PRNGKey(0)

    def _cast(self, layer: Any, dtype: str) -> None:
        """Convert all arrays of floating-point numbers to `dtype`. NumPy does so by itself."""
        self.dtype = dtype
        for place in places_of(layer, constants=True) if self.framework != "numpy" else ():
            place.put(self._tensor(place, frameworks.to_numpy(place.value())))

    def _tensor(self, place: Place, array: np.ndarray) -> Any:
        """Return an array as what the place holds: a tensor or a variable of the framework."""
        tensor = frameworks.to_tensor(array, self.framework, self.dtype)
        if not hasattr(place.value(), "assign"):
            return tensor
        import tensorflow as tf

        return tf.Variable(tensor)

    def build(self, layer: Any, arguments: Mapping[str, Any], dtype: str) -> None:
        """Convert the weights. If the constructor has made none, a first call makes them."""
        if self.is_lazy or next(places_of(layer), None) is None:
            with contextlib.suppress(Exception, SystemExit):  # untrusted code; a later call reports the error
                self._make_by_calls(layer, arguments)
        self._cast(layer, dtype)

    def _make_by_calls(self, layer: Any, arguments: Mapping[str, Any]) -> None:
        """Call a layer, the first of a class twice: arrays that then differ hold results, and are no weights."""
        self.call(layer, arguments, False)
        if self.is_lazy:
            return
        first = _arrays_of(layer)
        self.results = frozenset(first)
        self.call(layer, self._changed(dict(arguments)), False)
        second = _arrays_of(layer)
        kept = {path for path in second if path in first and np.array_equal(first[path], second[path])}
        self.is_lazy = any(np.unique(second[path]).size > 2 for path in kept)  # not just masks
        self.results = frozenset(second.keys() - kept if self.is_lazy else second)

    def _changed(self, value: Any) -> Any:
        """Return arguments with other numbers in their arrays: half of each, or other ids in the same range."""
        if isinstance(value, tuple | list):
            return type(value)(map(self._changed, value))
        if isinstance(value, dict):
            return {key: self._changed(each) for key, each in value.items()}
        if not hasattr(value, "dtype"):
            return value
        array = frameworks.to_numpy(value)
        if array.dtype.kind not in "fiu" or not array.size:
            return value
        array = array * 0.5 if array.dtype.kind == "f" else array.max() - array
        return frameworks.to_tensor(array, self.framework, array.dtype.name)

    def call(self, layer: Any, arguments: Mapping[str, Any], training: bool) -> Any:
        method = getattr(type(layer), self.method)
        if not inspect.isfunction(method):  # what is compiled keeps the variables of its first call
            return inspect.unwrap(method)(layer, **arguments)
        return getattr(layer, self.method)(**arguments)

    def weights_dtype(self, layer: Any) -> str:
        return next((str(frameworks.to_numpy(place.value()).dtype) for place in places_of(layer)), "float64")

    def variables(self, layer: Any) -> list[Variable]:
        self.places = {place.path: place for place in self._places(layer)}
        return [self._variable(place) for place in self.places.values()]

    def _places(self, layer: Any) -> Iterator[Place]:
        found = places_of(layer, constants=self.encodes)
        results = self.results | getattr(layer, "results", frozenset())
        return (each for each in found if each.path not in results and not (self.encodes and _is_computed(each)))

    def _variable(self, place: Place) -> Variable:
        whole = tuple(place.value().shape)
        is_row = whole[:-1] == (1,) and naming.weight(place.path)[1]  # a bias that is written as a row
        shape = whole[1:] if is_row else whole

        def assign(array: np.ndarray) -> None:
            place.put(self._tensor(place, np.reshape(array, whole).copy()))

        def read() -> np.ndarray:
            return frameworks.to_numpy(place.value()).reshape(shape)

        is_stack = len(shape) == 3 and shape[0] == len(PACKS["packed"])
        return Variable(place.path, shape, assign, read, transposed=None if len(shape) == 2 or is_stack else False)

    def parts(self, layer: Any) -> list[Any]:
        """Return what holds a layer's weights, and the objects inside the layer that lead there."""
        holders = (
            each.holder
            for place in self._places(layer)
            for each in place.and_above()
            if each is place or not isinstance(each.holder, list | dict | tuple)
        )
        return list({id(holder): holder for holder in holders if holder is not layer}.values())

    def script(self, made: str, call: str, slots: Sequence[Slot], weights: Sequence[str], dtype: str) -> list[str]:
        """Return lines that make an object with these weights."""
        first = [f"{call}  # makes the weights"] if self.is_lazy else []
        return [f"layer = {made}", *first, *self.statements("layer", slots, weights)]

    def statements(self, owner: str, slots: Sequence[Slot], weights: Sequence[str]) -> list[str]:
        """Return lines that set the weights of the object called `owner`."""
        pairs = zip(slots, weights, strict=True)
        return [self.places[slot.variable.path].statement(owner, self._code(array)) for slot, array in pairs]

    def _code(self, array: str) -> str:
        made = {"tensorflow": "tf.Variable({})", "torch": "torch.tensor({})", "jax": "jax.numpy.asarray({})"}
        return made.get(self.framework, "{}").format(array)


def is_plain(layer_class: type) -> bool:
    """Return whether a class is written in Python for a known framework without its layers, and can be called."""
    method = _method(layer_class)
    if method is None or "__init__" not in {name for each in layer_class.__mro__[:-1] for name in vars(each)}:
        return False
    if layer_class.__module__.split(".")[0] in PACKAGES:
        return False
    return frameworks.likely_frameworks(getattr(layer_class, method))[0] != "keras"


def is_plain_layer(thing: Any) -> bool:
    """Return whether an object has `call` or `forward`, or is called as a function is and holds one, or three matrices.

    An object that it holds may make its weights in its first call.
    """
    if _has_layer_method(thing):
        return True
    if isinstance(thing, type) or inspect.isroutine(thing) or not is_plain(type(thing)):
        return False
    if any(may_hold(value) and _has_layer_method(value) for value in _attributes(thing).values()):
        return True
    return is_weights(thing)


def is_weights(thing: Any) -> bool:
    """Return whether an object, dict or list holds at least three matrices."""
    matrices = (place for place in places_of(thing) if len(place.value().shape) > 1)
    return len([*itertools.islice(matrices, 3)]) == 3


def _has_layer_method(thing: Any) -> bool:
    return any(hasattr(thing, method) for method in ("call", "forward"))


def keeps_results(thing: Any) -> bool:
    """Return whether an object holds an array of three axes, as the results of its calls have."""
    return not isinstance(thing, type) and any(len(place.value().shape) > 2 for place in places_of(thing))


def _method(layer_class: type) -> str | None:
    return next((name for name in METHODS if _is_written(getattr(layer_class, name, None))), None)


def _is_written(method: Any) -> bool:
    """Return whether a method is a function, or one that TensorFlow compiles."""
    return inspect.isfunction(method) or inspect.isfunction(getattr(method, "__wrapped__", None))


def _arrays_of(layer: Any) -> dict[str, np.ndarray]:
    """Return copies of a layer's arrays, keyed by path."""
    return {place.path: frameworks.to_numpy(place.value()).copy() for place in places_of(layer)}


def _refuses(holder: Any) -> bool:
    """Return whether an object is of a class that raises an error when an attribute is set after its constructor."""
    attributes = _attributes(holder)
    if type(holder).__setattr__ is object.__setattr__ or not attributes:
        return False
    name, value = next(iter(attributes.items()))
    try:
        setattr(holder, name, value)
    except (AttributeError, TypeError):
        return True
    return False


def _is_frozen(holder: Any) -> bool:
    return bool(getattr(getattr(holder, "__dataclass_params__", None), "frozen", False))


def places_of(
    owner: Any, constants: bool = False, parent: Place | None = None, seen: set[int] | None = None
) -> Iterator[Place]:
    """Yield the places of all arrays of weights below an object, list, dict or tuple.

    Args:
        owner: What to search.
        constants: Whether to yield the places of arrays that nobody trains, too.
        parent: Place of `owner`.
        seen: Ids of what has been searched.
    """
    seen = set() if seen is None else seen
    if id(owner) in seen:
        return
    seen.add(id(owner))
    path, code = (parent.path, parent.code) if parent else ("", "")
    items = _items(owner)
    for key, value in items:
        is_name = not isinstance(owner, list | dict | tuple) or hasattr(owner, "_fields")
        name = f"{path}.{key}" if path else str(key)
        # The array of a package's own tensor has the tensor's name.
        in_tensor = parent and is_name and (key in DATA or hasattr(owner, "shape"))
        spelled = f"{code}.{key}" if is_name else f"{code}[{key!r}]"
        place = Place(path if in_tensor else name, spelled, owner, key, parent)
        if is_array(value) and not _is_own_tensor(value):
            if constants or not (CONSTANTS.search(name.lower()) or _is_gradient(key, value, dict(items))):
                yield place
        elif may_hold(value):
            yield from places_of(value, constants, place, seen)


def _is_computed(place: Place) -> bool:
    """Return whether a constructor computes an array: by its name, unless it is a table of positions at random.

    At the first position, sines are 0, and cosines are 1.
    """
    if not CONSTANTS.search(place.path.lower()):
        return False
    table = frameworks.to_numpy(place.value())
    table = table.reshape(table.shape[1:]) if table.ndim == 3 and len(table) == 1 else table
    if table.ndim != 2 or len(table) == 1 or not POSITIONS.search(place.path.lower()):
        return True
    return bool(np.all(np.isin(table[0], (0.0, 1.0))) and table[0].any())


def _is_gradient(key: Any, array: Any, siblings: Mapping[Any, Any]) -> bool:
    """Return whether an array is the gradient of what lies beside it, before a backward pass: zeros named `dW`."""
    of: Any = siblings.get(GRADIENT.sub("", str(key)))
    alike = of is not array and is_array(of) and tuple(of.shape) == tuple(array.shape)
    return alike and not np.any(frameworks.to_numpy(array))


def _items(owner: Any) -> list[tuple[Any, Any]]:
    """Return what an object, list, dict or tuple holds, each item with its name, index or key."""
    items: Iterable[tuple[Any, Any]] = () if isinstance(owner, type) else _attributes(owner).items()
    fields = getattr(owner, "_fields", None)
    if fields and isinstance(owner, tuple):
        items = zip(fields, owner, strict=True)
    elif isinstance(owner, list | tuple):
        items = enumerate(owner)
    elif isinstance(owner, dict):
        items = owner.items()
    return [(key, value) for key, value in items if not str(key).startswith("_self_")]  # TensorFlow's own lists


def _attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object, also of one whose class lists them in `__slots__`."""
    slots = [vars(each).get("__slots__", ()) for each in type(thing).__mro__]
    names = itertools.chain(*((each,) if isinstance(each, str) else each for each in slots))
    return {name: getattr(thing, name) for name in names if hasattr(thing, name)} | getattr(thing, "__dict__", {})


def is_array(value: Any) -> bool:
    """Return whether a value is an array of floating-point numbers of any framework."""
    if not (hasattr(value, "shape") and hasattr(value, "dtype")) or isinstance(value, np.generic | type):
        return False
    try:
        array = frameworks.to_numpy(value)
    except (AttributeError, TypeError, ValueError, RuntimeError, NotImplementedError):  # keys of random numbers, …
        return False
    return bool(array.dtype.kind == "f" and array.ndim)


def _is_own_tensor(value: Any) -> bool:
    """Return whether a value is an object of a package's own class that holds its array in an attribute."""
    return may_hold(value) and any(map(is_array, _attributes(value).values()))


def may_hold(value: Any) -> bool:
    """Return whether a value is a list, dict or tuple, or an object that is no framework's."""
    if isinstance(value, list | dict | tuple):
        return True
    home = str(getattr(type(value), "__module__", "")).split(".")[0]
    has_attributes = hasattr(value, "__dict__") or hasattr(type(value), "__slots__")
    return has_attributes and not inspect.isroutine(value) and home not in PACKAGES
