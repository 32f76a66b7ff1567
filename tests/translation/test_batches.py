from itertools import islice

import numpy as np
import pytest

from kmha.translation.batches import Ragged, inference_batches, rows_that_fit, training_batches, validation_batches
from kmha.translation.tokenizer import END, PAD, START

PAIRS, LONGEST = 1009, 41


@pytest.fixture(scope="module")
def ids():
    """Pairs whose first source token names them; lengths are alike on both sides, as they are in text."""
    random = np.random.default_rng(7)
    source, target = [], []
    for row in range(PAIRS):
        length = int(random.integers(1, 31))
        other = max(0, length + int(random.integers(-4, 5)))
        source.append([100 + row, *random.integers(4, 90, length - 1).tolist()])
        target.append(random.integers(4, 90, other).tolist())
    return source, target


def _pass(ids, count, **options):
    return list(islice(training_batches(*ids, **options), count))


def _first_pass(ids, **options):
    seen, batches = 0, []
    for batch in training_batches(*ids, **options):
        batches.append(batch)
        seen += len(batch.target)
        if seen >= len(ids[0]):
            return batches


OPTIONS = {"tokens": 300, "seed": 3, "max_length": LONGEST}


def _named(batch):
    return (batch.inputs[0][:, 0] - 100).tolist()


def test_contents_of_a_batch(ids):
    for batch in _pass(ids, 40, **OPTIONS):
        (source, target_in), target_out = batch
        assert source.dtype == target_in.dtype == target_out.dtype == np.int32
        width, target_width = 0, 0
        for row, name in enumerate(_named(batch)):
            x, y = ids[0][name], ids[1][name]
            assert source[row].tolist() == x + [2] + [0] * (source.shape[1] - len(x) - 1)
            assert target_in[row].tolist() == [1, *y] + [0] * (target_in.shape[1] - len(y) - 1)
            assert target_out[row].tolist() == [*y, 2] + [0] * (target_in.shape[1] - len(y) - 1)
            width, target_width = max(width, len(x) + 1), max(target_width, len(y) + 1)
        assert source.shape == (len(source), width)
        assert target_in.shape == (len(source), target_width)


def test_a_pass_has_every_pair_once(ids):
    batches = _first_pass(ids, **OPTIONS)
    assert sorted(name for batch in batches for name in _named(batch)) == list(range(PAIRS))


@pytest.mark.parametrize("multiple", [1, 8])
def test_batches_are_nearly_full(ids, multiple):
    batches = _first_pass(ids, multiple=multiple, **OPTIONS)
    for (source, target_in), _ in batches:
        assert max(source.size, target_in.size) <= OPTIONS["tokens"]
        assert source.shape[1] % multiple == target_in.shape[1] % multiple == 0
    filled = np.mean([max(source.size, target_in.size) for (source, target_in), _ in batches])
    assert filled > 0.8 * OPTIONS["tokens"]


def test_rounding_up_stops_at_the_maximum():
    (source, target_in), _ = next(training_batches([[5] * 9], [[5] * 4], tokens=30, seed=0, max_length=11, multiple=4))
    assert (source.shape, target_in.shape) == ((1, 11), (1, 8))


def test_little_padding(ids):
    """Batches have less than a third of the padding of randomly composed batches."""
    options = {**OPTIONS, "tokens": 600}
    batches = _first_pass(ids, **options)
    used = sum(len(x) + 1 for x in ids[0]) + sum(len(y) + 1 for y in ids[1])
    padded = sum(source.size + target_in.size for (source, target_in), _ in batches)
    anyhow = 0
    for rows in np.array_split(np.random.default_rng(1).permutation(PAIRS), len(batches)):
        longest, other = max(len(ids[0][row]) for row in rows), max(len(ids[1][row]) for row in rows)
        anyhow += len(rows) * (longest + 1 + other + 1)
    assert 1 - used / padded < (1 - used / anyhow) / 3


def test_every_pass_and_seed_has_another_order(ids):
    count = len(_first_pass(ids, **OPTIONS))
    both = _pass(ids, 2 * count, **OPTIONS)
    first, second = both[:count], both[count:]
    lengths = [batch.target.shape[1] for batch in first]
    assert lengths != sorted(lengths)
    partners = {name: set(_named(batch)) for batch in first for name in _named(batch)}
    kept = [len(partners[name] & set(_named(batch))) / len(batch.target) for batch in second for name in _named(batch)]
    assert np.mean(kept) < 0.6  # of those a pair is with, how many it was with before
    other = _pass(ids, count, **{**OPTIONS, "seed": 4})
    assert [_named(batch) for batch in other] != [_named(batch) for batch in first]


@pytest.mark.parametrize("start", [0, 1, 37, 95, 181, 400])
def test_batches_resume_at_any_step(ids, start):
    unbroken = _pass(ids, start + 5, **OPTIONS)[start:]
    resumed = _pass(ids, 5, start_step=start, **OPTIONS)
    for one, other in zip(unbroken, resumed, strict=True):
        np.testing.assert_array_equal(one.inputs[0], other.inputs[0])
        np.testing.assert_array_equal(one.inputs[1], other.inputs[1])
        np.testing.assert_array_equal(one.target, other.target)


class _Longer:
    """Appends up to nine tokens to each sequence, as many as fit."""

    def __init__(self, ids):
        self._ids = ids

    def __call__(self, random):
        return Ragged.of([[*one, *[7] * random.integers(10)][: LONGEST - 1] for one in self._ids])


