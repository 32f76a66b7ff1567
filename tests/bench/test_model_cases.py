import pytest

from kmha.bench.model_cases import MODEL_ROWS, ModelRow

ROW = ModelRow(2, 3, source=5, width=8, heads=2, layers=7, feed_forward=11, vocabulary=13)


def test_the_multiplications_are_those_of_all_products():
    forward = 0
    for _ in range(7):
        for queries, keys in ((5, 5), (3, 3), (3, 5)):  # of the encoder, the decoder's first and second attention
            forward += 2 * (8 * 8 * queries * 2 + 8 * 8 * keys * 2)  # B, and query, output, key and value
            forward += 2 * 2 * queries * keys * 8  # B, and scores and mix
        forward += 2 * 2 * 8 * 11 * (5 + 3)
    forward += 2 * 3 * 8 * 13
    assert ROW.flops == 3 * 2 * forward


def test_decoding_has_no_count():
    assert ModelRow(2, 3, step=False).flops is None


def test_what_the_tables_show():
    training, decoding = MODEL_ROWS
    assert [str(row) for row in MODEL_ROWS] == ["256 × 16 training step", "32 × 64 greedy decoding"]
    assert (training.size, training.kind, decoding.kind) == ("256 × 16", "training step", "greedy decoding")
    assert ROW.model == "7+7 layers, width 8, 2 heads, feed-forward 11, vocabulary 13, 5 source positions"


def test_the_rows_that_are_measured_are_those_of_the_issue():
    training, decoding = MODEL_ROWS
    assert (training.batch, training.source, training.length, training.vocabulary) == (256, 16, 16, 6000)
    assert (decoding.batch, decoding.length, decoding.step) == (32, 64, False)
    assert training.flops == pytest.approx(52.3e9, rel=0.01)
