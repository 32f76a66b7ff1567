import gzip
import hashlib
import re

import pytest

from kmha.translation import corpora
from kmha.translation.batches import rows_that_fit, training_batches
from kmha.translation.corpora import CorpusError, Pairs, multi30k, parallel, read_parallel
from kmha.translation.tokenizer import UNKNOWN, Tokenizer

WORDS = {"en": ("cat", "dog", "horse", "sheep", "goat"), "de": ("Katze", "Hund", "Pferd", "Schaf", "Ziege")}
COUNT = 200


def _write(folder, name, data):
    path = folder / name
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def _slice():
    """200 pairs made of templates, some of them awkward, and how many of them have text on both sides."""
    english = [f"A {WORDS['en'][row % 5]} sees {row} {WORDS['en'][row % 3]}s." for row in range(COUNT)]
    german = [f"{row} {WORDS['de'][row % 3]} und {WORDS['de'][row % 5]} – größer." for row in range(COUNT)]
    english[3] = german[3] = ""
    english[5] = " \t "
    german[8] = ""
    english[13] = " ".join(f"long{row}" for row in range(500))
    german[21] = " ".join(["lang"] * 500)
    english[34] = "One line\u2028and still the same\x85one\x0b."
    german[55] = "  Ende mit Leerzeichen.  "
    english[89] = "\ufeffA mark inside."
    return english, german, COUNT - 3


def test_the_awkward_slice(tmp_path):
    english, german, kept = _slice()
    source = _write(tmp_path, "slice.en.gz", "\ufeff" + "\r\n".join(english) + "\r\n")
    target = _write(tmp_path, "slice.de", "\n".join(german))
    pairs = read_parallel(source, target)
    rows = [row for row in range(COUNT) if english[row].strip() and german[row].strip()]
    assert pairs.source == [english[row].strip() for row in rows]
    assert pairs.target == [german[row].strip() for row in rows]
    assert (len(pairs), pairs.dropped, pairs.name) == (kept, 3, "slice.en.gz")
    assert len(pairs.source[rows.index(13)].split()) == 500


def test_the_awkward_slice_makes_batches(tmp_path):
    """The two pairs of 500 words are left out, and rare characters are unknown."""
    english, german, kept = _slice()
    english[144], german[144] = "A 猫.", "Eine 猫."
    pairs = read_parallel(_write(tmp_path, "a.en", "\n".join(english)), _write(tmp_path, "a.de", "\r\n".join(german)))
    tokenizer = Tokenizer.train(pairs.source[:100] + pairs.target[:100], 400)
    source, target = tokenizer.encode(pairs.source), tokenizer.encode(pairs.target)
    assert sum(UNKNOWN in ids for ids in source) >= 1
    rows = rows_that_fit(source, target, max_length=60)
    assert len(pairs) - len(rows) == 2
    batches = training_batches(source, target, tokens=60 * 7, seed=1, max_length=60)
    seen = 0
    while seen < len(rows):
        (encoder, decoder), out = next(batches)
        assert encoder.shape[1] <= 60
        assert decoder.shape == out.shape
        seen += len(out)
    assert seen == len(rows)
    assert kept == len(pairs)


def test_unequal_says_both_counts(tmp_path):
    source, target = _write(tmp_path, "a.en", "one\ntwo\n\n"), _write(tmp_path, "a.de", "eins\n")
    with pytest.raises(CorpusError, match=r"a\.en has 3 lines and .*a\.de has 1\."):
        read_parallel(source, target)


def test_a_line_separator_in_one_file_shifts_nothing(tmp_path):
    source, target = _write(tmp_path, "a.en", "one\u2028half\ntwo\n"), _write(tmp_path, "a.de", "eins\nzwei\n")
    assert read_parallel(source, target).source == ["one\u2028half", "two"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("b.txt", b"", "is empty"),
        ("b.txt", b"\xef\xbb\xbf", "is empty"),
        ("b.txt", b"one\ntwo\nthr\xe9e\nfour\n", r"b\.txt, line 3: not UTF-8 \(byte 0xe9\)"),
        ("b.txt", b"\xef\xbb\xbfone\n\xff", r"b\.txt, line 2: not UTF-8 \(byte 0xff\)"),
        ("b.txt", b"\n \n", "no line has text in both"),
    ],
)
def test_unreadable(tmp_path, name, data, message):
    path, other = _write(tmp_path, name, data), _write(tmp_path, "a.de", "eins\nzwei\n")
    with pytest.raises(CorpusError, match=message):
        read_parallel(path, other)


def test_not_gzip(tmp_path):
    other = _write(tmp_path, "a.de", "eins\n")
    path = tmp_path / "a.en.gz"
    whole = gzip.compress(b"one two three four\n" * 50)
    for data in (b"one\n", whole[:-11], whole[:5], whole[:15] + b"\xff\xff\xff" + whole[18:]):
        path.write_bytes(data)
        with pytest.raises(CorpusError, match=r"a\.en\.gz ends in \.gz but is not a complete gzip file"):
            read_parallel(path, other)


