import pytest

from kmha.bench import cases
from kmha.bench.cases import MODEL_ROWS, AttentionRow, ModelRow


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
        ({"width": 30, "heads": 4}, "width 30, 4 heads. Try width 28 or 32, or another number of heads."),
        ({"width": 3, "heads": 4}, "width 3, 4 heads. Try width 4, or another"),
        ({"heads": 0}, "heads must be at least 1. Received: 0"),
        ({"kind": "sparse"}, "kind must be one of plain, causal"),
        ({"mode": "jit"}, "mode on tensorflow must be one of graph, eager, xla"),
        ({"mode": "xla", "backend": "torch"}, "mode on torch must be one of eager. Received: 'xla'"),
        ({"backend": "mxnet"}, "backend must be one of tensorflow, jax, torch"),
        ({"dtype": "float16"}, "dtype must be one of float32, mixed_bfloat16"),
    ],
)
def test_rows_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        AttentionRow(2, 7, **arguments)


def test_masks_are_measured_unasked_where_they_matter():
    rows = cases.select([(2, 7), (1, cases.LONG)])
    assert [row.kind for row in rows if row.length == 7] == ["plain"] * 2
    assert {row.kind for row in rows if row.length == cases.LONG} == set(cases.KINDS)
    assert [row.step for row in rows[:4]] == [False, True, False, True]


def test_select_combines_what_is_chosen():
    chosen = {"kinds": ["causal"], "passes": ["step"], "modes": ["xla", "eager"], "width": 6, "heads": 3}
    assert cases.select([(2, 7), (2, 7)], **chosen) == [
        AttentionRow(2, 7, 6, 3, "causal", True, "xla"),
        AttentionRow(2, 7, 6, 3, "causal", True, "eager"),
    ]


@pytest.mark.parametrize("backend", cases.BACKENDS)
def test_each_backend_has_a_mode_of_its_own(backend):
    (row,) = cases.select([(2, 7)], passes=["step"], backend=backend, dtype="mixed_bfloat16")
    assert (row.backend, row.mode, row.dtype) == (backend, cases.BACKENDS[backend][0], "mixed_bfloat16")


def test_a_picture_shows_one_series():
    series = [(1, 7), (1, 11)]
    cases.check_series(cases.select(series, ["causal"]))
    with pytest.raises(ValueError, match=r"only one kind. Received: causal, plain"):
        cases.check_series(cases.select(series, ["plain", "causal"]))
    with pytest.raises(ValueError, match=r"only one batch. Received: 1, 2"):
        cases.check_series(cases.select([(1, 7), (2, 11)]))
    with pytest.raises(ValueError, match=r"at least two lengths. Received: \[7\]"):
        cases.check_series(cases.select(series[:1]))


def test_what_contenders_are_made_of(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else name)
    found = {name: cases.is_installed(name) for name in cases.ALL_PEERS}
    assert found == {"addons": True, "torch": False, "sdpa": False, "keras_hub": True}


MODEL = ModelRow(2, 3, source=5, width=8, heads=2, layers=7, feed_forward=11, vocabulary=13)


def test_the_multiplications_are_those_of_all_products():
    forward = 0
    for _ in range(7):
        for queries, keys in ((5, 5), (3, 3), (3, 5)):  # of the encoder, the decoder's first and second attention
            forward += 2 * (8 * 8 * queries * 2 + 8 * 8 * keys * 2)  # B, and query, output, key and value
            forward += 2 * 2 * queries * keys * 8  # B, and scores and mix
        forward += 2 * 2 * 8 * 11 * (5 + 3)
    forward += 2 * 3 * 8 * 13
    assert MODEL.flops == 3 * 2 * forward


def test_decoding_has_no_count():
    assert ModelRow(2, 3, step=False).flops is None


def test_what_the_tables_show():
    training, decoding = MODEL_ROWS
    assert [str(row) for row in MODEL_ROWS] == ["256 × 16 training step", "32 × 64 greedy decoding"]
    assert (training.size, training.kind, decoding.kind) == ("256 × 16", "training step", "greedy decoding")
    assert MODEL.model == "7+7 layers, width 8, 2 heads, feed-forward 11, vocabulary 13, 5 source positions"


def test_the_rows_that_are_measured_are_those_of_the_issue():
    training, decoding = MODEL_ROWS
    assert (training.batch, training.source, training.length, training.vocabulary) == (256, 16, 16, 6000)
    assert (decoding.batch, decoding.length, decoding.step) == (32, 64, False)
    assert training.flops == pytest.approx(52.3e9, rel=0.01)
