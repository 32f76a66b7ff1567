import builtins
import json
import os
import subprocess
import sys
import unicodedata

import pytest

pytest.importorskip("tokenizers")

from kmha.translation.tokenizer import END, PAD, START, UNKNOWN, Tokenizer, TokenizerError

COLOURS = ("red", "green", "blue", "grey")
TEXTS = [
    *(f"A {colour} bird-house, seen by {count} children's fathers." for colour in COLOURS for count in range(7, 30)),
    *(f"Ein Vogelhäuschen in {colour}: größer als {count} Häuser?" for colour in COLOURS for count in range(31, 50)),
]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, 150)


def test_lossless(tokenizer):
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert tokenizer.decode(ids) == text
        assert len(ids) < len(text)
        assert UNKNOWN not in ids
    assert tokenizer.vocabulary_size == 150


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  red\tbird \n", "red bird"),
        ("red\u2028bird\u00a0house", "red bird house"),
        ("red ▁ bird", "red bird"),
        (unicodedata.normalize("NFD", "größer als Häuser"), "größer als Häuser"),
        ("red , bird .", "red , bird ."),
        ("children'sbird...", "children'sbird..."),
        ("red 犬猫 bird", "red ⁇ bird"),
        ("red犬bird", "red⁇bird"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_decoded(tokenizer, text, expected):
    [ids] = tokenizer.encode([text])
    assert tokenizer.decode(ids) == expected


def test_special_tokens(tokenizer):
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3)
    [ids] = tokenizer.encode(["red bird"])
    assert tokenizer.decode([START, *ids, END, PAD, PAD]) == "red bird"
    assert tokenizer.tokens([START, END, PAD, UNKNOWN]) == ["[START]", "[END]", "[PAD]", "[UNK]"]


def test_text_holds_no_special_tokens():
    tokenizer = Tokenizer.train(["[END] [PAD] [START] [UNK]"] * 2, 60)
    [ids] = tokenizer.encode(["[END] [PAD][START] [UNK]"])
    assert min(ids) > UNKNOWN
    assert tokenizer.decode(ids) == "[END] [PAD][START] [UNK]"


def test_a_character_that_occurs_once_is_unknown():
    tokenizer = Tokenizer.train(["ab ab", "ab ac"], 12)
    assert tokenizer.encode(["c"])[0][-1] == UNKNOWN
    assert UNKNOWN not in tokenizer.encode(["b a"])[0]


def test_tokens_are_words_pieces_and_punctuation(tokenizer):
    [ids] = tokenizer.encode(["A bird-house, seen."])
    assert tokenizer.tokens(ids) == ["▁A", "▁bird", "-", "house", ",", "▁seen", "."]


def test_lowercase():
    tokenizer = Tokenizer.train(TEXTS, 150, lowercase=True)
    [ids, same] = tokenizer.encode(["EIN Vogelhäuschen", "ein vogelhäuschen"])
    assert ids == same
    assert tokenizer.decode(ids) == "ein vogelhäuschen"


def test_split_digits():
    texts = ["2015-05-03", "2015-05-04", "2016-05-03"] * 5
    split = Tokenizer.train(texts, 60, split_digits=True)
    assert split.tokens(split.encode(["2015-05"])[0]) == ["▁", "2", "0", "1", "5", "-", "0", "5"]
    assert split.decode(split.encode(["2016-04-30"])[0]) == "2016-04-30"
    whole = Tokenizer.train(texts, 60)
    assert "▁2015" in whole.tokens(whole.encode(["2015-05"])[0])


