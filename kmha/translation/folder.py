"""The model folder, which contains everything that `kmha translate` needs, and the state of the training.

    config.json       settings, languages, result of the training
    tokenizer.json    tokenizer of both languages
    model.weights.h5  weights of the finished model, as `keras.Model.load_weights` reads them
    logs/             history.csv, samples.txt, tensorboard/, attention.npz, attention.html
    checkpoints/      weights of the last checks and, until the training is finished, its state

The folder contains no paths, so it can be moved. Keras is imported only when a model is built.
"""

import dataclasses
import math
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast, get_origin

from kmha import __version__, atomic_files
from kmha.bounded_json import from_json
from kmha.regular_files import read_regular, stored_size
from kmha.sandbox.control_characters import visible
from kmha.translation.settings import Settings, SettingsError
from kmha.translation.tokenizer import Tokenizer

FORMAT = 2  # 2 added `heads`
POSITIONS = 2**25  # maximum size of the table of positions, which no file contains
LAYERS = 1_000  # maximum number of layers of a model that is loaded
BYTES_OF_LAYER = 10_000  # an encoder block and a decoder block take at least ten times as much in a file
_BYTES_OF_NUMBER = 8  # at most
SUFFIX = ".weights.h5"
CONFIG, TOKENIZER, WEIGHTS, LOGS = "config.json", "tokenizer.json", f"model{SUFFIX}", "logs"
CHECKPOINTS, STATE = "checkpoints", "state.npz"
LOG_FILES = HISTORY, SAMPLES, ATTENTION, ATTENTION_PAGE = (
    "history.csv",
    "samples.txt",
    "attention.npz",
    "attention.html",
)


class FolderError(ValueError):
    """Raised if a folder is not a model folder, or is incomplete."""


@dataclasses.dataclass(frozen=True)
class Config:
    """The contents of config.json."""

    task: str  # dates, multi30k or files
    source_language: str  # code of the language, such as de
    target_language: str
    settings: Settings
    seed: int  # seed of weights, dropout and the order of the data
    dtype: str  # dtype policy of the training
    data: dict[str, Any]  # identity of the training data: names, sizes and hashes, but no paths
    vocabulary_size: int  # size of the trained vocabulary, which can be smaller than the requested size
    result: dict[str, Any] = dataclasses.field(default_factory=dict)  # empty until the training ends
    heads: dict[str, int] = dataclasses.field(default_factory=dict)  # of layers from which `kmha prune` removed heads
    kmha: str = __version__  # version of kmha that wrote the config
    format: int = FORMAT

    @property
    def finished(self) -> bool:
        return bool(self.result.get("finished"))

    def identity(self) -> dict[str, Any]:
        """Return the values that must not change when a run is resumed."""
        names = ("task", "source_language", "target_language", "settings", "seed", "dtype", "data")
        return {name: value for name, value in dataclasses.asdict(self).items() if name in names}


def save_config(path: Path, config: Config) -> None:
    """Write `config` as config.json into the folder `path`."""
    atomic_files.write_json(path / CONFIG, dataclasses.asdict(config))


