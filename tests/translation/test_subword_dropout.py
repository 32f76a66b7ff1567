import numpy as np
import pytest

pytest.importorskip("tokenizers")

from kmha.translation.subword_dropout import DRAWS, SubwordDropout
from kmha.translation.tokenizer import Tokenizer

COLOURS = ("red", "green", "blue", "grey")
TEXTS = [
    *(f"A {colour} bird-house, seen by {count} children's fathers." for colour in COLOURS for count in range(7, 30)),
    *(f"Ein Vogelhäuschen in {colour}: größer als {count} Häuser?" for colour in COLOURS for count in range(31, 50)),
]
UNUSUAL = ["", " \n", "red 犬猫 bird", "red犬bird", "犬", "...", "children'sbird...", "[END] banana bananas"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, 150)


def _draw(tokenizer, texts, rate, seed=3, longest=99, draw=5):
    return SubwordDropout(tokenizer, texts, rate, seed, longest)(np.random.default_rng(draw)).rows()


@pytest.mark.parametrize("texts", [TEXTS, UNUSUAL, []])
def test_without_dropped_merges_the_ids_are_those_of_the_library(tokenizer, texts):
    assert _draw(tokenizer, texts, 0.0) == tokenizer.encode(texts)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_other_subwords_are_the_same_text(tokenizer, rate):
    texts = [*TEXTS, *UNUSUAL]
    ids = _draw(tokenizer, texts, rate)
    assert [*map(tokenizer.decode, ids)] == [*map(tokenizer.decode, tokenizer.encode(texts))]
    assert sum(map(len, ids)) > sum(map(len, tokenizer.encode(texts)))


def test_a_larger_rate_leaves_smaller_parts(tokenizer):
    totals = [sum(map(len, _draw(tokenizer, TEXTS, rate))) for rate in (0.0, 0.1, 0.5, 0.99)]
    assert totals == sorted(totals)
    assert totals[-1] > 0.9 * sum(len(text) for text in TEXTS)  # almost all are single characters


def test_every_pass_draws_anew_and_every_seed_gives_the_same_again(tokenizer):
    draws = SubwordDropout(tokenizer, TEXTS, 0.5, 3, 99)
    first, second = (draws(np.random.default_rng(number)).rows() for number in (1, 2))
    assert first != second
    assert first == _draw(tokenizer, TEXTS, 0.5, draw=1) != _draw(tokenizer, TEXTS, 0.5, seed=4, draw=1)


def test_the_same_word_is_split_differently_in_a_text(tokenizer):
    text = " ".join(["children"] * 200)
    [ids] = _draw(tokenizer, [text], 0.5, longest=9999)
    words = " ".join(tokenizer.tokens(ids)).split("▁")[1:]
    assert 3 < len(set(words)) <= DRAWS


def test_a_draw_that_is_too_long_is_encoded_without_dropout(tokenizer):
    whole = tokenizer.encode(TEXTS)
    longest = max(map(len, whole))
    drawn = _draw(tokenizer, TEXTS, 0.02, longest=longest)
    assert max(map(len, drawn)) <= longest
    kept = [one == other for one, other in zip(drawn, whole, strict=True)]
    assert any(kept)
    assert not all(kept)


def test_a_merge_is_dropped_at_its_rate():
    """A word that begins with a space has one merge here, which is possible once."""
    tokenizer = Tokenizer.train(["a a"] * 3, vocabulary_size=7)
    assert tokenizer.merges == {("▁", "a"): 0}
    whole, rate = tokenizer.encode(["a"]), 0.3
    lengths = [
        len(SubwordDropout(tokenizer, ["a"], rate, seed, 99)(np.random.default_rng(seed)).rows()[0])
        for seed in range(2000)
    ]
    assert len(whole[0]) == 1
    assert abs(np.mean(lengths) - 1 - rate) < 0.04
