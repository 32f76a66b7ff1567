import numpy as np
import pytest

from kmha.interchange import LAYOUTS, LayoutError, convert, recognize
from kmha.interchange.layout import Template
from kmha.interchange.recognition import _fitting_heads, the_reading

SQUARE = {"h": 3, "i": 12, "j": 12, "k": 12, "o": 4, "v": 4, "e": 12}
ATTENTIONS = [
    "ours", "keras", "torch", "torch-transposed", "d2l", "d2l-keras", "implemented-transformer",
    "annotated-transformer", "heads", "heads-qkv",
]  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "model.encoder.layers.0."])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_what_was_written_is_recognised(random_weights, name, bias, prefix):
    weights = convert(random_weights(**SQUARE, bias=bias), "ours", name)
    (reading,) = recognize({prefix + foreign: array for foreign, array in weights.items()})
    assert reading.layout == name
    assert reading.prefix == prefix
    assert 3 in reading.heads


def test_addons_is_recognised(random_weights):
    weights = convert(random_weights(v=4, bias=False), "ours", "addons")
    assert [reading.layout for reading in recognize(weights)] == ["addons"]


def test_two_readings_where_heads_and_width_are_equal(random_weights):
    weights = random_weights(h=8, i=8, j=8, k=8)
    readings = recognize(weights)
    assert [reading.layout for reading in readings] == ["ours", "keras"]
    with pytest.raises(LayoutError, match=r"fit 2 layouts, which would compute different things: `keras`, `ours`"):
        convert(weights, "auto", "torch")


def test_shapes_rule_a_reading_out(random_weights):
    assert [reading.layout for reading in recognize(random_weights(h=3, i=8))] == ["ours"]


def test_layouts_that_read_the_same_are_one_reading(random_weights):
    weights = convert(random_weights(v=4), "ours", "keras")
    (reading,) = recognize(weights)
    assert reading.layout == "keras"
    assert "keras-grouped" in reading.same_as


def test_both_orientations_fit_square_matrices(random_weights):
    weights = convert(random_weights(**SQUARE), "ours", "torch-separate")
    assert [reading.layout for reading in recognize(weights)] == ["torch-separate", "torch-separate-transposed"]
    wide = convert(random_weights(**SQUARE | {"j": 5}), "ours", "torch-separate")
    assert [reading.layout for reading in recognize(wide)] == ["torch-separate"]


def test_heads_that_fit(random_weights):
    weights = convert(random_weights(**SQUARE), "ours", "torch")
    (reading,) = recognize(weights)
    assert reading.heads == (1, 2, 3, 4, 6, 12)
    assert reading.needs_num_heads
    assert recognize(weights, num_heads=4)[0].heads == (4,)
    assert recognize(weights, num_heads=5) == []
    with pytest.raises(LayoutError, match="do not determine the number of heads"):
        convert(weights, "auto", "ours")
    assert convert(weights, "auto", "ours", num_heads=3)["key/bias"].shape == (3, 4)


def test_recognition_takes_no_memory_for_each_number_of_heads():
    one = np.broadcast_to(np.float32(1), (3 * 2**14, 2**14))  # 3 GiB, if it were copied
    weights = {"in_proj_weight": one, "out_proj.weight": one[: 2**14]}
    assert len(_fitting_heads(weights, LAYOUTS["torch"], None)) == 9


def test_the_nearest_is_named(random_weights):
    weights = convert(random_weights(**SQUARE), "ours", "torch")
    del weights["out_proj.weight"]
    assert recognize(weights) == []
    with pytest.raises(LayoutError, match=r"No layout fits\. The nearest is `torch`.*Missing.*`out_proj\.weight`"):
        the_reading(weights)


def test_many_names_are_not_all_compared_with_all_layouts(monkeypatch):
    """A file with 30,000 names took 15 seconds to refuse."""
    compared = []
    match = Template.match
    monkeypatch.setattr(Template, "match", lambda *given: (compared.append(given[1]), match(*given))[1])
    with pytest.raises(LayoutError, match=r"No layout fits\. Received the names: `k0`.* and 29988 more"):
        the_reading({f"k{i}": np.ones(()) for i in range(30_000)})
    assert 900 <= len({*compared}) <= 1_000
    assert len(compared) < 1_000 * sum(len(layout.items) + 1 for layout in LAYOUTS.values())


def test_names_that_nobody_knows():
    with pytest.raises(
        LayoutError, match=r"No layout fits\. Received the names: `alpha`, `beta_of_something`\. Known layouts: ours"
    ):
        the_reading({"alpha": np.ones(3), "beta_of_something": np.ones(4)})
    assert recognize({}) == []