def load_config(path: Path) -> Config:
    """Return the config in the folder `path`, from config.json.

    Raises:
        FolderError: The file does not exist, is broken, or comes from a newer kmha.
    """
    try:
        values = _read_config(path)
        written, version = values["format"], values["kmha"]
        if not isinstance(written, int) or not isinstance(version, str):
            raise TypeError
    except (FileNotFoundError, NotADirectoryError):
        what = "is not a model folder: it has no config.json" if path.is_dir() else "does not exist"
        raise FolderError(f"{path} {what}. Expected a folder that `kmha train --out DIR` has created.") from None
    except OSError as error:
        raise FolderError(f"{path / CONFIG} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FolderError(f"{path / CONFIG} is not a config of kmha. Copy the folder again, or train again.") from None
    if written > FORMAT:
        raise FolderError(
            f"{path} was written by kmha {visible(version[:40])} in format {written}; kmha {__version__} reads formats "
            f"up to {FORMAT}. Run: pip install -U kmha"
        )
    try:
        values["settings"] = Settings.from_dict(values["settings"], f"{path / CONFIG}")
        config = Config(**values)
        for field in dataclasses.fields(config):
            value, kind = getattr(config, field.name), cast(type, get_origin(field.type) or field.type)
            if not isinstance(value, kind) or (isinstance(value, str) and not value.isprintable()):
                raise TypeError(f"{field.name} is {value!r:.200}")
        for name, number in config.heads.items():
            if type(number) is not int or not 1 <= number <= config.settings.model.num_heads:
                raise TypeError(f"heads of {name} is {number!r:.200}")
        return config
    except (SettingsError, KeyError, TypeError, RecursionError) as error:
        raise FolderError(f"{path / CONFIG} is not a config of kmha ({visible(str(error)[:500])}).") from None


def _read_config(path: Path) -> Any:
    """Return what a folder's config.json holds. The folder may come from someone who is not trusted."""
    return from_json(read_regular(path / CONFIG).decode())


def build(config: Config) -> Any:
    """Return a `kmha.layers.Transformer` with the settings of `config` and newly initialized variables."""
    import keras

    from kmha.layers import Transformer

    model = config.settings.model
    # With this standard deviation, an embedding times √D is as large as the positions added to it. Keras' default is a
    # third of it. With the default, the decoder needs twice as much training until it attends to the source.
    embeddings = keras.initializers.RandomNormal(stddev=model.embedding_dim**-0.5)
    transformer = Transformer(
        *(model.num_layers, model.embedding_dim, model.num_heads, model.fully_connected_dim),
        *(config.vocabulary_size, config.vocabulary_size, model.max_positions, model.max_positions),
        dropout_rate=model.dropout_rate,
        residual_dropout_rate=model.residual_dropout_rate,
        attention={"dropout": model.attention_dropout_rate},
        layernorm_eps=model.layernorm_eps,
        norm=model.norm,
        tie_embeddings=None if model.tie_embeddings == "none" else model.tie_embeddings,
        final_activation=None,
        embeddings_initializer=embeddings,
        heads=config.heads,
        dtype=config.dtype,
    )
    transformer.build()
    return transformer


def load(path: str | Path, step: int | None = None, dtype: str = "float32") -> tuple[Any, Tokenizer, Config]:
    """Return the model of a folder, its tokenizer and its config.

    Args:
        path: The model folder.
        step: Number of a step, to load the average weights of the last `training.average` checks up to it, or of fewer
            if fewer were kept. `None` loads the finished model.
        dtype: Dtype policy of the model.

    Raises:
        FolderError: The folder does not have such a model.
    """
    import numpy as np

    path = Path(path)
    config = load_config(path)
    if step is None and not (path / WEIGHTS).is_file():
        raise FolderError(f"{path} has no finished model yet. Run the same `kmha train` again to resume it.")
    if not (path / TOKENIZER).is_file():
        raise FolderError(f"{path} is incomplete: it has no {TOKENIZER}. Copy the folder again, or train again.")
    try:
        tokenizer = Tokenizer.load(path / TOKENIZER)
    except Exception as error:  # the library raises many kinds of errors for a broken file
        raise FolderError(f"{path / TOKENIZER} cannot be read: {str(error).rstrip('.')}.") from None
    if tokenizer.vocabulary_size != config.vocabulary_size:
        sizes = f"{tokenizer.vocabulary_size:,} tokens, but the model expects {config.vocabulary_size:,}"
        raise FolderError(f"{path / TOKENIZER} has {sizes}: it belongs to another model. Copy the folder again.")
    averaged = [] if step is None else _averaged(path, step, config)
    files = [checkpoint(path, one) for one in averaged] or [path / WEIGHTS]
    model = _build_checked(path, dataclasses.replace(config, dtype=dtype), files)
    if step is None:
        load_weights(model, path / WEIGHTS)
    else:
        average_weights(model, path, averaged)
    if not all(np.isfinite(weight).all() for weight in model.get_weights()):
        raise FolderError(f"{path} has weights that are NaN or infinite: the training diverged. Train again.")
    return model, tokenizer, config


def _averaged(path: Path, step: int, config: Config) -> list[int]:
    """Return the steps whose weights are averaged to the model of a step."""
    steps, training = checkpoint_steps(path), config.settings.training
    if step not in steps:
        there = ", ".join(map(str, steps)) or "none"
        raise FolderError(f"{path} has no weights of step {step}. It has: {there}. See training.keep_all.")
    return last_steps([one for one in steps if one <= step], training.average, training.steps_between_checks)


def _build_checked(path: Path, config: Config, files: Iterable[Path]) -> Any:
    """Build the model of an untrusted config. Refuse sizes that exceed those of the weights files to be loaded."""
    model = config.settings.model
    if model.num_layers > LAYERS:
        raise FolderError(
            f"{path / CONFIG} describes a model of {model.num_layers:,} layers. kmha loads models of at most "
            f"{LAYERS:,}. Copy the folder again, or train with a smaller model.num_layers."
        )
    smallest = min(map(_stored, files))
    # Each number takes at least a byte.
    too_large = _numbers(config) > smallest or model.num_layers * BYTES_OF_LAYER > smallest
    if too_large or model.max_positions * model.embedding_dim > POSITIONS:
        raise FolderError(f"{path / CONFIG} describes a model far larger than the weights. Copy the folder again.")
    try:
        return build(config)
    except ValueError as error:
        raise FolderError(f"{path / CONFIG} is not a config of kmha ({error}).") from None


def _numbers(config: Config) -> int:
    """Return the number of weights of a model, without biases and norms, but also without the heads that are gone."""
    model = config.settings.model
    width, layers = model.embedding_dim, model.num_layers
    tables = {"none": 3, "target": 2, "all": 1}[model.tie_embeddings]
    # An encoder block and a decoder block have three attention layers, with four kernels each, and two networks.
    kernels = layers * (3 * 4 * width**2 + 2 * 2 * width * model.fully_connected_dim)
    gone = sum(model.num_heads - kept for kept in config.heads.values())
    return kernels + tables * width * config.vocabulary_size - gone * 4 * width * (width // model.num_heads)


def _stored(path: Path) -> int:
    try:
        return stored_size(path)
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}. Copy the folder again, or train again.") from None


def clear(path: Path) -> None:
    """Remove only what kmha writes into a model folder. Remove the config, which identifies the folder, last.

    Raises:
        FolderError: Another program wrote the folder's config.json.
    """
    if (path / CONFIG).exists():
        try:
            ours = {"kmha", "format"} <= _read_config(path).keys()
        except (ValueError, AttributeError, RecursionError):
            ours = False
        if not ours:
            raise FolderError(f"{path / CONFIG} was not written by kmha. Choose another folder with --out.")
    remove_checkpoints(path)
    for name in LOG_FILES:
        (path / LOGS / name).unlink(missing_ok=True)
    shutil.rmtree(path / LOGS / "tensorboard", ignore_errors=True)
    for name in (WEIGHTS, TOKENIZER, CONFIG):
        (path / name).unlink(missing_ok=True)


def save_finished(path: Path, model: Any, tokenizer: Tokenizer, config: Config) -> None:
    """Write a finished model into a new folder, which appears when it is complete.

    Raises:
        FolderError: The folder exists already, and is not empty.
    """
    check_new(path)
    beside = atomic_files.folder_beside(path)
    try:
        tokenizer.save(beside / TOKENIZER)
        save_weights(model, beside / WEIGHTS)
        save_config(beside, config)
        os.replace(beside, path)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def check_new(path: Path) -> None:
    """Raise a FolderError if something is at `path`, except for an empty folder."""
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise FolderError(f"{path} exists already. Choose another folder.")


def save_weights(model: Any, path: Path) -> None:
    """Write the weights to a temporary file and rename it, so that `path` is never incomplete."""
    temporary = path.with_name(f".{os.getpid()}{SUFFIX}")
    try:
        model.save_weights(temporary)
        atomic_files.replace(path, temporary)
    finally:
        temporary.unlink(missing_ok=True)


def load_weights(model: Any, path: Path) -> None:
    """Load the weights that `save_weights` wrote into `model`.

    Raises:
        FolderError: The file is broken, or belongs to another model.
    """
    try:
        _check_datasets(model, path)
        model.load_weights(path)
    except Exception as error:  # Keras and h5py raise many kinds of errors
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FolderError(f"{path} cannot be read: {first} Copy the folder again, or train again.") from None


def _check_datasets(model: Any, path: Path) -> None:
    """Raise a ValueError if a file has an array that is larger than all of a model. Keras reads it before its shape."""
    import h5py

    from kmha.interchange.hdf5 import datasets

    largest = max((math.prod(variable.shape) for variable in model.variables), default=0)
    with h5py.File(path, "r") as file:
        for where, dataset in datasets(file):
            # Keras does not compress. A compressed chunk can be larger than its array.
            if dataset.chunks or dataset.external or dataset.is_virtual or dataset.dtype.hasobject:
                raise ValueError(f"`{where}` is compressed, in chunks, elsewhere or a text, as Keras stores no array.")
            if dataset.nbytes > max(largest, 1) * _BYTES_OF_NUMBER:
                sizes = f"has {dataset.nbytes:,} bytes, and no array of this model has more than {largest:,} numbers"
                raise ValueError(f"`{where}` {sizes}: it belongs to another model.")


def checkpoint(path: Path, step: int) -> Path:
    """Return the path of the weights file of the check at a step."""
    return path / CHECKPOINTS / f"step-{step:08d}{SUFFIX}"


def checkpoint_steps(path: Path) -> list[int]:
    """Return the steps of the weights that were kept, in order."""
    found = (path / CHECKPOINTS).glob(f"step-*{SUFFIX}")
    numbers = {file.name.removesuffix(SUFFIX).removeprefix("step-") for file in found}
    steps = {int(number) for number in numbers if number.isdecimal()}
    return sorted(step for step in steps if checkpoint(path, step).exists())  # without files that kmha did not name


def last_steps(steps: Iterable[int], count: int, between: int) -> list[int]:
    """Return at most `count` of the last `steps`, to average: the last step, and regular checks without a gap.

    Regular checks are `between` steps apart. A time limit can add other checks. Steps before a missing check are left
    out, because the model had learnt much less by then.

    >>> last_steps([100, 250, 300, 400, 450], count=3, between=100), last_steps([100, 900, 1000], count=3, between=100)
    ([300, 400, 450], [900, 1000])
    """
    *before, end = sorted(steps)
    chosen = [end]
    for step in reversed([step for step in before if step % between == 0]):
        if len(chosen) == count or chosen[0] - step > between:
            break
        chosen.insert(0, step)
    return chosen


def average_weights(model: Any, path: Path, steps: Iterable[int]) -> None:
    """Set the weights of `model` to the mean of the weights kept at these steps, computed in float64.

    Raises:
        FolderError: One of the files cannot be read.
    """
    sums: list[Any] = []
    steps = list(steps)
    for step in steps:
        load_weights(model, checkpoint(path, step))
        weights = [weight.astype("float64") for weight in model.get_weights()]
        sums = [one + other for one, other in zip(sums, weights, strict=True)] if sums else weights
    model.set_weights([total / len(steps) for total in sums])


def remove_checkpoints(path: Path, after: int = -1) -> None:
    """Remove the weights of checks after a step. Without a step, remove all weights, and the state of the run."""
    if after < 0:
        (path / CHECKPOINTS / STATE).unlink(missing_ok=True)
    for step in checkpoint_steps(path):
        if step > after:
            checkpoint(path, step).unlink()
