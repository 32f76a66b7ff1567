import pytest

from kmha.bench import cases
from kmha.bench.cases import Row


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2x1000", ((2, 1000),)), ("3X7", ((3, 7),)), ("5×11", ((5, 11),)), ("long", ((1, 4096),))],
)
def test_sizes(text, expected):
    assert cases.sizes(text) == expected


@pytest.mark.parametrize("text", ["", "tall", "7", "x7", "7x", "0x7", "7x0", "-2x7", "2.5x7", "2x3x5"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match=r"expected short, medium, long or BxT .* Received: "):
        cases.sizes(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 30, "heads": 4}, "width 30, 4 heads. Give a width of 28 or 32, or other heads"),
        ({"width": 3, "heads": 4}, "width 3, 4 heads. Give a width of 4 or 4"),
        ({"heads": 0}, "heads must be 1 or more. Received: 0"),
        ({"kind": "sparse"}, "kind must be one of plain, causal"),
        ({"mode": "jit"}, "mode must be one of eager, graph, xla"),
    ],
)
def test_rows_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        Row(2, 7, **arguments)


def test_masks_are_measured_unasked_where_they_matter():
    rows = cases.select([(2, 7), (1, cases.LONG)])
    assert [row.kind for row in rows if row.length == 7] == ["plain"] * 2
    assert {row.kind for row in rows if row.length == cases.LONG} == set(cases.KINDS)
    assert [row.step for row in rows[:4]] == [False, True, False, True]


def test_select_combines_what_is_chosen():
    chosen = {"kinds": ["causal"], "passes": ["step"], "modes": ["xla", "eager"], "width": 6, "heads": 3}
    assert cases.select([(2, 7), (2, 7)], **chosen) == [
        Row(2, 7, 6, 3, "causal", True, "xla"),
        Row(2, 7, 6, 3, "causal", True, "eager"),
    ]


def test_a_picture_shows_one_series():
    series = [(1, 7), (1, 11)]
    cases.check_series(cases.select(series, ["causal"]))
    with pytest.raises(ValueError, match=r"one kind only. Received: causal, plain"):
        cases.check_series(cases.select(series, ["plain", "causal"]))
    with pytest.raises(ValueError, match=r"one batch only. Received: 1, 2"):
        cases.check_series(cases.select([(1, 7), (2, 11)]))
    with pytest.raises(ValueError, match=r"two lengths at least. Received: \[7\]"):
        cases.check_series(cases.select(series[:1]))


def test_what_contenders_are_made_of(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else name)
    found = {name: cases.is_installed(name) for name in cases.ALL_PEERS}
    assert found == {"addons": True, "torch": False, "sdpa": False, "keras_hub": True}
