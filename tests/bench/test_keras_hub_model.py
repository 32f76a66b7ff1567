import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("keras_hub")
pytestmark = pytest.mark.tensorflow

from kmha.bench.cases import BUILTIN  # noqa: E402
from kmha.bench.contenders import check_agreement  # noqa: E402
from kmha.bench.models import build, draw_inputs  # noqa: E402


@pytest.mark.parametrize("padded", [False, True])
def test_keras_hub_agrees(model_row, translation, padded):
    given = draw_inputs(model_row, translation)
    if padded:
        for ids in given[:3]:
            ids[::2, -2:] = 0
    both = [build(name, model_row, given) for name in (BUILTIN, "keras_hub")]
    expected, results = (contender.results(contender.run()) for contender in both)
    assert results.keys() == ({"loss"} if model_row.step else {"tokens"})
    check_agreement(model_row, "keras_hub", results, BUILTIN, expected)
