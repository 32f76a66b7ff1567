import numpy as np
import pytest

from kmha.interchange import Constant, Entry, Ignored, Layout, LayoutError, Refused, at, convert, to_canonical
from kmha.interchange.layout import Template

N, H, I, O = 2, 3, 7, 5


@pytest.mark.parametrize(
    ("template", "name", "values"),
    [
        ("a.weight", "a.weight", {}),
        ("a.weight", "aXweight", None),
        ("a.weight", "a.weights", None),
        ("layers.{n}.{P}", "layers.12.key", {"n": 12, "P": "key"}),
        ("layers.{n}", "layers.012", None),
        ("layer{n+1}/x", "layer1/x", {"n": 0}),
        ("layer{n+1}/x", "layer0/x", None),
    ],
)
def test_templates(template, name, values):
    assert Template(template).match(name) == values
    if values is not None:
        assert Template(template).fill(values) == name


def _attention(**more):
    items = (
        Entry("heads.{H}.q", "query/kernel", "H O I -> H I O"),
        Entry("kv", "{P}/kernel", "I P H O -> P H I O", packed=("value", "key")),
        Entry("out", "attention_output/kernel", "O H E -> H O E"),
    )
    return (*items, *more.get("items", ()))


def _weights(prefix=""):
    rng = np.random.default_rng(0)
    weights = {f"heads.{h}.q": rng.normal(size=(O, I)) for h in range(H)}
    weights |= {"kv": rng.normal(size=(I, 2, H, O)), "out": rng.normal(size=(O, H, 11))}
    return {prefix + name: array for name, array in weights.items()}


def test_a_new_layout_is_one_small_entry(round_trip):
    layout = Layout("mine", "of a test", _attention())
    weights = _weights()
    canonical = round_trip(weights, layout)
    for h in range(H):
        assert np.array_equal(canonical["query/kernel"][h], weights[f"heads.{h}.q"].T)
        assert np.array_equal(canonical["value/kernel"][h], weights["kv"][:, 0, h])
        assert np.array_equal(canonical["key/kernel"][h], weights["kv"][:, 1, h])
        assert np.array_equal(canonical["attention_output/kernel"][h], weights["out"][:, h])


def test_parts_of_a_stack(round_trip):
    layout = Layout("mine", "of a test", at(_attention(), "blocks.{n+1}.", "layer_{n}/self_attention/"))
    weights = _weights("blocks.1.") | {name: 2 * array for name, array in _weights("blocks.2.").items()}
    canonical = round_trip(weights, layout)
    assert np.array_equal(
        canonical["layer_1/self_attention/key/kernel"], 2 * canonical["layer_0/self_attention/key/kernel"]
    )
    del weights["blocks.1.kv"]
    with pytest.raises(LayoutError, match=r"Missing for the layout `mine`: `blocks\.1\.kv`"):
        to_canonical(weights, layout)


def test_a_layer_that_is_missing_in_between():
    layout = Layout("mine", "of a test", at(_attention(), "blocks.{n}.", "layer_{n}/"))
    with pytest.raises(LayoutError, match=r"Missing.*`blocks\.1\.heads\.0\.q`, `blocks\.1\.kv`, `blocks\.1\.out`"):
        to_canonical(_weights("blocks.0.") | _weights("blocks.2."), layout)


@pytest.mark.parametrize("name", ["blocks.987654321.kv", "blocks.0.heads.987654321.q"])
def test_a_number_that_no_layer_and_no_head_has(name):
    layout = Layout("mine", "of a test", at(_attention(), "blocks.{n}.", "layer_{n}/"))
    with pytest.raises(LayoutError, match="Missing"):
        to_canonical(_weights("blocks.0.") | {name: np.ones((O, I))}, layout)


def test_a_head_that_is_missing_in_between():
    weights = _weights()
    del weights["heads.1.q"]
    with pytest.raises(LayoutError, match=r"Missing.*`heads\.1\.q`"):
        to_canonical(weights, Layout("mine", "of a test", _attention()))


def test_heads_of_different_shapes():
    weights = _weights() | {"heads.1.q": np.ones((O, I + 1))}
    with pytest.raises(
        LayoutError, match=r"`heads\.0\.q` and `heads\.1\.q` must have one shape\. Received: \(5, 7\) and \(5, 8\)"
    ):
        to_canonical(weights, Layout("mine", "of a test", _attention()))


def test_constants_are_written_and_demanded(round_trip):
    zero = Constant("k_bias", "(H O)", "", 0.0, "keys have no bias.")
    layout = Layout("mine", "of a test", _attention(items=(zero,)))
    weights = _weights() | {"k_bias": np.zeros(H * O)}
    assert "key/bias" not in round_trip(weights, layout)
    with pytest.raises(LayoutError, match=r"All of `k_bias` must be 0\.0: keys have no bias"):
        to_canonical(weights | {"k_bias": np.ones(H * O)}, layout)
    with pytest.raises(LayoutError, match=r"`k_bias` has the shape \(4,\)"):
        to_canonical(weights | {"k_bias": np.zeros(4)}, layout)


def test_names_that_hold_no_weight():
    layout = Layout("mine", "of a test", _attention(items=(Ignored("tril", "a mask."), Refused("extra", "a thing."))))
    converted = to_canonical(_weights() | {"tril": np.ones((2, 2))}, layout)
    assert converted.notes == ["`tril` is left out: a mask."]
    with pytest.raises(LayoutError, match="`extra` cannot be represented: a thing"):
        to_canonical(_weights() | {"extra": np.ones(2)}, layout)


def test_tied_weights_are_equal_and_are_written_twice(round_trip):
    tied = Entry("out_again", "attention_output/kernel", "H O E -> H O E")
    layout = Layout("mine", "of a test", _attention(items=(tied,)))
    weights = _weights()
    weights["out_again"] = np.ascontiguousarray(weights["out"].swapaxes(0, 1))
    round_trip(weights, layout)
    with pytest.raises(LayoutError, match="`out_again` must equal the other weight"):
        to_canonical(weights | {"out_again": weights["out_again"] + 1}, layout)


def test_groups_are_there_or_not():
    norm = (Entry("g", "norm/gamma", "E -> E", "norm"), Entry("b", "norm/beta", "E -> E", ("norm", "bias")))
    layout = Layout("mine", "of a test", (*norm, Entry("c", "logits/bias", "V -> V", "bias")))
    one = np.ones(3)
    for weights in ({"g": one}, {"c": one}, {"g": one, "b": one, "c": one}):
        assert convert(weights, layout, layout).keys() == weights.keys()
    for weights, missing in (({"g": one, "c": one}, "`b`"), ({"b": one}, "`c`, `g`")):
        with pytest.raises(LayoutError, match=f"Missing for the layout `mine`: {missing}. Received"):
            to_canonical(weights, layout)


def test_a_prefix_before_a_name_that_holds_no_weight():
    layout = Layout("mine", "of a test", (Ignored("mask", "a mask."), *_attention()))
    weights = {"model.mask": np.ones((2, 2))} | _weights("model.")
    assert to_canonical(weights, layout).keys() == to_canonical(_weights(), layout).keys()
