import types

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.stated_sizes import number_of_heads, stated_size


@pytest.mark.parametrize(
    ("attributes", "heads"),
    [({"num_heads": 3}, 3), ({"_num_heads": 3}, 3), ({"n_head": 2}, 2), ({"heads": True}, None), ({"depth": 4}, None)],
)
def test_the_number_of_heads_of_a_layer(attributes, heads):
    assert number_of_heads(types.SimpleNamespace(**attributes), {}) == heads


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ({"scale": 8**-0.5}, 8),
        ({"sqrt_dim": np.float64(6) ** 0.5, "scale": -(6**-0.5)}, 6),
        ({"scale": 8**-0.5, "temperature": 2.0}, None),
        *(
            ({"scale": value}, None)
            for value in (0.0, 1, -1.0, True, 0.3, 1e200, 1e-200, 1e4, np.inf, np.nan, "8", None)
        ),
        ({"dropout": 0.5}, None),
    ],
)
def test_the_head_size_that_an_attribute_states(attributes, size):
    found = stated_size(types.SimpleNamespace(**attributes))
    assert (found and found[1]) == size


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("SplitsByRearrange", ()),
        ("StatesItsScale", ()),
        ("StatesItsScaleUnscaled", None),
    ],
)
def test_built_layers_whose_constructor_keeps_no_number_of_heads(candidate, name, ids):
    """A layer of einops knows the number, or the scale tells the size of one head. kmha asked for the number."""
    pytest.importorskip("torch")
    pytest.importorskip("einops")
    found = diagnose(candidate("torch_sizes", name)(12, 4, 3))
    assert found.sizes.heads == 3 if ids == () else found.verdict == "unjudged"
    assert found.right == (ids == ())


def test_a_layer_of_an_output_projection_alone(candidate):
    """Its queries, keys and values come projected, and its weights were said not to fit attention."""
    pytest.importorskip("torch")
    layer = candidate("torch_sizes", "ProjectsOutputsAlone")
    assert diagnose(layer).right
    assert diagnose(layer(12, 4, 3)).right
    assert diagnose(layer(12, 4, 3, scaled=False)).ids == ("scale-missing",)
    with pytest.raises(CandidateError, match="no projections of query, key and value"):
        diagnose(candidate("torch_sizes", "ProjectsOutputsOfItself")(12, 4, 3))
