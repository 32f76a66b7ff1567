"""The model folder: everything that `kmha translate` needs, and what a run was set by.

    config.json       settings, languages, what the training came to
    tokenizer.json    of both languages
    model.weights.h5  of the finished model, as `keras.Model.load_weights` reads it
    logs/             history.csv, samples.txt, tensorboard/
    checkpoints/      weights of the last checks, and while it is not finished the state of the training

It holds no paths, so that it can be moved; Keras is imported when a model is built, not before.
"""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any, cast, get_origin

from kmha import __version__
from kmha.files import write_json
from kmha.translation import weights
from kmha.translation.settings import Settings, SettingsError
from kmha.translation.tokenizer import Tokenizer
from kmha.translation.weights import FolderError

FORMAT = 1
POSITIONS = 2**25  # numbers at most in the table of positions, which are in no file
CONFIG, TOKENIZER, WEIGHTS, LOGS = "config.json", "tokenizer.json", f"model{weights.SUFFIX}", "logs"
LOG_FILES = HISTORY, SAMPLES = "history.csv", "samples.txt"


@dataclasses.dataclass(frozen=True)
class Config:
    """What config.json holds.

    Attributes:
        task: `dates`, `multi30k` or `files`.
        source_language: as in `de`.
        target_language: as in `en`.
        settings: of the run.
        seed: of weights, dropout and the order of the data.
        dtype: the policy that it was trained under.
        data: what identifies the training data: a name and a sum, no paths.
        vocabulary_size: of the tokenizer as trained, which may be less than was asked for.
        result: what the training came to; empty until it ended.
        kmha: the version that wrote it.
        format: of the folder.
    """

    task: str
    source_language: str
    target_language: str
    settings: Settings
    seed: int
    dtype: str
    data: dict[str, Any]
    vocabulary_size: int
    result: dict[str, Any] = dataclasses.field(default_factory=dict)
    kmha: str = __version__
    format: int = FORMAT

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return bool(self.result.get("finished"))

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        names = ("task", "source_language", "target_language", "settings", "seed", "dtype", "data")
        return {name: value for name, value in dataclasses.asdict(self).items() if name in names}


def save_config(path: Path, config: Config) -> None:
    """Writes config.json."""
    write_json(path / CONFIG, dataclasses.asdict(config))


