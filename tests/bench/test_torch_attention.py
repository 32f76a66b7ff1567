import numpy as np
import pytest

from kmha.bench.attention_contenders import build
from kmha.bench.cases import BUILTIN, KINDS, AttentionRow
from kmha.bench.contenders import check_agreement, draw_inputs

pytest.importorskip("torch")
pytestmark = pytest.mark.tensorflow


def _row(**given):
    return AttentionRow(**{"batch": 2, "length": 12, "width": 16, "heads": 2, "window": 5, **given})


def _results(name, row):
    contender = build(name, row, draw_inputs(row))
    return contender.results(contender.run())


@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dropout"])
def test_torch_agrees(kind, step):
    row = _row(kind=kind, step=step)
    expected = _results(BUILTIN, row)
    for name in ("torch", "sdpa"):
        results = _results(name, row)
        assert results.keys() == expected.keys()
        check_agreement(row, name, results, BUILTIN, expected)


@pytest.mark.parametrize("name", ["torch", "sdpa"])
def test_dropout_drops_at_each_run(name):
    contender = build(name, _row(kind="dropout"), draw_inputs(_row()))
    first, second = (contender.results(contender.run())["output"] for _ in range(2))
    assert np.abs(first - second).max() > 0.01
