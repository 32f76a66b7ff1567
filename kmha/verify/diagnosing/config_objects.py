"""Configuration objects, as in `Attention(config)`: find the fields that a constructor reads, and fill them.

A field is treated like an argument of the constructor with a dotted name, such as `config.n_head`. So the same names
tell its meaning, and `--set config.n_head=4` sets it.
"""

import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.guessing import compared_texts, guesses, value_of

NAMES = ("config", "cfg", "conf", "configuration", "args", "modelargs", "hparams", "hyperparams", "modelconfig", "opt")
EMPTY = inspect.Parameter.empty
NOTHING: Mapping[str, Any] = types.MappingProxyType({})
SIZES = {"heads": 2, "kv_heads": 2, "size": 4, "value_size": 4, "length": 64, "vocabulary": 11, "inner": 12}
FLAGS: dict[str, Any] = {"dropout": 0.0, "epsilon": 1e-5, "use_bias": True, "batch_first": True, "causal": False}
FIELDS = 60  # maximum number of fields


class Fields(dict):
    """A configuration whose fields are read by attribute or by key. `missing` is the last name that it lacks.

    >>> fields = Fields(n_head=2)
    >>> fields.n_head, fields["n_head"], getattr(fields, "flash", None), fields.missing
    (2, 2, None, 'flash')
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        object.__setattr__(self, "missing", "")
        object.__setattr__(self, "used", [])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            object.__setattr__(self, "missing", name)
            raise KeyError(name)
        if name not in self.used:
            self.used.append(name)
        return super().__getitem__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return f"SimpleNamespace({', '.join(f'{name}={value!r}' for name, value in self.items())})"


def sizes_in(given: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes that given configuration objects state, keyed by role.

    >>> sizes_in({"config": types.SimpleNamespace(n_head=3, bias=True), "layer": types.SimpleNamespace(d_model=5)})
    {'heads': 3}
    """
    found: dict[str, int] = {}
    for name, config in given.items():
        fields = getattr(config, "__dict__", {}) if naming.plain(name) in NAMES else {}
        for role, field in naming.roles_of(fields).items():
            if role in ("heads", "size", "width") and type(fields[field]) is int and fields[field] > 0:
                found.setdefault(role, fields[field])
    return found


class Watched:
    """A configuration object of the candidate's own class, which records the fields that are read."""

    def __init__(self, real: Any) -> None:
        self.__dict__.update(real=real, used=[], missing="")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name not in self.used:
            self.__dict__["used"].append(name)
        return getattr(self.real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.real, name, value)

    def __getitem__(self, name: str) -> Any:
        return self.real[name]


def is_config(name: str, parameter: inspect.Parameter) -> bool:
    """Return whether a constructor's argument is a configuration object.

    >>> is_config("config", inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD))
    True
    """
    return parameter.default is EMPTY and (naming.plain(name) in NAMES or _class_of(parameter) is not None)


def _class_of(parameter: inspect.Parameter) -> type | None:
    """Return the class that annotates the argument, if its fields have names of sizes."""
    found = parameter.annotation
    if not isinstance(found, type) or found is EMPTY or found.__module__ in ("builtins", "typing"):
        return None
    return found if _has_sizes(found) else None


def _has_sizes(found: type) -> bool:
    roles = naming.roles_of(field_names(found))
    return "heads" in roles and bool({"width", "size"} & roles.keys())


def field_names(config_class: type) -> list[str]:
    """Return the names of a configuration class's fields."""
    try:
        names = [
            name
            for name, each in inspect.signature(config_class).parameters.items()
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        ]
    except (TypeError, ValueError):
        names = []
    for parent in config_class.__mro__:
        own = (*getattr(parent, "__annotations__", {}), *_plain_values(parent))
        names += [name for name in own if name not in names]
    return [name for name in names if not name.startswith("_")]


def _plain_values(config_class: type) -> dict[str, Any]:
    """Return the numbers, texts and flags that are attributes of a class, such as defaults of a dataclass."""
    return {name: value for name, value in vars(config_class).items() if type(value) in (bool, int, float, str)}


def stated_fields(layer_class: type) -> dict[str, Any]:
    """Return the defaults of fields that classes of configurations in the module of a layer state."""
    around = getattr(sys.modules.get(layer_class.__module__), "__dict__", {})
    classes = [each for each in around.values() if isinstance(each, type) and each.__module__ == layer_class.__module__]
    # Layers have arguments with the names of sizes too.
    configs = [each for each in classes if not any("__call__" in vars(parent) for parent in each.__mro__)]
    found: dict[str, Any] = {}
    for each in filter(_has_sizes, configs):
        found = {**{name: value for parent in each.__mro__ for name, value in _plain_values(parent).items()}, **found}
    return {name: value for name, value in found.items() if not name.startswith("_")}