def load_config(path: Path) -> Config:
    """Reads config.json.

    Raises:
        FolderError: it is not there, is broken, or is of a newer kmha.
    """
    try:
        values = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        written, version = values["format"], values["kmha"]
    except (FileNotFoundError, NotADirectoryError):
        what = "is not a model folder: it has no config.json" if path.is_dir() else "does not exist"
        raise FolderError(f"{path} {what}. A folder that `kmha train --out DIR` has made is expected.") from None
    except OSError as error:
        raise FolderError(f"{path / CONFIG} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise FolderError(f"{path / CONFIG} is not what kmha writes there. Copy the folder again, or train.") from None
    if not isinstance(written, int) or written > FORMAT:
        raise FolderError(
            f"{path} was written by kmha {version} in format {written}, and this one, {__version__}, reads formats up "
            f"to {FORMAT}. Run: pip install -U kmha"
        )
    try:
        values["settings"] = Settings.from_dict(values["settings"], f"{path / CONFIG}")
        config = Config(**values)
        for field in dataclasses.fields(config):
            value, kind = getattr(config, field.name), cast(type, get_origin(field.type) or field.type)
            if not isinstance(value, kind):
                raise TypeError(f"{field.name} is {value!r}")
        return config
    except (SettingsError, KeyError, TypeError) as error:
        raise FolderError(f"{path / CONFIG} is not what kmha writes there ({error}).") from None


def build(config: Config) -> Any:
    """A `kmha.layers.Transformer` of these settings, with its variables, as they are drawn."""
    import keras

    from kmha.layers import Transformer

    model = config.settings.model
    # So that an embedding times √D is as large as the positions added to it. With Keras' own, a third of that, the
    # decoder takes twice as long until it looks at the source.
    embeddings = keras.initializers.RandomNormal(stddev=model.embedding_dim**-0.5)
    transformer = Transformer(
        model.num_layers,
        model.embedding_dim,
        model.num_heads,
        model.fully_connected_dim,
        config.vocabulary_size,
        config.vocabulary_size,
        model.max_positions,
        model.max_positions,
        dropout_rate=model.dropout_rate,
        residual_dropout_rate=model.residual_dropout_rate,
        attention={"dropout": model.attention_dropout_rate},
        layernorm_eps=model.layernorm_eps,
        norm=model.norm,
        tie_embeddings=None if model.tie_embeddings == "none" else model.tie_embeddings,
        final_activation=None,
        embeddings_initializer=embeddings,
        dtype=config.dtype,
    )
    transformer.build()
    return transformer


def load(path: str | Path, step: int | None = None, dtype: str = "float32") -> tuple[Any, Tokenizer, Config]:
    """The model of a folder, its tokenizer and its config.

    Args:
        path: the folder.
        step: `None` for the finished model, else the average of the last checks up to this step, as many of them as
            `training.average` says and as are still there.
        dtype: the policy to compute under.

    Raises:
        FolderError: the folder has no such model; the message says why.
    """
    import numpy as np

    path = Path(path)
    config = load_config(path)
    if step is None and not (path / WEIGHTS).is_file():
        raise FolderError(f"{path} has no finished model yet. Start its `kmha train` again: it goes on where it was.")
    if not (path / TOKENIZER).is_file():
        raise FolderError(f"{path} is not whole: it has no {TOKENIZER}. Copy the folder again, or train.")
    try:
        tokenizer = Tokenizer.load(path / TOKENIZER)
    except Exception as error:  # whatever the library makes of a broken file
        raise FolderError(f"{path / TOKENIZER} cannot be read: {error}.") from None
    if tokenizer.vocabulary_size != config.vocabulary_size:
        sizes = f"{tokenizer.vocabulary_size:,} tokens, and the model is of {config.vocabulary_size:,}"
        raise FolderError(f"{path / TOKENIZER} has {sizes}: it is another model's. Copy the folder again, or train.")
    model = _built(path, dataclasses.replace(config, dtype=dtype))
    if step is None:
        weights.load(model, path / WEIGHTS)
    else:
        steps, training = weights.kept_steps(path), config.settings.training
        if step not in steps:
            there = ", ".join(map(str, steps)) or "none"
            raise FolderError(f"{path} keeps no weights of step {step}. It has: {there}. See training.keep_all.")
        until = [one for one in steps if one <= step]
        weights.average(model, path, weights.last(until, training.average, training.steps_between_checks))
    if not all(np.isfinite(weight).all() for weight in model.get_weights()):
        raise FolderError(f"{path}: there are weights that are no numbers: its training diverged. Train it again.")
    return model, tokenizer, config


def _built(path: Path, config: Config) -> Any:
    """As `build`, of a config that anybody may have written: no sizes are tried that no weights here can have."""
    model = config.settings.model
    there = max((file.stat().st_size for file in path.rglob(f"*{weights.SUFFIX}")), default=0)
    numbers = model.embedding_dim * (config.vocabulary_size + model.num_layers * model.fully_connected_dim)
    if numbers > there or model.max_positions * model.embedding_dim > POSITIONS:  # of a byte or more each
        raise FolderError(f"{path / CONFIG} describes a model far larger than the weights. Copy the folder again.")
    return build(config)


def clear(path: Path) -> None:
    """Removes what kmha writes into a model folder, and nothing else; its config last, by which it is known.

    Raises:
        FolderError: the folder has a config.json that another program wrote.
    """
    if (path / CONFIG).exists():
        try:
            ours = {"kmha", "format"} <= json.loads((path / CONFIG).read_text(encoding="utf-8")).keys()
        except (ValueError, AttributeError):
            ours = False
        if not ours:
            raise FolderError(f"{path / CONFIG} was not written by kmha. Choose another folder with --out.")
    weights.forget(path)
    for name in LOG_FILES:
        (path / LOGS / name).unlink(missing_ok=True)
    shutil.rmtree(path / LOGS / "tensorboard", ignore_errors=True)
    for name in (WEIGHTS, TOKENIZER, CONFIG):
        (path / name).unlink(missing_ok=True)
