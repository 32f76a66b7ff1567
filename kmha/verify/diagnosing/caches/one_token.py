"""A class that takes one position in each call, without an axis of positions, as a class that takes a sequence.

Code of lectures and notebooks often decodes with `step(x, pos)` or `push(x)`, of one vector, and keeps the keys and
values itself, or returns them: `y, K, V = layer(x, K, V)`. Position after position, this is causal attention.
"""

import contextlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.caches import arrays, stepwise, words
from kmha.verify.diagnosing.caches.calls import Callee
from kmha.verify.diagnosing.calling import METHODS, Parameters, constructor, parameters
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.copies import copied
from kmha.verify.diagnosing.layer_adapters import adapter_of
from kmha.verify.diagnosing.plain_adapter import PACKAGES, PlainAdapter, places_of
from kmha.verify.diagnosing.with_parameters import class_around

STEP = re.compile(
    "^((decode|forward|attend|run|next|one)_?)?step$|^(decode|forward|attend|next|one)_?(one|token)$|^push$"
)
HELD = "layer"  # attribute of the class that is made, which holds an object of the candidate's class
INPUTS = ("self", "query", "heads", None)  # roles of an input, of which `h` may be the name
CACHES = ("cache", "key_cache", "value_cache")
# Shapes of one position (B, I), the likeliest first. Of a single item, the axis of items may be missing.
FORMS: dict[str, Callable[[Any], Any]] = {
    "(I,)": lambda x: x[0],
    "(B, I)": lambda x: x,
    "(B, 1, I)": lambda x: x[:, None],
}


def as_sequence(thing: Any) -> Any | None:
    """Return a class, or a layer for an object, that takes a sequence (B, T, I) and calls `thing` with each position.

    `None` if nothing tells that a call takes one position.
    """
    kind = thing if isinstance(thing, type) else type(thing)
    method = "" if kind.__module__.split(".")[0] in PACKAGES else _method(kind)
    base = _base(kind) if method else None
    if base is None or (method in METHODS and not _is_of_one_position(thing)):
        return None
    is_class = isinstance(thing, type)

    def construct(self: Any, **given: Any) -> None:
        base.__init__(self)
        setattr(self, HELD, thing(**given) if is_class else thing)
        self.results = frozenset(f"{HELD}.{path}" for path in _changed(getattr(self, HELD), method))

    def call(self: Any, x: Any) -> Any:
        return _whole(getattr(self, HELD), method, x)

    inputs = {"x": inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY)}
    name = "__call__" if base is object else adapter_of(base).method
    body = {"__init__": construct, name: call, "counts": _counts(kind, method)}
    made = class_around(kind, base, constructor(kind) if is_class else {}, inputs, body)
    call.__wrapped__ = getattr(kind, method)  # type: ignore[attr-defined] # the code to read
    return made if is_class else made()


def _is_of_one_position(thing: Any) -> bool:
    """Return whether a call takes inputs (B, I), and none (B, T, I): most layers with a cache take a sequence."""
    with contextlib.suppress(Exception, SystemExit), quietly():  # untrusted code may raise anything
        callee = Callee(thing, {}, "float64")
        name = next(iter(callee.found))

        def runs(shape: tuple[int, ...]) -> bool:
            callee.reset()
            with contextlib.suppress(Exception, SystemExit):
                output = arrays.output_of(callee.call({name: np.ones(shape)}))
                return tuple(output.shape)[:-1] == shape[:-1]
            return False

        widths = callee.sizes("width")
        return not any(runs((2, 3, width)) for width in widths) and any(runs((2, width)) for width in widths)
    return False


def _counts(kind: type, method: str) -> bool:
    """Return whether kmha passes all arguments, so that the code knows the index of a position, or counts itself."""
    names = [*parameters(getattr(kind, method), skip=1)][1:]
    return all(words.role(name) in ("index", *CACHES) for name in names)


def _base(kind: type) -> Any:
    """Return the class of layers that a class belongs to, or `object`, or `None` if its layers cannot be wrapped."""
    try:
        adapter = adapter_of(kind)
    except ValueError:
        return object
    return adapter.base if isinstance(adapter, PlainAdapter) or adapter.framework in ("torch", "keras") else None


