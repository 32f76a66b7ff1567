import numpy as np
import pytest

from kmha.bench import contenders
from kmha.bench.attention_contenders import build, reason_against
from kmha.bench.cases import BUILTIN, KINDS, MODES, OURS, AttentionRow
from kmha.bench.contenders import check_agreement, draw_inputs

pytestmark = pytest.mark.tensorflow


def _row(**given):
    return AttentionRow(**{"batch": 2, "length": 12, "width": 16, "heads": 2, "window": 5, **given})


def _results(name, row):
    contender = build(name, row, draw_inputs(row))
    return contender.results(contender.run())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dropout"])
def test_contenders_agree(kind, mode):
    row = _row(kind=kind, mode=mode, step=True)
    expected = _results(BUILTIN, row)
    assert len(expected) == 2 + 8
    for name, count in ((OURS, 2 + 8), ("addons", 2 + 5)):
        results = _results(name, row)
        assert len(results.keys() & expected.keys()) == count
        check_agreement(row, name, results, BUILTIN, expected)


def test_the_kinds_differ():
    """Or else a contender that forgot a mask would pass for one that agrees."""
    outputs = [_results(BUILTIN, _row(kind=kind))["output"] for kind in ("plain", "causal", "windowed", "padded")]
    for one in range(4):
        for other in range(one):
            assert np.abs(outputs[one] - outputs[other]).max() > 0.1


@pytest.mark.parametrize("name", [BUILTIN, OURS, "addons"])
def test_dropout_drops_at_each_run(name):
    contender = build(name, _row(kind="dropout"), draw_inputs(_row()))
    first, second = (contender.results(contender.run())["output"] for _ in range(2))
    assert np.abs(first - second).max() > 0.01
    assert _results(name, _row(kind="dropout", step=True)).keys() == _results(name, _row(step=True)).keys()


def test_a_wrong_contender_is_caught():
    row = _row(step=True)
    expected, wrong = _results(BUILTIN, row), _results(BUILTIN, _row(kind="causal", step=True))
    message = r"2 × 12 plain step graph: `output` of kmha differs from that of builtin by .* and 2e-05 is allowed"
    with pytest.raises(contenders.ContendersDisagree, match=message):
        check_agreement(row, OURS, wrong, BUILTIN, expected)
    one_weight = {**expected, "d query/kernel": expected["d query/kernel"][::-1]}
    with pytest.raises(contenders.ContendersDisagree, match="`d query/kernel` of kmha"):
        check_agreement(row, OURS, one_weight, BUILTIN, expected)
    not_a_number = {**expected, "d input": expected["d input"] * np.nan}
    with pytest.raises(contenders.ContendersDisagree, match="`d input` of kmha differs from that of builtin by inf"):
        check_agreement(row, OURS, not_a_number, BUILTIN, expected)


def test_who_cannot_run():
    long = AttentionRow(1, 32768, step=True)
    assert reason_against("torch", _row(mode="xla"), None) == "torch runs eagerly here, not under XLA"
    assert reason_against(BUILTIN, long, 16_000_000_000) == "would take about 172 GB, but only 16 GB are free"
    assert reason_against(OURS, long, 16_000_000_000) is None
    assert reason_against(BUILTIN, long, None) is None
