"""Take classes and functions away from a process, so that untrusted code cannot use them under any name.

Deleting the names would not be enough: `gc`, frames and subclasses lead to the same objects. So the objects stay, but
each of their functions raises a `NameError`. The files that define them must not be read again (`kmha.sandbox.limits`).
"""

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

# Folders of libraries with older versions of the same classes, or the same functions for other backends.
_COPIES = (
    "tensorflow/python/keras/layers",
    *(f"keras/src/backend/{name}" for name in ("jax", "numpy", "openvino", "torch")),
)


def remove(names: Sequence[str]) -> list[str]:
    """Make all classes and functions with these names raise a `NameError`, and return the files that define them.

    The name CLASS.METHOD removes only a method: the class can be recognized, but not used.
    The helpers of a function, such as `_dot_product_attention_xla`, go with it.
    """
    files: set[Path] = set()
    for thing, name in list(_things(names)):
        says = f"you use `{name}`. In this exercise you write it yourself."
        for function in list(_functions(thing)):
            function.__code__ = _raising(says).replace(co_freevars=function.__code__.co_freevars)
        if inspect.isclass(thing):
            # Not `__init__`: Keras looks at its arguments.
            type.__setattr__(thing, "__new__", FunctionType(_raising(says), {}))
        file = Path(getattr(sys.modules.get(thing.__module__), "__file__", None) or "-")
        if file.is_file():
            files |= {file, *file.parent.glob(f"__pycache__/{file.stem}.*")}
            files |= {folder / copy for folder in file.parents for copy in _COPIES if (folder / copy).is_dir()}
    return sorted(map(str, files))


def _things(names: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Yield all classes, methods and functions that have one of the names in some module, with the name."""
    functions = [name for name in names if name.islower()]
    seen: set[int] = set()
    for path, module in list(sys.modules.items()):
        members = _members(module)
        if not members or path.partition(".")[0] in sys.stdlib_module_names:
            continue
        keys = {name: name for name in names if name.partition(".")[0] in members}
        keys |= {key: name for name in functions for key in members if isinstance(key, str) and name in key}
        for key, name in keys.items():
            outer, _, method = key.partition(".")
            thing = getattr(members[outer], method, None) if method else members[outer]
            # A class may have its work done by a class of its own file that it inherits from.
            bases = thing.__mro__[1:] if inspect.isclass(thing) else ()
            for each in (thing, *(base for base in bases if base.__module__ == thing.__module__)):
                if isinstance(each, type | FunctionType) and id(each) not in seen:
                    seen.add(id(each))
                    yield each, name.partition(".")[0]


def _members(module: Any) -> dict[str, Any]:
    """Return what a module defines, without loading a module that waits for its first use."""
    try:
        return dict(object.__getattribute__(module, "__dict__"))
    except AttributeError:
        return {}


def _functions(thing: Any) -> Iterator[FunctionType]:
    """Yield the functions of a class, or a function, and those that they wrap."""
    pending, seen = list(vars(thing).values()) if inspect.isclass(thing) else [thing], set()
    while pending:
        each = pending.pop()
        if isinstance(each, property):
            pending += [each.fget, each.fset]
        each = getattr(each, "__func__", each)
        if isinstance(each, FunctionType) and id(each) not in seen:
            seen.add(id(each))
            pending.append(getattr(each, "__wrapped__", None))
            yield each


def _raising(says: str) -> Any:
    """Return the code of a function that raises an error, whatever its arguments."""
    code = compile(f"def refuse(*args, **kwargs):\n    raise NameError({says!r})\n", "<absent>", "exec")
    return next(each for each in code.co_consts if inspect.iscode(each))
