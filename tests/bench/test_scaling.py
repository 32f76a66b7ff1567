import re
from pathlib import Path

import pytest

import kmha
from kmha.bench.scaling import MESHES, Training, cost, table

SMALL = Training(layers=3, width=20, heads=5, hidden=28, batch=6, length=7)
README = (Path(kmha.__file__).parent / "distribution" / "README.md").read_text(encoding="utf-8")


def _block():
    layer = kmha.layers.EncoderLayer(SMALL.width, SMALL.heads, SMALL.hidden)
    layer.build((None, None, SMALL.width))
    return layer


def test_weights_are_those_of_the_blocks():
    assert SMALL.split_weights + SMALL.whole_weights == 3 * _block().count_params()
    whole = [v for v in _block().variables if re.search("gamma|beta|(attention_output|dense2)/bias", v.path)]
    assert SMALL.whole_weights == 3 * sum(v.shape[0] for v in whole)


def test_operations_are_those_that_the_layer_explains():
    attention = _block().mha.explain((SMALL.batch, SMALL.length, SMALL.width)).forward_flops
    feed_forward = 2 * 2 * SMALL.batch * SMALL.length * SMALL.width * SMALL.hidden
    assert SMALL.flops == 3 * 3 * (attention + feed_forward)


def test_one_device_sends_nothing():
    one = cost(SMALL, 1, 1)
    assert (one.model_sent, one.batch_sent) == (0, 0)
    assert one.weights == 16 * (SMALL.split_weights + SMALL.whole_weights)
    per_token = 8 * 20 + 2 * 28 + 5 * 7
    assert one.activations == 3 * 6 * 7 * per_token * 2


def test_several_devices():
    each = cost(SMALL, batch_devices=3, model_devices=1)
    assert each.batch_sent == pytest.approx(2 * 2 / 3 * 4 * (SMALL.split_weights + SMALL.whole_weights), rel=1e-12)
    assert each.flops == SMALL.flops / 3
    split = Training(layers=3, width=20, heads=4, hidden=28, batch=6, length=7)
    each = cost(split, batch_devices=2, model_devices=4)
    assert each.weights == 16 * (split.split_weights / 4 + split.whole_weights)
    assert each.model_sent == 3 * 4 * (3 * 7 * 20 * 2) * 2 * 3 / 4
    assert each.flops == split.flops / 8


@pytest.mark.parametrize(("mesh", "name"), [((4, 1), "batch=6"), ((1, 2), "heads=5")])
def test_what_does_not_split_evenly(mesh, name):
    with pytest.raises(ValueError, match=f"{name} is not a multiple of the . devices"):
        cost(SMALL, *mesh)


def test_the_page_has_these_figures():
    assert table(Training()) in README
    costs = {mesh: cost(Training(), *mesh) for mesh in MESHES}
    assert costs[1024, 1].weights > 100e9 > costs[256, 4].weights
    assert costs[32, 32].flops / costs[32, 32].model_sent < 1000 < costs[64, 16].flops / costs[64, 16].model_sent
    assert all(each.flops / each.model_sent < 8000 for each in costs.values() if each.model_sent)