def test_saved_and_loaded(tokenizer, tmp_path):
    for number, one in enumerate((tokenizer, Tokenizer.train(TEXTS, 140, lowercase=True, split_digits=True))):
        path = tmp_path / f"tokenizer{number}.json"
        one.save(path)
        loaded = Tokenizer.load(path)
        strange = [*TEXTS, "Größe 猫 17", "[END] red\u2028bird", ""]
        ids = one.encode(strange)
        assert loaded.encode(strange) == ids
        assert [loaded.decode(each) for each in ids] == [one.decode(each) for each in ids]
        assert loaded.vocabulary_size == one.vocabulary_size
        loaded.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_training_is_deterministic(tokenizer, tmp_path):
    """Also in another process, whose hash tables have other seeds."""
    texts, there, here = tmp_path / "texts.json", tmp_path / "there.json", tmp_path / "here.json"
    texts.write_text(json.dumps(TEXTS))
    code = (
        "import json, sys; from pathlib import Path; from kmha.translation.tokenizer import Tokenizer\n"
        "Tokenizer.train(json.loads(Path(sys.argv[1]).read_text()), 150).save(Path(sys.argv[2]))"
    )
    subprocess.run([sys.executable, "-c", code, texts, there], check=True)
    tokenizer.save(here)
    assert there.read_bytes() == here.read_bytes()


def test_too_small_a_vocabulary():
    with pytest.raises(TokenizerError, match=r"vocabulary_size must be at least 8\. Received: 7"):
        Tokenizer.train(["ab ba cab c"], 7)
    assert Tokenizer.train(["ab ba cab c"], 8).vocabulary_size == 8


@pytest.mark.parametrize("texts", [[], ["", " "], ["a"]])
def test_no_text(texts):
    with pytest.raises(TokenizerError, match="expected text for the vocabulary"):
        Tokenizer.train(texts, 50)


def test_one_text_instead_of_many(tokenizer):
    with pytest.raises(TokenizerError, match=r"write encode\(\['red'\]\)"):
        tokenizer.encode("red")


@pytest.mark.parametrize("wrong", [-1, 150])
def test_ids_out_of_range(tokenizer, wrong):
    for method in (tokenizer.decode, tokenizer.tokens):
        with pytest.raises(TokenizerError, match=f"from 0 to 149. Received: {wrong}"):
            method([5, wrong])


def _broken(data, change):
    value = json.loads(data)
    change(value)
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "is not a tokenizer"),
        (lambda data: b"\xff\x00nothing", "is not a tokenizer"),
        (lambda data: data[: len(data) // 2], "is not a tokenizer"),
        (lambda data: b"{}", "is not a tokenizer"),
        (lambda data: b"[" * 100_000, "is not a tokenizer"),
        (lambda data: _broken(data, lambda value: value["model"].pop("vocab")), "is not a tokenizer"),
        (
            lambda data: _broken(data, lambda value: value["model"]["merges"].append(["no", "such"])),
            "is not a tokenizer",
        ),
        (lambda data: _broken(data, lambda value: value["model"]["vocab"].update(hole=7000)), "without gaps"),
        (lambda data: _broken(data, lambda value: value.update(added_tokens=[])), None),
        (lambda data: data.replace(b"[END]", b"[EOS]"), r"must be \[PAD\] \[START\] \[END\] \[UNK\]"),
    ],
)
def test_broken_file(tokenizer, tmp_path, change, message):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    path.write_bytes(change(path.read_bytes()))
    if message is None:
        assert Tokenizer.load(path).encode(TEXTS) == tokenizer.encode(TEXTS)
        return
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def _split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


