import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("torch")
pytestmark = pytest.mark.tensorflow

from kmha.bench.cases import BUILTIN, ModelRow  # noqa: E402
from kmha.bench.contenders import check_agreement  # noqa: E402
from kmha.bench.models import build, draw_inputs  # noqa: E402

ROW = ModelRow(6, 5, source=7, width=12, heads=3, layers=2, feed_forward=10, vocabulary=23)


@pytest.mark.parametrize("padded", [False, True])
def test_torch_agrees(translation, padded):
    given = draw_inputs(ROW, translation)
    if padded:
        for ids in given[:3]:
            ids[::2, -2:] = 0
    expected, results = (build(name, ROW, given).results([0.0]) for name in (BUILTIN, "torch"))
    assert results.keys() == {"loss"}
    check_agreement(ROW, "torch", results, BUILTIN, expected)


def test_a_step_changes_the_next_one(translation):
    contender = build("torch", ROW, draw_inputs(ROW, translation))
    losses = [contender.run()[0] for _ in range(30)]
    assert losses[-1] < losses[0]
