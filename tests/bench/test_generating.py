import pytest

pytest.importorskip("keras_hub")

from kmha.bench import generating
from kmha.bench.contenders import ContendersDisagree


def test_both_layers_generate_the_same_and_are_timed():
    (row,) = generating.measure(batches=[3], lengths=[40], modes=["graph"], rounds=3, seconds=0.1)
    assert (row.batch, row.length, row.mode) == (3, 40, "graph")
    assert all({*one} == {generating.PEER, generating.OURS} for one in row.rounds)
    *_, line = generating.table([row]).splitlines()
    assert line.startswith("| 3 | 40 | graph | ")
    assert line.endswith(f" {row.ratio:.2f} |")


def test_a_layer_that_computes_something_else_is_not_timed(monkeypatch):
    monkeypatch.setattr(generating, "_causal", lambda layer: lambda x, cache, index: (2 * x, cache))
    with pytest.raises(ContendersDisagree, match="B=2, S=7, xla"):
        next(generating.measure(batches=[2], lengths=[7], modes=["xla"], rounds=3, seconds=0.1))


def test_the_ratio_is_the_median_of_the_rounds():
    rounds = [
        {"KerasHub": [2.0, 4.0, 9.0], "kmha": [1.0]},
        {"KerasHub": [5.0], "kmha": [4.0]},
        {"KerasHub": [1.0], "kmha": [2.0]},
    ]
    row = generating.Row(1, 1, "graph", rounds)
    assert row.ratio == 0.8
    assert row.milliseconds("kmha") == 2 / generating.STEPS
