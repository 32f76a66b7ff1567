import types

import numpy as np
import pytest

from kmha.verify.diagnosing import built
from kmha.verify.diagnosing.calling import SubjectError
from kmha.verify.diagnosing.held import Variable

RNG = np.random.default_rng(0)


def _variables(**shapes):
    arrays = {path: RNG.normal(size=shape) for path, shape in shapes.items()}
    return [Variable(path, array.shape, None, lambda array=array: array) for path, array in arrays.items()]


FLAT = {"wq": (13, 15), "wk": (11, 15), "wv": (11, 15), "wo": (15, 17)}


def test_sizes_are_read_off_the_shapes():
    variables = _variables(**FLAT)
    weights, _ = built.weights_of("layer", types.SimpleNamespace(num_heads=3), variables, {})
    assert {name: array.shape for name, array in weights.items()} == {
        "query/kernel": (3, 13, 5),
        "key/kernel": (3, 11, 5),
        "value/kernel": (3, 11, 5),
        "attention_output/kernel": (3, 5, 17),
    }
    np.testing.assert_array_equal(weights["key/kernel"][1], variables[1].read()[:, 5:10])


def test_without_an_output_projection_it_leaves_everything_as_it_is():
    shapes = {name: FLAT[name] for name in ("wq", "wk", "wv")}
    weights, _ = built.weights_of("layer", types.SimpleNamespace(heads=5), _variables(**shapes), {})
    np.testing.assert_array_equal(weights["attention_output/kernel"].reshape(15, 15), np.eye(15))


def test_kernels_with_an_axis_of_heads_tell_their_number():
    shapes = {"q": (3, 13, 5), "k": (3, 13, 5), "v": (3, 13, 5), "o": (3, 5, 17)}
    weights, _ = built.weights_of("layer", types.SimpleNamespace(), _variables(**shapes), {})
    assert weights["query/kernel"].shape == (3, 13, 5)


def test_a_given_number_of_heads_counts_more():
    weights, _ = built.weights_of("layer", types.SimpleNamespace(h=3), _variables(**FLAT), {"num_heads": 5})
    assert weights["query/kernel"].shape == (5, 13, 3)


def test_without_a_number_there_is_one_head():
    weights, _ = built.weights_of("layer", types.SimpleNamespace(rate=0.1), _variables(**FLAT), {})
    assert weights["query/kernel"].shape == (1, 13, 15)


@pytest.mark.parametrize(
    ("layer", "shapes", "message"),
    [
        (types.SimpleNamespace(), {}, "has no weights yet"),
        (types.SimpleNamespace(parts=3), FLAT, r"fit no reading.*Give the number of heads: arguments="),
        (types.SimpleNamespace(heads=4), FLAT, r"fit no reading as multi-head attention with 4 heads.*wq \(13, 15\)"),
        (types.SimpleNamespace(heads=3), {"wq": (2, 3)}, r"Expected kernels for query, key, value and output"),
    ],
)
def test_errors_teach(layer, shapes, message):
    with pytest.raises(SubjectError, match=message):
        built.weights_of("layer", layer, _variables(**shapes), {})


@pytest.mark.parametrize(
    ("attributes", "heads"),
    [({"num_heads": 3}, 3), ({"_num_heads": 3}, 3), ({"n_head": 2}, 2), ({"heads": True}, None), ({"depth": 4}, None)],
)
def test_the_number_of_heads_of_a_layer(attributes, heads):
    assert built.number_of_heads(types.SimpleNamespace(**attributes), {}) == heads
