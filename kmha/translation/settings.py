"""Settings of a training run, from profiles in TOML files and entries on the command line, and their checks."""

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kmha.toml_files import read_toml
from kmha.translation.search import METHODS
from kmha.translation.search.method import Option

PROFILES = Path(__file__).parent / "profiles"
EXTENDS = "extends"  # entry that names the profile that provides missing entries
LARGEST = 2**24
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class SettingsError(ValueError):
    """Raised if a setting is unknown, missing, of the wrong type or out of range."""


def _field(rule: str, holds: Callable[[Any], bool], **options: Any) -> Any:
    return dataclasses.field(metadata={"rule": rule, "holds": holds}, **options)


def _at_least(least: float, **options: Any) -> Any:
    return _field(f"{least} to {LARGEST:,}", lambda value: least <= value <= LARGEST, **options)


def _fraction(**options: Any) -> Any:
    return _field("at least 0 and less than 1", lambda value: 0 <= value < 1, **options)


def _one_of(*names: str) -> Any:
    return _field(f"one of {', '.join(names)}", lambda value: value in names)


def _positive() -> Any:
    return _field("more than 0 and finite", lambda value: 0 < value < math.inf)


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """The arguments of `kmha.layers.Transformer`, each of which the profiles explain."""

    num_layers: int = _at_least(1)
    embedding_dim: int = _at_least(2)
    num_heads: int = _at_least(1)
    fully_connected_dim: int = _at_least(1)
    dropout_rate: float = _fraction()
    attention_dropout_rate: float = _fraction()
    residual_dropout_rate: float = _fraction()
    norm: str = _one_of("post", "pre")
    tie_embeddings: str = _one_of("none", "target", "all")
    layernorm_eps: float = _positive()
    max_positions: int = _at_least(8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The conversion of text to ids."""

    vocabulary_size: int = _at_least(8)
    lowercase: bool
    split_digits: bool
    max_length: int = _at_least(2)
    subword_dropout: float = _fraction(default=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The optimizer, the length of the training, the checks, and the weights that are kept."""

    steps: int = _at_least(1)
    steps_between_checks: int = _at_least(1)
    tokens_per_batch: int = _at_least(1)
    peak_learning_rate: float = _positive()
    warmup_steps: int = _at_least(1)
    beta_1: float = _fraction()
    beta_2: float = _fraction()
    epsilon: float = _positive()
    clip_norm: float = _at_least(0)
    label_smoothing: float = _fraction()
    consistency: float = _at_least(0, default=0.0)
    steps_before_consistency: int = _at_least(0, default=0)
    average: int = _at_least(1)
    keep_all: bool
    stop_on: str = _one_of("loss", "score")
    patience: int = _at_least(0)
    scored_sentences: int = _at_least(0)
    samples: int = _at_least(0)


def _search_fields() -> list[tuple[str, type, Any]]:
    """Return a field for each option of a search method that a model can be trained for, and the limit."""
    options = {name: one for method in METHODS.values() for name, one in method.options().items() if one.setting}
    return [*((name, one.kind, _option(one)) for name, one in options.items()), ("max_length", int, _at_least(1))]


def _option(option: Option) -> Any:
    rule = option.expected if option.highest < math.inf else f"{option.expected}, at most {LARGEST:,}"
    return _field(rule, lambda value: option.allows(value) and value <= LARGEST, default=option.default)


# The defaults of search options for a trained model.
SearchSettings = dataclasses.make_dataclass("SearchSettings", _search_fields(), frozen=True, kw_only=True)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that determines a run, except for its task, files, seed and dtype.

    >>> settings = Settings.load("cpu", "multi30k", ["training.steps=500", "model.norm=pre"])
    >>> settings.training.steps, settings.model.norm, settings.model.num_layers
    (500, 'pre', 4)
    >>> Settings.load("cpu", "multi30k", ["data.lower=true"])
    Traceback (most recent call last):
    kmha.translation.settings.SettingsError: --set data.lower=true: there is no data.lower. Did you mean data.lowercase?
    """

    model: ModelSettings
    data: DataSettings
    training: TrainingSettings
    search: SearchSettings  # type: ignore[valid-type]

    @classmethod
    def load(cls, profile: str, task: str, entries: Iterable[str] = ()) -> "Settings":
        """Return the settings of a profile, with the changes in `entries`.

        Args:
            profile: Name of a built-in profile (`<task>-<profile>` is tried before `<profile>`), or path of a TOML
                file.
            task: `dates`, `multi30k` or `files`.
            entries: Changes of the form `section.key=value`.

        Raises:
            SettingsError: The profile does not exist, or an entry is invalid.
        """
        path = _find(profile, task)
        tables = _read(path, task)
        for entry in entries:
            _put(tables, entry)
        return cls.from_dict(tables, str(path.name))

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], where: str = "the settings") -> "Settings":
        """Return the settings in tables from `dataclasses.asdict` or from a profile. Errors mention `where`."""
        kinds = {field.name: field.type for field in dataclasses.fields(cls)}
        _check_names(tables, kinds, kinds, where, "section")
        settings = cls(**{name: _section(kind, tables[name], where, name) for name, kind in kinds.items()})
        settings._check(where)
        return settings

    def _check(self, where: str) -> None:
        model, length, batch = self.model, self.data.max_length, self.training.tokens_per_batch
        if model.embedding_dim % model.num_heads:
            sizes = f"{model.num_heads} heads, width {model.embedding_dim}"
            raise SettingsError(f"{where}: model.num_heads must divide model.embedding_dim. Received: {sizes}.")
        for name, most in (("model.max_positions", model.max_positions), ("training.tokens_per_batch", batch)):
            if length > most:
                sizes = f"{length} tokens, and {most}"
                raise SettingsError(f"{where}: data.max_length must not exceed {name}. Received: {sizes}.")


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the differences between two nested tables, with a text for each entry that differs.

    >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    ['a.c was 2, is 3']
    """
    found = []
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            found.append(f"{prefix}{key} was {before}, is {after}")
    return found


def _find(profile: str, task: str) -> Path:
    if profile.endswith(".toml") or "/" in profile:
        return Path(profile)
    names = sorted(path.stem for path in PROFILES.glob("*.toml"))
    for name in (f"{task}-{profile}", profile):
        if name in names:
            return PROFILES / f"{name}.toml"
    ours = ", ".join(name for name in names if "-" not in name)
    raise SettingsError(f"there is no profile {profile}. Choose {ours}, or give the path of a .toml file.")


def _read(path: Path, task: str, above: tuple[Path, ...] = ()) -> dict[str, dict[str, Any]]:
    """Return the tables of a profile, completed with those of the profile that it extends."""
    if path in above:
        raise SettingsError(f"{path} extends itself.")
    try:
        tables = read_toml(path)
    except OSError as error:
        raise SettingsError(f"the profile {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise SettingsError(f"the profile {path} is not TOML: {error}.") from None
    base = tables.pop(EXTENDS, None)
    if base is None:
        return tables
    found = _find(str(base), "" if path.parent == PROFILES else task)  # `dates-cpu` extends `cpu`, not itself
    below = _read(path.parent / found, task, (*above, path))
    for name, table in tables.items():
        below[name] = {**below.get(name, {}), **table} if isinstance(table, dict) else table
    return below


def _put(tables: dict[str, dict[str, Any]], entry: str) -> None:
    """Set the value of an entry `section.key=value` in the tables."""
    name, equals, text = entry.partition("=")
    section, dot, key = (part.strip() for part in name.partition("."))
    if not (equals and dot):
        raise SettingsError(f"--set {entry}: expected section.key=value, such as training.steps=500.")
    names = {part.name: part.type for part in dataclasses.fields(Settings)}
    known = [f"{part}.{field.name}" for part, kind in names.items() for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if f"{section}.{key}" not in known:
        raise SettingsError(f"--set {entry}: there is no {section}.{key}. {_suggestion(f'{section}.{key}', known)}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # text needs no quotes here
    if isinstance(tables.setdefault(section, {}), dict):  # otherwise `_section` raises an error
        tables[section][key] = value


def _section(kind: Any, table: Any, where: str, section: str) -> Any:
    if not isinstance(table, Mapping):
        raise SettingsError(f"{where}: [{section}] must be a table of entries. Received: {table!r}.")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    _check_names(table, fields, required, f"{where}, [{section}]", "entry")
    return kind(**{name: _value(fields[name], value, f"{where}: {section}") for name, value in table.items()})


def _value(field: Any, value: Any, where: str) -> Any:
    """Return the value of a setting, after checking that it has the field's type and obeys the field's rule."""
    if field.type is float and type(value) is int:
        value = float(value)
    if type(value) is not field.type:  # `isinstance` would accept true as a number
        raise SettingsError(f"{where}.{field.name} must be {_KINDS[field.type]}. Received: {value!r}.")
    if "holds" in field.metadata and not field.metadata["holds"](value):
        raise SettingsError(f"{where}.{field.name} must be {field.metadata['rule']}. Received: {value!r}.")
    return value


def _check_names(
    given: Mapping[str, Any], names: Mapping[str, Any], required: Iterable[str], where: str, what: str
) -> None:
    for name in given:
        if name not in names:
            raise SettingsError(f"{where}: there is no {what} {name}. {_suggestion(name, list(names))}")
    for name in required:
        if name not in given:
            raise SettingsError(f"{where}: the {what} {name} is missing; see kmha/translation/profiles/cpu.toml.")


def _suggestion(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(names)}."
