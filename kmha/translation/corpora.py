"""Reading, checking and splitting of parallel text."""

import dataclasses
import gzip
import hashlib
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# `data/task1/raw` of https://github.com/multi30k/dataset at a3d2e0d26b56f3846f66a952536ffed4e401d05a.
MULTI30K_SHA256 = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
}
MULTI30K_SOURCE = "https://github.com/multi30k/dataset, folder data/task1/raw, commit a3d2e0d"
MULTI30K_NOTICE = (
    "Multi30k: the captions follow Flickr30K's terms, non-commercial research and educational use. "
    f"Source: {MULTI30K_SOURCE}."
)
DIRECTIONS = ("en-de", "de-en")
LARGEST_SPLIT = 1000  # maximum number of source sentences in a validation or test set that is split off
SHARE = 20  # one source sentence in SHARE goes into each set that is split off


class CorpusError(ValueError):
    """Raised if a corpus cannot be read. The message names the file, the rule and the fix."""


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Sentences and their translations. `dropped` is the number of pairs left out because a side is empty."""

    source: list[str]
    target: list[str]
    name: str
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.source)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The training, validation and test sets of a task. `notice` is the licence notice to show, if there is one."""

    train: Pairs
    validation: Pairs
    tests: dict[str, Pairs]
    notice: str | None
    source_language: str
    target_language: str


def read_parallel(source: Path, target: Path, *, name: str | None = None) -> Pairs:
    r"""Read two files whose lines are translations of each other.

    The files are UTF-8, and compressed with gzip if their names end in `.gz`. A line ends only at `\n` or `\r\n`, and
    not at U+2028. A byte order mark and white space around a line are removed. A pair with an empty side is dropped.

    Args:
        source: File to translate from.
        target: File to translate to.
        name: Name of the set of pairs. `None` means the name of the source file.

    Raises:
        CorpusError: A file is missing, empty, not UTF-8, or not gzip despite its ending. Or the files have different
            numbers of lines, or no pair is left.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.en").write_bytes(b"A cat.\r\n\r\nTwo dogs.\r\n")
    >>> _ = (folder / "a.de").write_text("Eine Katze.\n-\nZwei Hunde.")
    >>> pairs = read_parallel(folder / "a.en", folder / "a.de")
    >>> pairs.source, pairs.target, pairs.dropped
    (['A cat.', 'Two dogs.'], ['Eine Katze.', 'Zwei Hunde.'], 1)
    """
    return _paired((source, _read(source)), (target, _read(target)), name or source.name)


def multi30k(folder: Path, direction: str = "en-de") -> Corpus:
    """Return the raw text of Multi30k, task 1 (29,000 captions and their translations), from the user's files.

    Args:
        folder: Folder with the eight files in `MULTI30K_SHA256`, which must have these hashes.
        direction: "en-de" or "de-en".

    Raises:
        CorpusError: The direction does not exist, or a file is missing or has another hash.

    >>> multi30k(Path("nowhere"), "fr-en")
    Traceback (most recent call last):
    ...
    kmha.translation.corpora.CorpusError: Multi30k: the direction must be one of en-de, de-en. Received: 'fr-en'.
    """
    if direction not in DIRECTIONS:
        raise CorpusError(f"Multi30k: the direction must be one of {', '.join(DIRECTIONS)}. Received: {direction!r}.")
    if not folder.is_dir():
        files = ", ".join(MULTI30K_SHA256)
        raise CorpusError(
            f"Multi30k: {folder} is not a folder. Expected a folder with {files}, from {MULTI30K_SOURCE}."
        )
    source_language, target_language = direction.split("-")

    def pairs(part: str) -> Pairs:
        paths = [folder / f"{part}.{language}.gz" for language in (source_language, target_language)]
        source, target = ((path, _checked(path)) for path in paths)
        return _paired(source, target, part)

    return Corpus(
        train=pairs("train"),
        validation=pairs("val"),
        tests={part: pairs(part) for part in ("test_2016_flickr", "test_2017_flickr")},
        notice=MULTI30K_NOTICE,
        source_language=source_language,
        target_language=target_language,
    )


