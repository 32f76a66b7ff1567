import numpy as np
import pytest

from kmha.verify import Decoding, diagnose
from kmha.verify.diagnosing.caches.cache_diagnosis import expected_influences
from kmha.verify.diagnosing.caches.protocols import find_decoding
from kmha.verify.mistakes import BANK

TORCH = [
    ("Returned", {}, ()),
    ("Returned", {"wrong": "stale"}, ("cache-stale",)),
    ("Returned", {"wrong": "withheld"}, ("cache-withheld",)),
    ("Returned", {"wrong": "first lost"}, ("cache-loses-first",)),
    ("Returned", {"wrong": "last lost"}, ("cache-loses-last",)),
    ("Returned", {"wrong": "truncated"}, ("cache-truncated-to-4",)),
    ("Returned", {"wrong": "half"}, ("cache-float16",)),
    ("Returned", {"wrong": "not reordered"}, ("cache-of-earlier-items",)),
    ("Returned", {"wrong": "keys as values"}, ("cache-keys-as-values",)),
    ("Returned", {"wrong": "corner"}, ("cache-causal-corner",)),
    ("OfThree", {}, ()),
    ("OfThree", {"wrong": "value is key"}, ("inputs-value-is-key",)),  # decoding with a cache does not show it
    ("Kept", {"d_in": 12, "d_out": 12, "context_length": 64, "num_heads": 2}, ()),
    (
        "Kept",
        {"d_in": 12, "d_out": 12, "context_length": 64, "num_heads": 2, "wrong": "not reset"},
        ("cache-leaks-and-hides",),
    ),
    ("Preallocated", {}, ()),
    ("Preallocated", {"wrong": "early"}, ("cache-written-early-into-slots",)),
    ("Model", {}, ()),
    ("Model", {"wrong": "withheld"}, ("cache-withheld",)),
]


def test_attention_that_kmha_can_compare_with_itself_alone_is_not_called_right(candidate):
    found = diagnose(candidate("torch_caches", "OfUnknownWeights")())
    assert found.verdict == "unjudged"
    said = " ".join(str(found).split())
    assert "decoding with its cache gives the numbers of decoding without it" in said
    assert "kmha has compared nothing else" in said
    assert "its weights do not fit" in said


@pytest.mark.parametrize(("name", "options", "ids"), TORCH)
def test_torch(candidate, name, options, ids):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    found = diagnose(candidate("torch_caches", name)(**options))
    assert (found.ids, found.verdict) == (ids, "known" if ids else "right")


def test_a_cache_that_the_caller_has_to_prepare_is_not_accused(candidate):
    """dalle-pytorch reads its cache once the caller has counted positions in it, and was said to withhold it."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    found = diagnose(candidate("torch_caches", "Prepared")())
    assert (found.verdict, found.ids) == ("right", ())
    assert "Its cache could not be judged" in str(found)


def test_a_model_whose_numbers_alone_are_wrong_gets_no_name(candidate):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    found = diagnose(candidate("torch_caches", "Model")(wrong="positions restart"))
    assert found.verdict == "unknown"
    assert "the mistake is in the numbers" in str(found)


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("returned", ()),
        ("two_caches", ()),
        ("in_a_dict", ()),
        ("overwritten", ()),  # right, if the caller appends
        ("overwritten_in_place", ("cache-keeps-last-call",)),
        ("upper_left", ("cache-causal-corner",)),
        ("shared_by_requests", ()),
    ],
)
def test_functions(candidate, name, ids):
    found = diagnose(candidate("array_caches", name))
    assert (found.ids, found.verdict) == (ids, "known" if ids else "right")


def test_two_mistakes(candidate):
    found = diagnose(candidate("array_caches", "two_mistakes"))
    assert sorted(found.ids) == ["cache-of-earlier-items", "cache-truncated-to-4"]


def test_the_report_says_how_sure_it_is_and_what_to_do(candidate):
    text = str(diagnose(candidate("array_caches", "overwritten_in_place")))
    assert "overwritten_in_place is wrong: this mistake in its cache gives the same numbers in all 7 runs" in (
        text.replace("\n", " ")
    )
    assert "cache-keeps-last-call: You overwrote the cache" in text
    assert "Look at the line that writes the new key and value into the cache." in text
    text = str(diagnose(candidate("array_caches", "overwritten"))).replace("\n", " ")
    assert "Its cache is right, if the caller appends what a call returns" in text
    assert "Does the caller pass it on as it is? Then return the keys and values of all positions." in text


def test_a_right_function_says_so_for_itself_and_for_its_cache(candidate):
    found = diagnose(candidate("array_caches", "returned"))
    assert "returned is right: its numbers are those of the reference" in str(found)
    assert "Its cache is right" in str(found)


def test_an_argument_that_kmha_does_not_know_forbids_an_accusation(candidate):
    found = diagnose(find_decoding(candidate("array_caches", "with_an_unknown_argument"), {}))
    assert found.verdict == "unjudged"
    assert "kmha.verify.Decoding" in str(found)


def test_a_decoding_in_the_users_own_words(candidate):
    function = candidate("array_caches", "with_an_unknown_argument")

    def step(tokens, cache, position):
        return function(tokens, cache=cache, shift=position)

    right = Decoding(lambda tokens: function(tokens)[0], lambda batch, length: None, step, width=4)
    assert diagnose(right).verdict == "right"
    wrong = Decoding(
        right.full,
        right.start,
        lambda tokens, cache, position: function(tokens, cache=cache, shift=0),
        width=4,
        positions=lambda tokens, places: (
            function(tokens)[0] - np.cos(np.arange(len(places)))[:, None] + np.cos(places)[:, None]
        ),
    )
    assert diagnose(wrong).ids == ("cache-position-restarts",)


def test_several_layers_are_judged_by_what_each_position_depends_on():
    """The candidate is two layers of running means that lose a position in every call. No sequence has its numbers."""

    def means(x):
        return np.cumsum(x, 1) / np.arange(1, x.shape[1] + 1)[:, None]

    def step(tokens, cache, position):
        outputs = []
        for index in range(tokens.shape[1]):
            below = [*cache[0][1:], tokens[:, index]] if position else [*cache[0], tokens[:, index]]
            above = [*cache[1][1:], np.mean(below, 0)] if position else [*cache[1], np.mean(below, 0)]
            cache = below, above
            outputs.append(np.mean(above, 0))
        return np.stack(outputs, 1), cache

    found = diagnose(Decoding(lambda x: means(means(x)), lambda batch, length: ([], []), step, width=3))
    assert (found.verdict, found.ids) == ("known", ("cache-loses-first",))
    assert "The numbers do not tell more." in str(found)


def test_influences():
    from kmha.verify.chains.caches import SequenceAttend, trial_of

    attend = SequenceAttend(lambda x: np.cumsum(x, 1), ordered=False)
    trial = trial_of("", [np.zeros((2, 3, 1)), np.zeros((2, 2, 1))], [[2, 1], [1, 1]], 9, attend)
    right = expected_influences(trial, [], 1)
    assert right[2] == {(1, 0, 0), (1, 0, 1), (1, 0, 2)}
    assert right[4] == {(1, 1, 0), (1, 1, 1)}
    leaking = expected_influences(trial, [BANK["cache-leaks"]], 1)
    assert leaking[3] == {(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 1, 0)}
    rolled = expected_influences(trial, [BANK["cache-of-next-item"]], 1)
    assert rolled[2] == {(0, 0, 0), (0, 0, 1), (1, 0, 2)}
