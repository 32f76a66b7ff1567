import gc
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("torch")
pytestmark = pytest.mark.tensorflow

from kmha.bench.cases import BUILTIN, ModelRow  # noqa: E402
from kmha.bench.contenders import check_agreement  # noqa: E402
from kmha.bench.models import build, draw_inputs  # noqa: E402
from kmha.bench.torch_process import TorchProcess  # noqa: E402

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


def test_the_process_of_torch_has_no_tensorflow():
    code = (
        "import sys, kmha.bench.torch_process, kmha.bench.torch_model; print({'tensorflow', 'keras'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_the_process_ends_with_its_contender(translation):
    gc.collect()  # the processes of other tests
    contender = build("torch", ROW, draw_inputs(ROW, translation))
    process = next(one for one in gc.get_objects() if type(one) is TorchProcess).process
    assert process.poll() is None
    del contender
    gc.collect()
    assert process.poll() == 0


def test_an_error_in_the_process_is_reported():
    with pytest.raises(RuntimeError, match=r"torch's process ended: KeyError: 'table'"):
        TorchProcess(ROW, 1e-6, {"bias": np.zeros(3)}, [])
