import math

import numpy as np
import pytest

from kmha import show

BATCH, HEADS, QUERIES, KEYS = 2, 3, 7, 5


def _scores(queries=QUERIES, keys=KEYS, seed=1):
    logits = np.random.default_rng(seed).normal(size=(BATCH, HEADS, queries, keys)) * 3
    weights = np.exp(logits)
    return weights / weights.sum(-1, keepdims=True)


def _expected(scores, head, query_mask, key_mask, separators):
    """The same in loops over the items, queries and keys."""
    values = {name: [] for name in ("entropy", "confidence", "distance", "previous", "same", "next", "separators")}
    queries = 0
    for item in range(len(scores)):
        for t, row in enumerate(scores[item, head].tolist()):
            if not query_mask[item][t] or not any(row):
                continue
            queries += 1
            values["entropy"].append(-sum(p * math.log(p) for p in row if p))
            values["confidence"].append(max(row))
            values["distance"].append(sum(p * abs(t - s) for s, p in enumerate(row)))
            values["separators"].append(sum(p for p, chosen in zip(row, separators[item], strict=True) if chosen))
            for name, s in (("previous", t - 1), ("same", t), ("next", t + 1)):
                if 0 <= s < len(row) and key_mask[item][s]:
                    values[name].append(row[s])
    return queries, {name: sum(found) / len(found) for name, found in values.items()}


@pytest.mark.parametrize(("queries", "keys"), [(QUERIES, KEYS), (KEYS, QUERIES), (KEYS, KEYS)])
def test_as_written_in_loops(queries, keys):
    scores = _scores(queries, keys)
    scores[0, 1, 2] = 0  # one head masks this query
    scores[1, :, 0] = 0
    query_mask = np.arange(queries) < np.array([[queries], [queries - 2]])
    key_mask = np.arange(keys) < np.array([[keys - 1], [keys]])
    separators = np.zeros((BATCH, keys), bool)
    separators[0, [1, 3]] = separators[1, 2] = True
    found = show.analytics({"a": scores}, query_mask=query_mask, key_mask=key_mask, separators=separators)
    assert [(one.layer, one.head) for one in found] == [("a", head) for head in range(HEADS)]
    for one in found:
        number, expected = _expected(scores, one.head, query_mask, key_mask, separators)
        assert one.queries == number
        for name, value in expected.items():
            assert getattr(one, name) == pytest.approx(value, rel=1e-12), name


def test_heads_of_known_kinds():
    eye = np.eye(KEYS)
    previous = np.roll(eye, -1, axis=1)
    previous[0] = eye[0]
    uniform = np.full((KEYS, KEYS), 1 / KEYS)
    first = np.zeros((KEYS, KEYS))
    first[:, 0] = 1
    found = show.analytics(np.stack([eye, previous, uniform, first]), separators=np.arange(KEYS) == 0)
    assert [one.same for one in found] == pytest.approx([1, 1 / KEYS, 1 / KEYS, 1 / KEYS])
    assert [one.previous for one in found] == pytest.approx([0, 1, 1 / KEYS, 1 / (KEYS - 1)])
    assert [one.next for one in found] == pytest.approx([0, 0, 1 / KEYS, 0])
    assert [one.separators for one in found] == pytest.approx([1 / KEYS, 2 / KEYS, 1 / KEYS, 1])
    assert [one.entropy for one in found] == pytest.approx([0, 0, math.log(KEYS), 0])
    assert [one.confidence for one in found] == pytest.approx([1, 1, 1 / KEYS, 1])
    assert [one.distance for one in found] == pytest.approx([0, (KEYS - 1) / KEYS, (KEYS**2 - 1) / (3 * KEYS), 2])


def test_padding_changes_nothing():
    """A sentence alone, and beside a longer one with padding and masked keys."""
    scores = _scores(4, 4)[:1]
    alone = show.analytics(scores)
    padded = np.zeros((1, HEADS, 6, 6))
    padded[:, :, :4, :4] = scores
    padded[:, :, 4:, :4] = 0.25  # what a model computes at padded queries
    mask = np.arange(6) < 4
    found = show.analytics(padded, query_mask=mask, key_mask=mask)
    np.testing.assert_array_equal([repr(one) for one in found], [repr(one) for one in alone])


def test_a_head_that_attends_to_nothing():
    scores = _scores()
    scores[:, 1] = 0
    one = show.analytics(scores)[1]
    assert one.queries == 0
    assert all(math.isnan(getattr(one, name)) for name in ("entropy", "confidence", "distance", "same"))


def test_masks_by_layer():
    scores = {"encoder": _scores(KEYS, KEYS), "cross": _scores()}
    masks = {"encoder": np.arange(KEYS) < 3}
    found = show.analytics(scores, query_mask=masks, separators={"cross": np.arange(KEYS) == 1})
    assert [one.queries for one in found] == [3 * BATCH] * HEADS + [QUERIES * BATCH] * HEADS
    assert [math.isnan(one.separators) for one in found] == [True] * HEADS + [False] * HEADS


def test_a_capture():
    import keras

    import kmha

    model = keras.Sequential([keras.layers.Embedding(13, 6), kmha.layers.EncoderLayer(6, HEADS, 8, name="block")])
    with show.capture(model) as captured:
        model(np.ones((BATCH, KEYS), "int32"))
    found = show.analytics(captured)
    assert [(one.layer, one.head) for one in found] == [("block/mha", head) for head in range(HEADS)]
    assert found[2].entropy == pytest.approx(math.log(KEYS), rel=1e-5)  # equal tokens get equal scores


def test_the_table():
    text = str(show.analytics({"self": np.eye(3)[None], "cross": np.full((1, 3, 4), 0.25)}))
    assert text.splitlines() == [
        "layer  head  queries  entropy (nats)  confidence  distance  previous   same   next",
        "self      0        3           0.000       1.000     0.000     0.000  1.000  0.000",
        "cross     0        3           1.386       0.250     1.167     0.250  0.250  0.250",
    ]
    assert "separators" in str(show.analytics(np.eye(3)[None], separators=np.arange(3) == 0)).splitlines()[0]


@pytest.mark.parametrize(
    ("scores", "masks", "message"),
    [
        ({}, {}, "there are no scores"),
        (np.ones((3, 4)), {}, r"expected \(H, T, S\) or \(B, H, T, S\). Received the shape \(3, 4\)"),
        (np.ones((1, 2, 3)), {}, "rows that add up to 3 to 3. Apply the softmax"),
        (np.array([[[2.0, -1.0]]]), {}, "which are at least 0"),
        (np.full((1, 2, 2), np.nan), {}, "after the softmax"),
        (
            _scores(),
            {"query_mask": np.ones((KEYS,), bool)},
            r"`query_mask` .* \(2, 7\) or \(7,\). Received: dtype bool",
        ),
        (_scores(), {"key_mask": np.ones(KEYS)}, "dtype float64"),
        (_scores(), {"query_mask": [[True], [True, False]]}, r"`query_mask` as a boolean .*dtype object, shape \(2,\)"),
        (
            {"a": _scores()},
            {"query_mask": {"b": np.ones(QUERIES, bool)}},
            "`query_mask` has masks for layers without scores: b. There are scores of: a",
        ),
        (_scores(), {"separators": np.ones((QUERIES,), bool)}, r"`separators` as a boolean .*shape \(7,\)"),
    ],
)
def test_wrong_arguments(scores, masks, message):
    with pytest.raises(ValueError, match=message):
        show.analytics(scores, **masks)