DOUBLE = {"type": "Replace", "pattern": {"Regex": "."}, "content": "aa"}
DOUBLED = {"type": "Sequence", "normalizers": [DOUBLE] * 12}
ADDED = {"id": 4, "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(normalizer=DOUBLED),
        lambda value: value["normalizer"]["normalizers"].append(DOUBLE),
        lambda value: value["normalizer"]["normalizers"][1].update(pattern={"Regex": "(a+)+$"}),
        lambda value: value["normalizer"]["normalizers"][1].update(content=" " * 1000),
        lambda value: value.update(normalizer=None),
        lambda value: value.update(pre_tokenizer=_split("(a+)+$")),
        lambda value: value["pre_tokenizer"]["pretokenizers"].append(_split("(?:a|a|aa|b)*c")),
        lambda value: value["pre_tokenizer"].update(type="Whitespace"),
        lambda value: value.update(decoder={"type": "Sequence", "decoders": [DOUBLE] * 12}),
        lambda value: value.update(post_processor=value["pre_tokenizer"]),
        lambda value: value["model"].update(dropout=0.5),
        lambda value: value["model"].update(type="WordPiece"),
    ],
)
def test_a_file_with_other_rules_than_those_of_kmha(tokenizer, tmp_path, change):
    """The library obeyed them: a text grew without end, or a regular expression took years, and Ctrl-C waited."""
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    path.write_bytes(_broken(path.read_bytes(), change))
    with pytest.raises(TokenizerError, match=r"was not written by kmha: it has other rules than .*Copy the file again"):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value["model"]["vocab"].update({"red": True}), "must be whole numbers"),
        (lambda value: value["model"]["vocab"].update({"red": "x"}), "must be whole numbers"),
        (lambda value: value["model"].update(vocab=[1, 2]), "is not a tokenizer"),
        (lambda value: value["model"].update(merges=3), "is not a tokenizer"),
        (lambda value: value["model"].update(merges=[[1, 2]]), "is not a tokenizer"),
        (lambda value: value["model"].update(merges=[["a"]]), "is not a tokenizer"),
        (lambda value: value["model"].update(merges=["\x1b[31m x"]), "is not a tokenizer"),
        (lambda value: value["model"]["vocab"].update({"\ud800": len(value["model"]["vocab"])}), "is not a tokenizer"),
        (lambda value: value.update(more=[[]] * (4 << 20)), "is too large: it has more than 4,194,304 brackets"),
    ],
)
def test_a_file_with_odd_values(tokenizer, tmp_path, change, message):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    path.write_bytes(_broken(path.read_bytes(), change))
    with pytest.raises(TokenizerError, match=message) as caught:
        Tokenizer.load(path)
    assert str(caught.value).isprintable()


def test_files_of_other_versions_of_the_library(tokenizer, tmp_path):
    """They write merges as texts, and other fields."""
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    value = json.loads(path.read_text())
    value["model"]["merges"] = [" ".join(pair) for pair in value["model"]["merges"]]
    value["model"].pop("ignore_merges")
    value["model"]["later"] = value["normalizer"]["later"] = 3
    value["added_tokens"].append({**ADDED, "content": "red"})  # it is not used
    path.write_text(json.dumps(value))
    loaded = Tokenizer.load(path)
    assert loaded.encode([*TEXTS, "red [END]"]) == tokenizer.encode([*TEXTS, "red [END]"])


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("split_digits", [False, True])
def test_all_rules_are_loaded(tmp_path, lowercase, split_digits):
    made = Tokenizer.train(TEXTS, 150, lowercase=lowercase, split_digits=split_digits)
    for name in ("one.json", "two.json"):
        made.save(tmp_path / name)
        loaded = Tokenizer.load(tmp_path / name)
        texts = [*TEXTS, "Red [END] 1234"]
        assert loaded.encode(texts) == made.encode(texts)
        loaded.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == (tmp_path / name).read_bytes()


def test_missing_file(tmp_path):
    with pytest.raises(TokenizerError, match=r"nothing\.json cannot be read: No such file"):
        Tokenizer.load(tmp_path / "nothing.json")


def test_a_file_cannot_cut_or_pad(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    value = json.loads(path.read_text())
    value["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(value))
    assert Tokenizer.load(path).encode(TEXTS) == tokenizer.encode(TEXTS)


def test_forks_do_not_warn():
    assert os.environ["TOKENIZERS_PARALLELISM"] in ("true", "false")


def test_without_the_library(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "tokenizers":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TokenizerError, match=r"^tokenizers is not installed\. Run: pip install 'kmha\[translate\]'$"):
        Tokenizer.train(TEXTS, 150)
