"""Prepare a training run: read the corpus, lock the model folder and train the tokenizer.

Nothing here needs TensorFlow, which takes seconds to import. So errors show early.
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kmha.translation import corpora, dates, folder
from kmha.translation.corpora import Corpus, CorpusError, Pairs
from kmha.translation.folder import Config, FolderError
from kmha.translation.settings import Settings, differences
from kmha.translation.tokenizer import Tokenizer

CORPUS_SEED = 0  # independent of the run's seed, so that the scores of runs can be compared


@dataclasses.dataclass(frozen=True)
class CorpusSource:
    """The task, and the files that contain its corpus."""

    task: str  # dates, multi30k or files
    data: Path | None = None  # folder with the files of Multi30k
    direction: str = "en-de"  # or "de-en", for Multi30k
    source: Path | None = None  # sentences, one per line
    target: Path | None = None  # translations of the sentences, one per line
    validation: tuple[Path, Path] | None = None  # source and target file of the validation set; `None` splits pairs off

    def read(self) -> Corpus:
        """Return the corpus of the task, read from the files.

        Raises:
            CorpusError: A file is missing or cannot be read, or the files do not belong together.
        """
        if self.task == "dates":
            return dates.corpus(CORPUS_SEED)
        if self.task == "multi30k":
            if self.data is None:
                raise CorpusError(f"multi30k needs --data DIR, a folder with the files of {corpora.MULTI30K_SOURCE}.")
            return corpora.multi30k(self.data, self.direction)
        if self.source is None or self.target is None:
            raise CorpusError(
                "training on files needs --source FILE and --target FILE: line n of one translates line n of the other."
            )
        return corpora.parallel(self.source, self.target, validation=self.validation, tests={}, seed=CORPUS_SEED)


class TrainingListener:
    """Receives the progress of a run. This base class ignores it."""

    def note(self, text: str) -> None:
        """Receive a line of text for the user."""

    def resumed(self, step: int) -> None:
        """Receive the step at which a stopped run resumes."""

    def step(self, step: int, loss: float) -> None:
        """Receive, after each batch, the step and the loss per token since the last check."""

    def check(self, row: dict[str, float], samples: str) -> None:
        """Receive, after each check, the check's row of the history and sample translations."""

    def attention(self, recorded: Mapping[int, Any]) -> None:
        """Receive, after each check, the `translator.Attention` of a probe at all checks so far, by step."""


def configure(source: CorpusSource, corpus: Corpus, settings: Settings, seed: int, dtype: str) -> Config:
    """Return the config of a new run, without the vocabulary size, which `prepare_folder` adds."""
    return Config(
        task=source.task,
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        settings=settings,
        seed=seed,
        dtype=dtype,
        data={name: _identity(pairs) for name, pairs in (("train", corpus.train), ("validation", corpus.validation))},
        vocabulary_size=0,
    )


def prepare_folder(path: Path, wanted: Config, corpus: Corpus, restart: bool = False) -> tuple[Config, Tokenizer]:
    """Create the model folder of a run, or open it if it belongs to the same run.

    Args:
        path: The model folder.
        wanted: Config that `configure` returned.
        corpus: Corpus from which the vocabulary is learnt.
        restart: First delete a run in the folder, with its results.

    Returns:
        The config of the run, and its tokenizer.

    Raises:
        FolderError: The folder contains a different run, or is not writable.
        TokenizerError: The vocabulary is too small for the text.
    """
    if not restart and (path / folder.CONFIG).exists():
        config = folder.load_config(path)
        found = differences(config.identity(), wanted.identity())
        if found:
            raise FolderError(
                f"{path} holds a different run: {'; '.join(found)}. Give the same command to resume it, --out for "
                "another folder, or --restart to delete that run and start again."
            )
        _remove_temporary_files(path)
        return config, Tokenizer.load(path / folder.TOKENIZER)
    if not restart and (path / folder.WEIGHTS).exists():  # kmha removes its own config last
        raise FolderError(
            f"{path} holds {folder.WEIGHTS} but no {folder.CONFIG}, so it may belong to another program. Choose "
            "another folder with --out, or move that file away."
        )
    data = wanted.settings.data
    texts = [*corpus.train.source, *corpus.train.target]
    options: dict[str, Any] = {"lowercase": data.lowercase, "split_digits": data.split_digits}
    tokenizer = Tokenizer.train(texts, data.vocabulary_size, **options)
    _check_lengths(corpus, tokenizer, data.max_length)
    config = dataclasses.replace(wanted, vocabulary_size=tokenizer.vocabulary_size)
    try:
        if restart:  # only now that the new run is known to be possible
            folder.clear(path)
        else:
            folder.remove_checkpoints(path)  # the weights of a run without a config
        for name in (folder.LOGS, folder.CHECKPOINTS):
            (path / name).mkdir(parents=True, exist_ok=True)
        tokenizer.save(path / folder.TOKENIZER)
        folder.save_config(path, config)  # last: a folder with a config is complete
    except OSError as error:
        raise FolderError(f"cannot write {path}: {error.strerror}. Choose another folder with --out.") from None
    return config, tokenizer


@contextlib.contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Create a model folder if necessary, and lock it against other runs. The lock ends with the process.

    Raises:
        FolderError: Another run uses the folder, or it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"cannot create {path}: {error.strerror}. Choose another folder with --out.") from None
    try:
        import fcntl
    except ImportError:  # Windows does not have this module
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = "Wait for it, or choose another folder with --out."
            raise FolderError(f"another run is training in {path}. {fix}") from None
        yield
    finally:
        os.close(descriptor)


def _remove_temporary_files(path: Path) -> None:
    """Remove files that a killed process had not finished writing."""
    written = {
        path: (folder.CONFIG, folder.TOKENIZER),
        path / folder.LOGS: folder.LOG_FILES,
        path / folder.CHECKPOINTS: (folder.STATE,),
    }
    for part, names in written.items():
        part.mkdir(exist_ok=True)
        for pattern in (f".*{folder.SUFFIX}", *(f".{name}.*" for name in names)):
            for file in part.glob(pattern):
                file.unlink()


def _check_lengths(corpus: Corpus, tokenizer: Tokenizer, longest: int) -> None:
    """Raise a CorpusError if all pairs of a set are too long for the settings."""
    for pairs in (corpus.train, corpus.validation):
        both = zip(pairs.source, pairs.target, strict=True)
        if not any(max(map(len, tokenizer.encode(one))) < longest for one in both):  # one more for start or end
            raise CorpusError(
                f"{pairs.name}: none of {len(pairs)} pairs has at most {longest} tokens on both sides. "
                "Raise data.max_length, or give shorter sentences."
            )


def _identity(pairs: Pairs) -> dict[str, Any]:
    """Return the number of pairs, and a hash of their text."""
    text = "\n".join((*pairs.source, *pairs.target))
    return {"pairs": len(pairs.source), "sha256": hashlib.sha256(text.encode()).hexdigest()}