def parallel(
    source: Path,
    target: Path,
    *,
    validation: tuple[Path, Path] | None = None,
    tests: Mapping[str, tuple[Path, Path]] | None = None,
    seed: int = 0,
) -> Corpus:
    """Return any parallel text, and split off a validation set and a test set at random if they are not given.

    One source sentence in twenty, but at most a thousand, goes into each of these sets, with all its translations. So
    no source sentence is in two sets. The language is the ending of a file's name if it has two letters (de for
    `train.de.gz`).

    Args:
        source: File to translate from, as in `read_parallel`.
        target: File to translate to.
        validation: Source and target file of the validation set.
        tests: Source and target file of each test set, keyed by its name. An empty mapping means no test sets.
        seed: Seed of the split.

    Raises:
        CorpusError: As in `read_parallel`, or there are fewer sentences than sets.
    """
    sets = {name: read_parallel(*paths, name=name) for name, paths in (tests or {}).items()}
    checked = None if validation is None else read_parallel(*validation, name="validation")
    wanted = [name for name, given in (("validation", checked), ("test", tests)) if given is None]
    train, *split = _split(read_parallel(source, target, name="train"), wanted, seed, source)
    if checked is None:
        checked = split.pop(0)
    sets.update({pairs.name: pairs for pairs in split})
    return Corpus(train, checked, sets, None, _language(source, "source"), _language(target, "target"))


def _split(pairs: Pairs, names: Sequence[str], seed: int, path: Path) -> Iterator[Pairs]:
    """Yield the training pairs, then the pairs of each set in `names`."""
    sentences = list(dict.fromkeys(pairs.source))
    if len(sentences) <= len(names):
        raise CorpusError(
            f"{path}: {len(sentences)} different sentences cannot be split into train, {', '.join(names)}. "
            "Give more text, or files for validation and tests."
        )
    each = min(LARGEST_SPLIT, max(1, len(sentences) // SHARE))
    drawn = random.Random(seed).sample(sentences, each * len(names))
    part_of = {sentence: names[number // each] for number, sentence in enumerate(drawn)}
    for part in (pairs.name, *names):
        rows = [row for row, sentence in enumerate(pairs.source) if part_of.get(sentence, pairs.name) == part]
        dropped = pairs.dropped if part == pairs.name else 0
        yield Pairs([pairs.source[row] for row in rows], [pairs.target[row] for row in rows], part, dropped)


def _language(path: Path, default: str) -> str:
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    return ending if len(ending) == 2 and ending.isalpha() else default


def _paired(source: tuple[Path, bytes], target: tuple[Path, bytes], name: str) -> Pairs:
    sources, targets = _lines(*source), _lines(*target)
    if len(sources) != len(targets):
        raise CorpusError(
            f"{source[0]} has {len(sources):,} lines and {target[0]} has {len(targets):,}. "
            "Line n of one must be the translation of line n of the other."
        )
    kept = [(one, other) for one, other in zip(sources, targets, strict=True) if one and other]
    if not kept:
        raise CorpusError(f"{source[0]} and {target[0]}: no line has text in both files.")
    return Pairs([one for one, _ in kept], [other for _, other in kept], name, len(sources) - len(kept))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None


def _checked(path: Path) -> bytes:
    """Return the bytes of a Multi30k file, after checking its hash."""
    data = _read(path)
    received, expected = hashlib.sha256(data).hexdigest(), MULTI30K_SHA256[path.name]
    if received != expected:
        raise CorpusError(
            f"{path} is not the file of {MULTI30K_SOURCE}: expected sha256 {expected}. Received: {received}. "
            "Download it again, or train on it as your own text, with --source and --target."
        )
    return data


def _lines(path: Path, data: bytes) -> list[str]:
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            why = f"ends in .gz but is not a complete gzip file: {error}"
            raise CorpusError(f"{path} {why}. Download it again, or rename it.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        why = f"not UTF-8 (byte 0x{error.object[error.start]:02x})"
        raise CorpusError(f"{path}, line {line:,}: {why}. Convert it with iconv -f ENCODING -t UTF-8.") from None
    # `splitlines` also splits at U+2028, U+0085 and others, which would shift all the lines after them.
    lines = [line.strip() for line in text.split("\n")]
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise CorpusError(f"{path} is empty.")
    return lines
