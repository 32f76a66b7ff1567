"""Settings of a training run: profiles in TOML files, entries of the command line, and the check of both."""

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PROFILES = Path(__file__).parent / "profiles"
EXTENDS = "extends"  # an entry of a profile: the profile whose entries hold where this one has none
_PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class SettingsError(ValueError):
    """A setting is unknown, missing, of the wrong type or out of range; the message says how to mend it."""


def _at_least(least: float) -> Any:
    return dataclasses.field(metadata={"holds": lambda value: least <= value <= 2**24, "rule": f"{least} to {2**24:,}"})


def _fraction() -> Any:
    return dataclasses.field(metadata={"holds": lambda value: 0 <= value < 1, "rule": "at least 0 and less than 1"})


def _one_of(*names: str) -> Any:
    return dataclasses.field(metadata={"holds": lambda value: value in names, "rule": f"one of {', '.join(names)}"})


def _positive() -> Any:
    return dataclasses.field(metadata={"holds": lambda value: 0 < value < math.inf, "rule": "more than 0 and finite"})


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """The arguments of `kmha.layers.Transformer`; what each means is said in the profiles."""

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


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """How text becomes ids."""

    vocabulary_size: int = _at_least(8)
    lowercase: bool = _at_least(0)
    split_digits: bool = _at_least(0)
    max_length: int = _at_least(2)


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """What is learnt from, for how long, and what is kept of it."""

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
    average: int = _at_least(1)
    keep_all: bool = _at_least(0)
    stop_on: str = _one_of("loss", "score")
    patience: int = _at_least(0)
    scored_sentences: int = _at_least(0)
    samples: int = _at_least(0)


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """How the finished model looks for a translation, unless it is told otherwise."""

    beam_size: int = _at_least(1)
    length_penalty: float = _at_least(0)
    max_length: int = _at_least(1)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything a run is set by, but its task, its files, its seed and its dtype.

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
    search: SearchSettings

    @classmethod
    def load(cls, profile: str, task: str, entries: Iterable[str] = ()) -> "Settings":
        """The settings of a profile with single entries over them.

        Args:
            profile: the name of one of ours, looked for as `<task>-<profile>` first, or the path of a TOML file.
            task: `dates`, `multi30k` or `files`.
            entries: each `section.key=value`.

        Raises:
            SettingsError: no such profile, or an entry that cannot be used.
        """
        path = _find(profile, task)
        tables = _read(path, task)
        for entry in entries:
            _put(tables, entry)
        return cls.from_dict(tables, str(path.name))

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], where: str = "the settings") -> "Settings":
        """The settings that `to_dict` gave, or that a profile holds; `where` is named in errors."""
        kinds = {field.name: field.type for field in dataclasses.fields(cls)}
        _check_names(tables, kinds, where, "section")
        settings = cls(**{name: _section(kind, tables[name], where, name) for name, kind in kinds.items()})
        settings._check(where)
        return settings

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Tables of plain values, for JSON."""
        return dataclasses.asdict(self)

    def _check(self, where: str) -> None:
        model, length, batch = self.model, self.data.max_length, self.training.tokens_per_batch
        if model.embedding_dim % model.num_heads:
            raise SettingsError(
                f"{where}: model.num_heads must divide model.embedding_dim. Received: {model.num_heads} heads, "
                f"width {model.embedding_dim}."
            )
        for name, most in (("model.max_positions", model.max_positions), ("training.tokens_per_batch", batch)):
            if length > most:
                raise SettingsError(
                    f"{where}: data.max_length must not exceed {name}. Received: {length} tokens, and {most}."
                )


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two nested tables, an entry each.

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
    raise SettingsError(f"there is no profile {profile}. There are: {ours}; or give the path of a .toml file.")


def _read(path: Path, task: str, above: tuple[Path, ...] = ()) -> dict[str, dict[str, Any]]:
    """The tables of a profile, over those of the one that it extends."""
    if path in above:
        raise SettingsError(f"{path} extends itself.")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the profile {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
    """Sets one `section.key=value`."""
    name, equals, text = entry.partition("=")
    section, dot, key = (part.strip() for part in name.partition("."))
    if not (equals and dot):
        raise SettingsError(f"--set {entry}: expected section.key=value, such as training.steps=500.")
    names = {part.name: part.type for part in dataclasses.fields(Settings)}
    known = [f"{part}.{field.name}" for part, kind in names.items() for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if f"{section}.{key}" not in known:
        raise SettingsError(f"--set {entry}: there is no {section}.{key}. {_near(f'{section}.{key}', known)}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a text needs no quotes here
    if isinstance(tables.setdefault(section, {}), dict):  # if the profile has something else, `_section` says so
        tables[section][key] = value


def _section(kind: Any, table: Any, where: str, section: str) -> Any:
    if not isinstance(table, Mapping):
        raise SettingsError(f"{where}: [{section}] must be a table of entries. Received: {table!r}.")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    _check_names(table, fields, f"{where}, [{section}]", "entry")
    values = {}
    for name, field in fields.items():
        value = table[name]
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        value = float(value) if field.type is float and is_whole else value
        if type(value) is not field.type:
            raise SettingsError(f"{where}: {section}.{name} must be {_PLAIN[field.type]}. Received: {value!r}.")  # type: ignore[index]
        if "holds" in field.metadata and not field.metadata["holds"](value):
            raise SettingsError(f"{where}: {section}.{name} must be {field.metadata['rule']}. Received: {value!r}.")
        values[name] = value
    return kind(**values)


def _check_names(given: Mapping[str, Any], names: Mapping[str, Any], where: str, what: str) -> None:
    for name in given:
        if name not in names:
            raise SettingsError(f"{where}: there is no {what} {name}. {_near(name, list(names))}")
    for name in names:
        if name not in given:
            raise SettingsError(f"{where}: the {what} {name} is missing; see kmha/translation/profiles/cpu.toml.")


def _near(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f"Did you mean {close[0]}?" if close else f"There are: {', '.join(names)}."
