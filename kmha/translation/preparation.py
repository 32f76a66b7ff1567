"""What a training run starts from: a corpus, a folder that is free or its own, a tokenizer; and whom it tells.

Nothing here needs TensorFlow, so that what is wrong shows before the seconds that it takes to import.
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmha.translation import corpora, dates, folder, weights
from kmha.translation.corpora import Corpus, CorpusError, Pairs
from kmha.translation.folder import Config, FolderError
from kmha.translation.settings import Settings, differences
from kmha.translation.tokenizer import Tokenizer

TASKS = ("dates", "multi30k", "files")
CORPUS_SEED = 0  # dates and splits are the same whatever the seed of the run, so that scores can be compared


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the sentences come from.

    Attributes:
        task: `dates`, `multi30k` or `files`.
        data: the folder of Multi30k.
        direction: `en-de` or `de-en`, of Multi30k.
        source: a file of sentences, a line each.
        target: their translations, line by line.
        validation: such files to validate on; `None` splits some off.
    """

    task: str
    data: Path | None = None
    direction: str = "en-de"
    source: Path | None = None
    target: Path | None = None
    validation: tuple[Path, Path] | None = None

    def read(self) -> Corpus:
        """The corpus.

        Raises:
            CorpusError: files are not given, cannot be read, or do not belong together.
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


class Listener:
    """What is told how far a run is; this one does nothing with it."""

    def note(self, text: str) -> None:
        """A line for whoever waits."""

    def resumed(self, step: int) -> None:
        """A run that was stopped goes on from here."""

    def step(self, step: int, loss: float) -> None:
        """After each batch: its number, and the loss per token since the last check."""

    def check(self, row: dict[str, float], samples: str) -> None:
        """After each check: a row of the history, and sample translations."""


def configure(source: Source, corpus: Corpus, settings: Settings, seed: int, dtype: str) -> Config:
    """What config.json of a new run will hold; the size of the vocabulary is known when it has been learnt."""
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


def begin(path: Path, wanted: Config, corpus: Corpus, restart: bool = False) -> tuple[Config, Tokenizer]:
    """Makes the model folder of a run, or opens it if it is the same run's.

    Args:
        path: the folder.
        wanted: as `configure` makes it.
        corpus: that the vocabulary is learnt from.
        restart: whether a run in the folder, and what came of it, is removed first.

    Returns:
        The config, and the tokenizer.

    Raises:
        FolderError: the folder holds another run, which the message compares with this one, or cannot be written.
        TokenizerError: the vocabulary does not fit the text.
    """
    if not restart and (path / folder.CONFIG).exists():
        config = folder.load_config(path)
        found = differences(config.identity(), wanted.identity())
        if found:
            raise FolderError(
                f"{path} holds another run: {'; '.join(found)}. Give the same command to go on with it, --out for "
                "another folder, or --restart to begin again in this one, without what is there."
            )
        _tidy(path)
        return config, Tokenizer.load(path / folder.TOKENIZER)
    if not restart and (path / folder.WEIGHTS).exists():  # of ours the config goes last
        raise FolderError(
            f"{path} holds {folder.WEIGHTS} and no {folder.CONFIG}, so it may be another program's. Choose another "
            "folder with --out, or move that file away."
        )
    data = wanted.settings.data
    texts = [*corpus.train.source, *corpus.train.target]
    options: dict[str, Any] = {"lowercase": data.lowercase, "split_digits": data.split_digits}
    tokenizer = Tokenizer.train(texts, data.vocabulary_size, **options)
    _check_lengths(corpus, tokenizer, data.max_length)
    config = dataclasses.replace(wanted, vocabulary_size=tokenizer.vocabulary_size)
    try:
        if restart:  # not before the new run is known to be possible
            folder.clear(path)
        else:
            weights.forget(path)  # those of a run whose config is gone
        for name in (folder.LOGS, weights.CHECKPOINTS):
            (path / name).mkdir(parents=True, exist_ok=True)
        tokenizer.save(path / folder.TOKENIZER)
        folder.save_config(path, config)  # last: a folder with it is whole
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {error.strerror}. Choose another folder with --out.") from None
    return config, tokenizer


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keeps a second run out of a model folder, which is made if need be; a process that ends lets go by itself.

    Raises:
        FolderError: another run is in it, or it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"{path} cannot be made: {error.strerror}. Choose another folder with --out.") from None
    try:
        import fcntl
    except ImportError:  # Windows has none
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(
                f"another run is training in {path}. Wait for it, or choose another folder with --out."
            ) from None
        yield
    finally:
        os.close(descriptor)


def _tidy(path: Path) -> None:
    """Removes what a killed process had begun to write."""
    written = {
        path: (folder.CONFIG, folder.TOKENIZER),
        path / folder.LOGS: folder.LOG_FILES,
        path / weights.CHECKPOINTS: (weights.STATE,),
    }
    for part, names in written.items():
        part.mkdir(exist_ok=True)
        for pattern in (f".*{weights.SUFFIX}", *(f".{name}.*" for name in names)):
            for file in part.glob(pattern):
                file.unlink()


def _check_lengths(corpus: Corpus, tokenizer: Tokenizer, most: int) -> None:
    """Raises a CorpusError if all pairs of a set are too long for the settings."""
    for pairs in (corpus.train, corpus.validation):
        both = zip(pairs.source, pairs.target, strict=True)
        if not any(max(map(len, tokenizer.encode(one))) < most for one in both):  # one less, for the start or end
            raise CorpusError(
                f"{pairs.name}: None of {len(pairs)} pairs has at most {most} tokens on both sides. "
                "Raise data.max_length, or give shorter sentences."
            )


def _identity(pairs: Pairs) -> dict[str, Any]:
    """How many pairs, and a sum of their text."""
    text = "\n".join((*pairs.source, *pairs.target))
    return {"pairs": len(pairs.source), "sha256": hashlib.sha256(text.encode()).hexdigest()}