def test_missing(tmp_path):
    other = _write(tmp_path, "a.de", "eins\n")
    with pytest.raises(CorpusError, match=r"nothing\.en cannot be read: No such file"):
        read_parallel(tmp_path / "nothing.en", other)
    with pytest.raises(CorpusError, match="cannot be read: Is a directory"):
        read_parallel(other, tmp_path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder like Multi30k's with invented sentences, and their hashes instead of the true ones."""
    counts = {"train": 7, "val": 3, "test_2016_flickr": 2, "test_2017_flickr": 5}
    sums = {}
    for part, count in counts.items():
        for language, words in WORDS.items():
            name = f"{part}.{language}.gz"
            path = _write(tmp_path, name, "".join(f"{part} {row} {words[row % 5]} \n" for row in range(count)))
            sums[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    assert sums.keys() == corpora.MULTI30K_SHA256.keys()
    monkeypatch.setattr(corpora, "MULTI30K_SHA256", sums)
    return tmp_path


def test_multi30k(folder):
    corpus = multi30k(folder)
    assert corpus.train.source[:2] == ["train 0 cat", "train 1 dog"]
    assert corpus.train.target[:2] == ["train 0 Katze", "train 1 Hund"]
    assert (corpus.source_language, corpus.target_language) == ("en", "de")
    assert (len(corpus.train), len(corpus.validation)) == (7, 3)
    assert {name: len(pairs) for name, pairs in corpus.tests.items()} == {"test_2016_flickr": 2, "test_2017_flickr": 5}
    assert "non-commercial research and educational use" in corpus.notice
    back = multi30k(folder, "de-en")
    assert (back.train.source, back.train.target) == (corpus.train.target, corpus.train.source)
    assert back.source_language == "de"


def test_multi30k_differs(folder):
    path = folder / "val.de.gz"
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(gzip.compress(b"other\n" * 3))
    received = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(CorpusError, match=rf"val\.de\.gz .*expected sha256 {expected}\. Received: {received}\."):
        multi30k(folder)
    path.unlink()
    with pytest.raises(CorpusError, match=r"val\.de\.gz cannot be read"):
        multi30k(folder)
    with pytest.raises(CorpusError, match=r"nowhere is not a folder.*train\.en\.gz"):
        multi30k(folder / "nowhere")
    with pytest.raises(CorpusError, match=r"en-de, de-en\. Received: 'en-fr'"):
        multi30k(folder, "en-fr")


def test_the_hashes_are_complete():
    assert len(set(corpora.MULTI30K_SHA256.values())) == 8
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in corpora.MULTI30K_SHA256.values())


def _files(folder, count):
    source = _write(folder, "text.en", "".join(f"sentence {row % (count - 3)}\n" for row in range(count)))
    target = _write(folder, "text.de.gz", "".join(f"Satz {row}\n" for row in range(count)))
    return source, target


def test_parallel_splits(tmp_path):
    corpus = parallel(*_files(tmp_path, 103), seed=4)
    parts = [corpus.train, corpus.validation, corpus.tests["test"]]
    assert [pairs.name for pairs in parts] == ["train", "validation", "test"]
    assert sorted(target for pairs in parts for target in pairs.target) == sorted(f"Satz {row}" for row in range(103))
    for pairs in parts:
        for source, target in zip(pairs.source, pairs.target, strict=True):
            assert int(source.split()[1]) == int(target.split()[1]) % 100
    sentences = [set(pairs.source) for pairs in parts]
    assert [len(one) for one in sentences] == [90, 5, 5]
    assert len(set.union(*sentences)) == 100  # no sentence in two of them
    assert (corpus.source_language, corpus.target_language, corpus.notice) == ("en", "de", None)


def test_parallel_splits_by_seed(tmp_path):
    files = _files(tmp_path, 103)
    once, again, other = (parallel(*files, seed=seed) for seed in (4, 4, 5))
    assert once == again
    assert once.validation.source != other.validation.source


def test_parallel_with_files_for_the_sets(tmp_path):
    files = _files(tmp_path, 103)
    held = _write(tmp_path, "val.txt", "a\nb\n"), _write(tmp_path, "val.de", "c\nd\n")
    corpus = parallel(*files, validation=held, tests={"mine": held})
    assert corpus.train.source == [f"sentence {row % 100}" for row in range(103)]
    assert corpus.validation == Pairs(["a", "b"], ["c", "d"], "validation")
    assert corpus.tests == {"mine": Pairs(["a", "b"], ["c", "d"], "mine")}
    corpus = parallel(*files, validation=held, tests={})
    assert (len(corpus.train), corpus.tests) == (103, {})
    corpus = parallel(held[0], held[1], validation=held)
    assert (len(corpus.train), len(corpus.tests["test"]), corpus.source_language) == (1, 1, "source")


def test_too_little_to_split(tmp_path):
    files = _write(tmp_path, "a.en", "one\none\ntwo\n"), _write(tmp_path, "a.de", "eins\nein\nzwei\n")
    with pytest.raises(CorpusError, match="2 different sentences cannot be split into train, validation, test"):
        parallel(*files)
