import dataclasses

import numpy as np
import pytest

from kmha.translation import scores, translator
from kmha.translation.corpora import Pairs
from kmha.translation.search import Hypothesis
from kmha.translation.settings import Settings
from kmha.translation.tokenizer import END, PAD, START, Tokenizer
from kmha.translation.translator import Translator
from kmha.translation.validation import Scorer, pairs_in_order

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("tokens", [7, 23, 1000])
def test_every_pair_is_there_once(tokens):
    random = np.random.default_rng(3)
    source = [random.integers(4, 50, length).tolist() for length in (3, 1, 5, 3, 2, 1)]
    target = [random.integers(4, 50, length).tolist() for length in (1, 6, 2, 4, 1, 3)]
    found = []
    for (one, target_in), target_out in pairs_in_order(source, target, tokens):
        assert one.dtype == target_in.dtype == target_out.dtype == "int32"
        assert target_in.shape == target_out.shape
        assert target_out.size <= max(tokens, 7)
        pairs = zip(one, target_in, target_out, strict=True)
        found += [tuple([number for number in row.tolist() if number != PAD] for row in rows) for rows in pairs]
    expected = [([*one, END], [START, *two], [*two, END]) for one, two in zip(source, target, strict=True)]
    assert sorted(found) == sorted(expected)


class _Copies:
    """In place of a search: gives the source back, its end cut off."""

    def __init__(self, model, max_length):
        self.max_length = max_length(30)  # which has a limit for every length

    def __call__(self, source):
        rows = [[id_ for id_ in row if id_ not in (PAD, END)][: self.max_length] for row in source.tolist()]
        return [[Hypothesis(tuple(row), 0.0, 0.0, True)] for row in rows]


class _Model:
    """In place of a Transformer: only its room is asked for."""

    def __init__(self, room):
        self._room = room

    def get_config(self):
        return {"max_positional_encoding_input": self._room, "max_positional_encoding_target": self._room}


@pytest.fixture
def scored(monkeypatch):
    monkeypatch.setitem(translator.SEARCHES, "greedy", _Copies)
    texts = ["one two three four", "five", "six seven", "one two four three five"]
    tokenizer = Tokenizer.train(texts * 2, 60)
    pairs = Pairs(texts, [*texts[:2], "six six", "one two four three six"], "validation")
    search = dataclasses.replace(Settings.load("cpu", "dates").search, max_length=13)
    return lambda room=17, **more: Scorer(Translator(_Model(room), tokenizer, search), pairs, **more)()


def test_scores_of_what_was_translated_in_the_order_of_the_text(scored):
    name, value, samples = scored(exact=True, samples=2)
    assert (name, value) == ("exact_match", 50.0)
    assert samples[1] == "  source     five\n  reference  five\n  model      five"
    assert len(samples) == 2
    name, value, _ = scored(exact=False)
    texts = ["one two three four", "five", "six seven", "one two four three five"]
    assert (name, value) == ("bleu", scores.bleu(texts, [*texts[:2], "six six", "one two four three six"]).value)


def test_only_so_many(scored):
    assert scored(exact=True, count=2)[1] == 100.0
    assert scored(exact=True, count=3)[1] == pytest.approx(200 / 3)


def test_sources_that_are_too_long_are_cut(scored):
    assert scored(exact=True, count=2, room=2)[1] < 100