def _method(kind: type) -> str:
    """Return the method that takes one position: one for a step, if no other is called, or a call that takes caches."""
    own = [name for each in kind.__mro__ if each.__module__.split(".")[0] not in PACKAGES for name in vars(each)]
    called = next((name for name in METHODS if name in own), "")
    likely = [called] if called else [name for name in own if STEP.search(name)]
    return next((name for name in likely if _takes_one(parameters(getattr(kind, name), skip=1), bool(called))), "")


def _takes_one(found: Parameters, caches: bool) -> bool:
    """Return whether arguments are an input, and perhaps an index, and caches that need not be given."""
    names = [*found]
    needed = [name for name in names if found[name].default is inspect.Parameter.empty]
    given = [found[name].default for name in names if words.role(name) in CACHES]
    is_input = needed[:1] == names[:1] != [] and naming.argument(names[0]) in INPUTS
    rest = all(words.role(name) == "index" for name in needed[1:])
    return is_input and rest and bool(given) == caches and all(default is None for default in given)


def _stepper(layer: Any, method: str) -> Callable[[Any, int], Any]:
    """Return a function of one position and its index that calls an object, and passes on the caches it returns."""
    step = getattr(layer, method)
    first, *rest = inspect.signature(step).parameters
    index = [name for name in rest if words.role(name) == "index"][:1]
    caches = [name for name in rest if words.role(name) in CACHES][:2]
    kept: list[Any] = [None] * len(caches)

    def call(x: Any, position: int) -> Any:
        result = step(**{first: x}, **dict.fromkeys(index, position), **dict(zip(caches, kept, strict=True)))
        if caches:
            new = arrays.cache_of(result, kept[0] if len(caches) == 1 else tuple(kept), len(caches))
            kept[:] = new if len(caches) == 2 else [new]
        return arrays.output_of(result)

    return call


def _changed(layer: Any, method: str) -> list[str]:
    """Return the paths of the arrays that a call changes, which are no weights."""
    before = {each.path: np.array(frameworks.to_numpy(each.value())) for each in places_of(layer)}
    framework = frameworks.likely_frameworks(getattr(type(layer), method))[0]
    for width in dict.fromkeys(number for array in before.values() for number in array.shape[::-1]):
        for form in FORMS.values():
            with contextlib.suppress(Exception, SystemExit), quietly():  # untrusted code may raise anything
                other = copied(layer)
                x = frameworks.to_tensor(np.ones((1, width)), framework, "float64")
                _stepper(other, method)(form(x), 0)
                after = {each.path: frameworks.to_numpy(each.value()) for each in places_of(other)}
                return [path for path in after if path not in before or not np.array_equal(before[path], after[path])]
    return []


def _whole(layer: Any, method: str, x: Any) -> Any:
    """Return the outputs (B, T, E) for a sequence (B, T, I), in the first form of a position that a call takes.

    Raises:
        Exception: What a call raises with the likeliest form, if none works.
    """
    errors: list[Exception] = []
    for form in FORMS:
        try:
            with quietly():
                items = [x[item : item + 1] for item in range(x.shape[0])] if form == "(I,)" else [x]
                parts = [_run(copied(layer), method, part, FORMS[form]) for part in items]
                return stepwise.joined(parts, 0)
        except Exception as error:  # untrusted code may raise anything
            errors.append(error)
    raise errors[0]


def _run(layer: Any, method: str, x: Any, form: Callable[[Any], Any]) -> Any:
    step, outputs = _stepper(layer, method), []
    for position in range(x.shape[1]):
        given = form(x[:, position])
        output = step(given, position)
        if len(output.shape) != len(given.shape) or tuple(output.shape)[:-1] != tuple(given.shape)[:-1]:
            raise ValueError(f"expected an output for inputs {tuple(given.shape)}. Received: {tuple(output.shape)}.")
        outputs.append(output.reshape(x.shape[0], 1, output.shape[-1]))
    return stepwise.joined(outputs, 1)