@pytest.mark.parametrize("start", [0, 37, 181])
def test_ids_that_vary_are_planned_anew_in_each_pass_and_resume(ids, start):
    options = {**OPTIONS, "vary": [*map(_Longer, ids)]}
    unbroken = _pass(ids, start + 150, **options)
    for one, other in zip(unbroken[start:], _pass(ids, 150, start_step=start, **options), strict=True):
        np.testing.assert_array_equal(one.inputs[0], other.inputs[0])
        np.testing.assert_array_equal(one.inputs[1], other.inputs[1])
        np.testing.assert_array_equal(one.target, other.target)
    lengths = {name: set() for name in range(PAIRS)}
    for batch in unbroken:
        assert max(batch.inputs[0].size, batch.target.size) <= OPTIONS["tokens"]
        assert max(batch.inputs[0].shape[1], batch.target.shape[1]) <= LONGEST
        assert not (batch.inputs[0] == PAD).all(axis=0).any()  # no column is only padding
        for name, row in zip(_named(batch), batch.inputs[0], strict=True):
            lengths[name].add(np.count_nonzero(row))
    assert start == 0 or any(len(one) > 1 for one in lengths.values())


def test_a_step_far_away_builds_nothing_before_it(ids, monkeypatch):
    from kmha.translation import batches

    built = []
    padded = batches.Ragged.padded

    def counting(self, *args, **kwargs):
        built.append(1)
        return padded(self, *args, **kwargs)

    monkeypatch.setattr(batches.Ragged, "padded", counting)
    next(training_batches(*ids, start_step=5000, **OPTIONS))
    assert len(built) == 3


def test_pairs_that_are_too_long_are_left_out(ids):
    rows = rows_that_fit(*ids, max_length=11)
    expected = [row for row in range(PAIRS) if max(len(ids[0][row]), len(ids[1][row])) <= 10]
    assert rows.tolist() == expected
    assert 0 < len(rows) < PAIRS
    names = []
    for batch in training_batches(*ids, tokens=300, seed=3, max_length=11):
        names += _named(batch)
        if len(names) >= len(rows):
            break
    assert sorted(names) == expected


def test_one_pair_and_empty_sides():
    (source, target_in), target_out = next(training_batches([[], [9]], [[], []], tokens=10, seed=1, max_length=10))
    assert sorted(source.tolist()) == [[2, 0], [9, 2]]
    assert (target_in.tolist(), target_out.tolist()) == ([[1], [1]], [[2], [2]])


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ([[5]], [[5], [6]], {}, "Received: 1 sources and 2 targets"),
        ([], [], {}, "none of 0 pairs"),
        ([[5] * 9], [[5]], {"max_length": 9}, "none of 1 pairs has at most 9 tokens"),
        ([[5]], [[5] * 50], {"tokens": 50}, r"longest sentence, of 51 tokens\. Received: tokens=50"),
    ],
)
def test_wrong_arguments_raise_at_once(source, target, options, message):
    with pytest.raises(ValueError, match=message):
        training_batches(source, target, **{"tokens": 100, "seed": 0, "max_length": 100, **options})


@pytest.mark.parametrize("options", [{"tokens": 90}, {"sentences": 13}, {"tokens": 90, "sentences": 5, "multiple": 4}])
def test_inference_batches_hold_every_sentence_once(ids, options):
    seen, widths = [], []
    for rows, source in inference_batches(ids[0], **options):
        assert source.dtype == np.int32
        assert source.size <= options.get("tokens", source.size)
        assert len(source) <= options.get("sentences", len(source))
        assert source.shape[1] % options.get("multiple", 1) == 0
        for row, line in zip(rows, source, strict=True):
            x = ids[0][row]
            assert line.tolist() == x + [2] + [0] * (source.shape[1] - len(x) - 1)
        seen += rows.tolist()
        widths.append(source.shape[1])
    assert sorted(seen) == list(range(PAIRS))
    assert widths == sorted(widths, reverse=True)


def test_inference_batches_at_the_edges():
    assert list(inference_batches([], sentences=3)) == []
    [(rows, source), (last, rest)] = inference_batches([[5], [6] * 7], tokens=4)
    assert (rows.tolist(), source.shape, last.tolist(), rest.tolist()) == ([1], (1, 8), [0], [[5, 2]])
    with pytest.raises(ValueError, match="tokens=, sentences= or both"):
        next(inference_batches([[5]]))


@pytest.mark.parametrize("tokens", [7, 23, 1000])
def test_validation_batches_hold_every_pair_once(tokens):
    random = np.random.default_rng(3)
    source = [random.integers(4, 50, length).tolist() for length in (3, 1, 5, 3, 2, 1)]
    target = [random.integers(4, 50, length).tolist() for length in (1, 6, 2, 4, 1, 3)]
    found = []
    for (one, target_in), target_out in validation_batches(source, target, tokens):
        assert one.dtype == target_in.dtype == target_out.dtype == "int32"
        assert target_in.shape == target_out.shape
        assert target_out.size <= max(tokens, 7)
        pairs = zip(one, target_in, target_out, strict=True)
        found += [tuple([number for number in row.tolist() if number != PAD] for row in rows) for rows in pairs]
    expected = [([*one, END], [START, *two], [*two, END]) for one, two in zip(source, target, strict=True)]
    assert sorted(found) == sorted(expected)
