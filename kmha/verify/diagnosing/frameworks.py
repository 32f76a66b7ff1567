"""Recognise the framework of a function, and convert NumPy arrays to the framework's tensors and back.

A framework is imported only when it is needed.
"""

import ast
import contextlib
import dis
import functools
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

OUTPUTS = ("output", "outputs", "out", "context", "attention_output", "hidden_states")  # keys of a dict
FRAMEWORKS = ("numpy", "tensorflow", "torch", "jax", "keras")


def likely_frameworks(thing: Any) -> tuple[str, ...]:
    """Return the frameworks to try. There are several only if a function uses nothing but its arrays' methods."""
    for parent in thing.__mro__ if isinstance(thing, type) else (thing,):
        root = str(getattr(parent, "__module__", "")).split(".")[0]
        if root in FRAMEWORKS:
            return (root,)
    function = function_of(thing)
    used = _imports(function, set())
    if not used & {*FRAMEWORKS} and hasattr(function, "__code__"):  # perhaps it calls a function of another module
        called = [each for each in named_in(function).values() if inspect.isfunction(each)]
        used = {name for each in called if not each.__module__.startswith("einops") for name in _imports(each, set())}
    if used & {*FRAMEWORKS}:
        return (_first(used),)
    around = {value.__name__ for value in getattr(function, "__globals__", {}).values() if inspect.ismodule(value)}
    return tuple(dict.fromkeys((_first(around), "numpy")))


def _first(names: set[str]) -> str:
    """Return the framework of the code. NumPy occurs beside any framework, and Keras beside its backend."""
    return next((name for name in ("torch", "jax", "tensorflow", "keras") if name in names), "numpy")


def function_of(thing: Any) -> Any:
    """Return the function that contains the code of a partial function or a callable object."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    thing = inspect.unwrap(thing)
    return type(thing).__call__ if callable(thing) and not hasattr(thing, "__code__") else thing


def _imports(function: Any, seen: set[int]) -> set[str]:
    """Return the top-level names of the modules that the names in a function's code refer to."""
    if not hasattr(function, "__code__") or id(function) in seen:
        return set()
    seen.add(id(function))
    found = names_in(function.__code__) & {*FRAMEWORKS} - {"numpy"}  # imported inside the function
    for value in named_in(function).values():
        home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or ""
        found.add(str(home).split(".")[0])
        # The object of a class that the package derives from one of a framework.
        found |= {each.__module__.split(".")[0] for each in type(value).__mro__} & {*FRAMEWORKS}
    for helper in _helpers(function):
        found |= _imports(helper, seen)
    return found


def _helpers(function: Any) -> list[Any]:
    """Return the functions of the same module that a function's code names."""
    named = named_in(function).values() if hasattr(function, "__code__") else ()
    return [each for each in named if inspect.isfunction(each) and each.__module__ == function.__module__]


def with_helpers(functions: Iterable[Any]) -> list[Any]:
    """Return functions, and the functions of their module that they call."""
    waiting, found = [inspect.unwrap(each) for each in functions], {}
    while waiting:
        each = waiting.pop(0)
        if id(each) not in found:
            found[id(each)] = each
            waiting += _helpers(each)
    return [*found.values()]


def is_own(kind: type) -> bool:
    """Return whether a class is not a framework's own."""
    return kind.__module__.split(".")[0] not in ("torch", "keras", "flax", "haiku", "equinox", "jax")


def numbers_read(kinds: Iterable[type]) -> dict[str, int]:
    """Return the whole numbers outside of classes that their code reads, keyed by name.

    They are variables of the module or of a function around the class, class attributes, and fields of an object there,
    such as `config.n_head` and `CONFIG["n_head"]`. Classes of the same module that the code names are read, too.
    """
    found: dict[str, Any] = {}
    waiting, seen = [*kinds], set()
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.add(kind)
        functions = [each for each in vars(kind).values() if inspect.isfunction(each)]
        for each in with_helpers(functions):
            named = {**vars(kind), **named_in(each)}
            waiting += [
                value for value in named.values() if isinstance(value, type) and value.__module__ == kind.__module__
            ]
            texts = texts_of(each.__code__)
            fields = [item for value in named.values() for item in _fields(value).items()]
            found |= {**named, **{name: value for name, value in fields if name in texts}}
    return {name: value for name, value in found.items() if type(value) is int}


def _fields(value: Any) -> Mapping[str, Any]:
    """Return the fields of a configuration: of a dict, a class, or an object without arrays."""
    if isinstance(value, dict):
        return {name: field for name, field in value.items() if isinstance(name, str)}
    if inspect.ismodule(value) or inspect.isroutine(value) or hasattr(value, "shape"):
        return {}
    return getattr(value, "__dict__", {})


def names_in(code: Any) -> set[str]:
    """Return the names of variables and attributes in code, and in the code inside it."""
    return {name for each in _with_inner(code) for name in each.co_names}


def texts_of(code: Any) -> set[str]:
    """Return the names in code and its texts, with which it reads dicts."""
    constants = [constant for each in _with_inner(code) for constant in each.co_consts]
    items = [item for each in constants for item in (each if isinstance(each, tuple) else (each,))]
    return names_in(code) | {item for item in items if isinstance(item, str)}


def _with_inner(code: Any) -> Iterator[Any]:
    """Yield a code object and the code objects inside it."""
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _with_inner(constant)


def named_in(function: Any) -> dict[str, Any]:
    """Return the values that the names in a function's code have in its module and in the functions around it."""
    scope = function.__globals__
    return {name: scope[name] for name in _globals_in(function.__code__) if name in scope} | around(function)


