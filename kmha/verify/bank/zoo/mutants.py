"""Mutants: the code of an entry with one edit, compiled in memory.

>>> from kmha.verify.bank.zoo.entry import Entry
>>> entry = Entry("kmha", "kmha.verify.chains.attention:softmax", "attention", "numpy")
>>> [mutant.id for mutant in mutants(entry)]
[]
"""

import contextlib
import dataclasses
import importlib
import inspect
import linecache
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.operators import OPERATORS, Edit, Source


@dataclasses.dataclass(frozen=True, eq=False)
class Mutant:
    """An entry with one edit in its code.

    Attributes:
        entry: Entry whose code is edited.
        operator: Name of the operator.
        module: Name of the module that is edited.
        source: Source of this module.
        edit: The edit.
        number: Number of the edit among those of one operator in one line, from 1.
    """

    entry: Entry
    operator: str
    module: str
    source: Source
    edit: Edit
    number: int = 1

    @property
    def id(self) -> str:
        """The name "package/Name: operator@line". A second edit of the operator in the line has a number after it."""
        name = self.entry.where.partition(":")[2]
        again = f"#{self.number}" if self.number > 1 else ""
        return f"{self.entry.package}/{name}: {self.operator}@{self.edit.line}{again}"

    @property
    def ids(self) -> tuple[str, ...]:
        """The mistakes that the edit makes, any of which is a right answer."""
        return self.edit.ids or OPERATORS[self.operator].ids

    @property
    def line(self) -> str:
        """The edited line, as it was."""
        return self.source.text.splitlines()[self.edit.line - 1].strip()

    @contextlib.contextmanager
    def made(self) -> Iterator[Any]:
        """Compile the edited code, and return what a user would diagnose, made from it.

        Within the context, `inspect` shows the edited code.
        """
        names = [self.module]
        own = _home(self.entry.load())
        if own != self.module:
            names.append(own)  # it imports the edited module, so it is executed again, too
        edited = self.source.replaced(self.edit)
        path = inspect.getsourcefile(sys.modules[self.module]) or ""
        with _shown(path, edited), _executed(names, {self.module: edited}) as modules:
            found: Any = modules[-1]
            for name in _path(self.entry.load()):
                found = getattr(found, name)
            yield self.entry.made(found)


def mutants(entry: Entry) -> list[Mutant]:
    """Return the mutants of an entry, whether they run or not. An entry without Python source has none."""
    found, seen = [], set()
    for module, source in sources(entry):
        for operator in OPERATORS.values():
            lines: Counter[int] = Counter()
            for edit in operator.edits(source):
                text = source.replaced(edit)
                if (module, text) in seen or text == source.text:
                    continue
                seen.add((module, text))
                lines[edit.line] += 1
                found.append(Mutant(entry, operator.name, module, source, edit, lines[edit.line]))
    return found


def sources(entry: Entry) -> Iterator[tuple[str, Source]]:
    """Yield the source of an entry's module, and of the modules of its base classes in the same package.

    Each source is paired with the name of its module.
    """
    thing = entry.load()
    used: dict[str, list[str]] = {}
    for each in thing.__mro__ if isinstance(thing, type) else (thing,):
        each = inspect.unwrap(each) if not isinstance(each, type) else each
        module = getattr(each, "__module__", "") or ""
        if module.partition(".")[0] == _home(thing).partition(".")[0] and hasattr(each, "__qualname__"):
            used.setdefault(module, []).append(each.__qualname__.partition(".")[0])
    for module, names in used.items():
        with contextlib.suppress(OSError, TypeError, SyntaxError):
            yield module, Source(inspect.getsource(sys.modules[module]), names, entry.kind)


def _home(thing: Any) -> str:
    """Return the name of the module that defines a class or function."""
    return thing.__module__ if isinstance(thing, type) else inspect.unwrap(thing).__module__


def _path(thing: Any) -> list[str]:
    """Return the names that lead from the module to a class or function in it."""
    return (thing if isinstance(thing, type) else inspect.unwrap(thing)).__qualname__.split(".")


@contextlib.contextmanager
def _shown(path: str, text: str) -> Iterator[None]:
    """Have `inspect` show `text` instead of the file at `path`."""
    before = linecache.cache.get(path)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    try:
        yield
    finally:
        linecache.cache.pop(path, None)
        if before is not None:
            linecache.cache[path] = before


@contextlib.contextmanager
def _executed(names: list[str], edited: dict[str, str]) -> Iterator[list[types.ModuleType]]:
    """Execute modules anew, some with edited code, and return them.

    While they are executed, each stands in for its original. Afterwards, everything is as before.
    """
    before = {name: sys.modules[name] for name in names}
    registries = [(registry, dict(registry)) for registry in _registries()]
    try:
        yield [_execute(before[name], edited.get(name)) for name in names]
    finally:
        for name, module in before.items():
            _stand_in(name, module)
        for registry, content in registries:
            registry.clear()
            registry.update(content)


def _execute(original: types.ModuleType, text: str | None) -> types.ModuleType:
    path = inspect.getsourcefile(original) or ""
    module = types.ModuleType(original.__name__, original.__doc__)
    for name in ("__package__", "__file__", "__loader__", "__spec__", "__path__", "__cached__"):
        if hasattr(original, name):
            setattr(module, name, getattr(original, name))
    code = compile(Path(path).read_text() if text is None else text, path, "exec", dont_inherit=True)
    _stand_in(original.__name__, module)
    exec(code, module.__dict__)  # noqa: S102 - the code of an installed package, with one edit
    return module


def _stand_in(name: str, module: types.ModuleType) -> None:
    """Make `module` the one that importing `name` gives."""
    sys.modules[name] = module
    parent, _, leaf = name.rpartition(".")
    if parent in sys.modules and isinstance(getattr(sys.modules[parent], leaf, None), types.ModuleType):
        setattr(sys.modules[parent], leaf, module)


def _registries() -> list[dict[Any, Any]]:
    """Return Keras' registries of classes, which decorators fill."""
    if "keras" not in sys.modules:
        return []
    exports = importlib.import_module("keras.src.api_export")
    registration = importlib.import_module("keras.src.saving.object_registration")
    found = [getattr(exports, name, None) for name in ("REGISTERED_NAMES_TO_OBJS", "REGISTERED_OBJS_TO_NAMES")]
    found += [getattr(registration, name, None) for name in ("GLOBAL_CUSTOM_OBJECTS", "GLOBAL_CUSTOM_NAMES")]
    return [each for each in found if isinstance(each, dict)]