def sample(name: str, stated: Mapping[str, Any] = NOTHING) -> Any:
    """Return a value for a field by its name, with sizes that fit together, or else the default that is `stated`."""
    role = naming.argument(name)
    if role in ("width", "output", "inputs"):
        return SIZES["heads"] * SIZES["size"]
    if role in SIZES or role in FLAGS:
        return {**SIZES, **FLAGS}[role]
    guess = value_of(guesses(name)[0][0], "numpy", {"T": 1, "O": 4, "I": 8})
    return stated.get(name) if guess is None else guess


def read_fields(
    construct: Callable[[Any], Any],
    parameter: inspect.Parameter,
    code: str = "",
    stated: Mapping[str, Any] = NOTHING,
) -> dict[str, Any]:
    """Return the fields that a constructor reads, with sample values, by calling it with configurations.

    Args:
        construct: Function that calls the constructor with a configuration.
        parameter: Argument of the constructor, whose annotation may be a configuration class.
        code: Source code of the layer.
        stated: Defaults of fields.
    """
    own = _class_of(parameter)
    values: dict[str, Any] = {}
    if own is not None:
        values = {name: sample(name) for name in field_names(own) if naming.argument(name) in (*SIZES, "width")}
        watched = Watched(made(own, values))
        try:
            later = read_later(construct(watched), watched)
            read = [name for name in (*watched.used, *later) if name in field_names(own)]  # and not a property
            return {name: sample(name) for name in read if naming.argument(name)}
        except (Exception, SystemExit):  # untrusted code may raise anything
            pass
    for _ in range(FIELDS):
        fields = Fields(values)
        try:
            later = read_later(construct(fields), fields)
            values |= {name: sample(name, stated) for name in later if name not in values}
            break
        except (AttributeError, KeyError):
            if not fields.missing or fields.missing in values:
                break
            values[fields.missing] = sample(fields.missing, stated)
        except (Exception, SystemExit):  # untrusted code may raise anything, for instance if it expects certain texts
            texts = {name: compared_texts(name, code) for name, value in values.items() if value is None}
            texts = {name: found for name, found in texts.items() if found}
            if not texts:
                break
            values |= {name: value_of(found[0], "numpy", {}) for name, found in texts.items()}
    return values


def read_later(layer: Any, config: Any) -> list[str]:
    """Return the fields that the code of a layer reads from the configuration that it keeps, such as in its call."""
    places = [name for name, value in getattr(layer, "__dict__", {}).items() if value is config]
    if not places:
        return []
    code = frameworks.source_of(type(layer))
    kept = rf"self\.(?:{'|'.join(places)})\b"
    kept = "|".join([kept, *re.findall(rf"(?m)^\s*(\w+)\s*=\s*{kept}\s*$", code)])  # it may have a shorter name
    return list(dict.fromkeys(re.findall(rf"\b(?:{kept})(?:\.|\[['\"])(\w+)", code)))


def made(own: type | None, values: Mapping[str, Any]) -> Any:
    """Return a configuration with these fields, of the candidate's own class if there is one."""
    if own is None:
        return Fields(values)
    try:
        return own(**values)
    except (Exception, SystemExit):  # untrusted code may raise anything
        pass
    try:
        found = own()
    except (Exception, SystemExit):
        return types.SimpleNamespace(**values)
    for name, value in values.items():
        setattr(found, name, value)
    return found


def _with(construct: Callable[..., Any], name: str) -> Callable[[Any], Any]:
    return lambda config: construct(**{name: config})


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a configuration as a parameter. Its default is a sample value."""

    default: Any
    annotation: Any = EMPTY
    kind: Any = inspect.Parameter.KEYWORD_ONLY


def expanded(
    found: Mapping[str, Any], construct: Callable[..., Any], code: str = "", stated: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """Return a constructor's parameters with each configuration object replaced by the fields that are read.

    `construct` is called with a keyword argument: the configuration. `code` is the source code of the layer, and
    `stated` are defaults of fields.
    """
    parameters: dict[str, Any] = {}
    for name, parameter in found.items():
        if not is_config(name, parameter):
            parameters[name] = parameter
            continue
        fields = read_fields(_with(construct, name), parameter, code, stated)
        parameters |= {f"{name}.{field}": Field(value) for field, value in fields.items()} or {name: parameter}
    return parameters


def folded(arguments: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a constructor's arguments with the fields `config.…` put into configuration objects.

    Args:
        arguments: Arguments, with dotted names for fields.
        found: Parameters of the constructor as it is written.
    """
    plain = {name: value for name, value in arguments.items() if "." not in name}
    fields: dict[str, dict[str, Any]] = {}
    for name, value in arguments.items():
        owner, dot, field = name.partition(".")
        if dot:
            fields.setdefault(owner, {})[field] = value
    return {**plain, **{owner: made(_class_of(found[owner]), values) for owner, values in fields.items()}}