@functools.lru_cache
def _globals_in(code: Any) -> tuple[str, ...]:
    """Return the names of global variables in code, and in the code inside it, without names of attributes."""
    read = (each for inner in _with_inner(code) for each in dis.get_instructions(inner))
    return tuple(sorted({each.argval for each in read if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}))


def around(function: Any) -> dict[str, Any]:
    """Return the values that the names in a function's code have in the functions around it."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the cell is empty
            found[name] = cell.cell_contents
    return found


def referred_to(function: Any) -> dict[str, Any]:
    """Return what a function's code refers to, as `named_in`, and the default values of its parameters.

    >>> referred_to(lambda x, axis=-1, *, scale=2.0: x)
    {'axis': -1, 'scale': 2.0}
    """
    values, code = function.__defaults__ or (), function.__code__
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    by_default = dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})
    return named_in(function) | by_default


def named_nearby(function: Any) -> dict[str, Any]:
    """Return what names in a function's code refer to. Functions of other modules must be around it."""
    outer, home = around(function), function.__module__
    return {
        name: value
        for name, value in named_in(function).items()
        if name in outer or not inspect.isfunction(value) or value.__module__ == home
    }


def called_by(function: Any) -> Iterator[Any]:
    """Yield a function, and the functions that it calls, itself or through others: around it, or of its module."""
    waiting, seen = [function], {id(function)}
    while waiting:
        one = waiting.pop()
        yield one
        for value in named_nearby(one).values():
            if inspect.isfunction(value) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)


def has_complex_buffers(module: Any) -> bool:
    """Return whether a torch module has complex buffers, such as a table of rotary positions."""
    return any(buffer.is_complex() for buffer in module.buffers())


def converted(module: Any, dtype: str) -> Any:
    """Convert a torch module to a dtype, without its complex buffers, of which torch would keep the real part alone."""
    kept = [
        (part, name, buffer)
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None and buffer.is_complex()
    ]
    module.to(getattr(importlib.import_module("torch"), dtype))
    for part, name, buffer in kept:
        part._buffers[name] = buffer
    return module


def source_with_helpers(kind: type) -> str:
    """Return the source code of a class, and of the functions of its module that its methods call."""
    methods = [each for each in vars(kind).values() if inspect.isfunction(each)]
    return "".join(map(source_of, (kind, *with_helpers(methods)[len(methods) :])))


def source_of(thing: Any) -> str:
    """Return the source code of a class or function, or "" if it cannot be read."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return ""


def syntax_of(thing: Any) -> ast.Module:
    """Return the syntax tree of a class, a function or source code, or an empty tree of what is only part of a line."""
    code = thing if isinstance(thing, str) else source_of(thing)
    try:
        return ast.parse(textwrap.dedent(code))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def assignments(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the target and the value of each assignment in a syntax tree, one by one for `a, b = 1, 2`.

    >>> [ast.unparse(target) for target, _ in assignments(ast.parse("a = 0; b, c = 1, 2; d, e = f()"))]
    ['a', 'b', 'c', '(d, e)']
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets), *_], value=ast.Tuple(elts=values)):
                yield from zip(targets, values, strict=False)
            case ast.Assign(targets=[target, *_], value=value):
                yield target, value


@contextlib.contextmanager
def with_whole_tracebacks() -> Iterator[None]:
    """Keep JAX from filtering the traceback of each error, which takes longer than most calls that raise one."""
    if "jax" not in sys.modules:
        yield
        return
    import jax

    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        jax.config.update("jax_traceback_filtering", before)


def to_tensor(array: Any, framework: str, dtype: str) -> Any:
    """Convert a NumPy array to a tensor of `framework`. Floating-point numbers become `dtype`."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        array = array.astype(dtype)
    if framework == "tensorflow":
        import tensorflow as tf

        return tf.constant(array)
    if framework == "torch":
        import torch

        return torch.tensor(np.array(array))
    if framework == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)  # otherwise float64 becomes float32
        return jax.numpy.asarray(array)
    if framework == "keras":
        import keras

        return keras.ops.convert_to_tensor(array)
    return array.copy()


def to_numpy(tensor: Any) -> np.ndarray:
    """Convert any framework's tensor to a NumPy array."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    return np.asarray(tensor)


def numeric_array(result: Any) -> np.ndarray:
    """Convert what a candidate returned to an array of numbers.

    Raises:
        TypeError: The result is not numeric.
    """
    try:
        array = np.asarray(None) if _holds_arrays(result) else to_numpy(result)
    except (ValueError, TypeError):
        array = np.asarray(None)
    if array.dtype.kind not in "biufV":  # V: bfloat16
        received = repr(result) if len(repr(result)) < 60 else type(result).__name__
        raise TypeError(f"expected an array, or a tuple (output, scores). Received: {received}.")
    return array


def _holds_arrays(result: Any) -> bool:
    """Return whether a result is a tuple or list of arrays, which NumPy would stack if their shapes are the same."""
    return isinstance(result, tuple | list) and any(hasattr(each, "shape") and each.shape for each in result)


def output_and_scores(result: Any) -> tuple[Any, Any]:
    """Split what a candidate returned into the output and the scores, with `None` for missing scores."""
    if isinstance(result, dict) and result:
        name = next((name for name in result if str(name).lower() in OUTPUTS), next(iter(result)))
        result = (result[name], *(value for key, value in result.items() if key != name))
    if isinstance(result, tuple | list) and result:
        if result[0] is None and len(result) == 2 and np.ndim(result[1]) < 4:  # a cache that was not given, not scores
            result = result[1:]
        return result[0], next((other for other in result[1:] if hasattr(other, "shape")), None)
    return result, None
