import numpy as np
import pytest

from kmha.interchange import LAYOUTS, LayoutError, convert, errors, from_canonical, mapping, to_canonical


def test_through_the_middle(random_weights):
    ours = random_weights()
    converted = convert(ours, "ours", "keras")
    assert (converted.source, converted.target, converted.notes) == ("ours", "keras", [])
    assert np.array_equal(converted["key/kernel"], ours["key/kernel"].swapaxes(0, 1))
    halves = from_canonical(to_canonical(ours, "ours"), "keras")
    assert converted.keys() == halves.keys()
    for name, array in halves.items():
        assert np.array_equal(converted[name], array), name


SQUARE = {"h": 3, "i": 12, "j": 12, "k": 12, "o": 4, "v": 4, "e": 12}
ATTENTIONS = [
    name
    for name, layout in LAYOUTS.items()
    if layout.entry_of("attention_output/bias") and layout.entry_of("query/bias") and not layout.unscaled
]


@pytest.mark.parametrize("one", ATTENTIONS)
def test_from_every_attention_to_every_other_and_back(random_weights, one):
    weights = convert(random_weights(**SQUARE), "ours", one)
    for other in ATTENTIONS:
        there = convert(weights, one, other, num_heads=3)
        back = convert(there, other, one, num_heads=3)
        assert back.keys() == weights.keys()
        for name, array in weights.items():
            assert np.array_equal(back[name], array), (other, name)
            assert back[name].dtype == array.dtype


def test_arrays_are_whole_and_in_order(random_weights):
    for array in convert(random_weights(), "ours", "keras").values():
        assert array.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8"])
def test_any_dtype_is_kept(random_weights, round_trip, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    weights = {name: array.astype(dtype) for name, array in random_weights().items()}
    for array in round_trip(weights, "ours").values():
        assert array.dtype == dtype
    for name, array in convert(weights, "ours", "keras").items():
        assert array.dtype == dtype, name


def test_values_that_are_no_numbers_go_through(random_weights, round_trip):
    weights = random_weights()
    weights["query/kernel"][0, 1, 2] = np.nan
    weights["query/bias"][0, 1] = -0.0
    round_trip(weights, "ours")


@pytest.mark.parametrize("prefix", ["model.encoder.layers.0.", "multi_head_attention_2/", "a/b.c/"])
def test_a_common_prefix_does_no_harm(random_weights, prefix):
    weights = random_weights()
    converted = convert({prefix + name: array for name, array in weights.items()}, "ours", "ours")
    assert converted.keys() == weights.keys()


def test_a_part_of_a_larger_model(random_weights):
    weights = random_weights()
    model = {"a." + name: array for name, array in weights.items()} | {"b.kernel": np.ones(3)}
    assert convert(model, "auto", "ours", prefix="a.").keys() == weights.keys()
    with pytest.raises(LayoutError, match=r"Unexpected for the layout `ours`.*`prefix=` selects a part"):
        convert(model, "ours", "keras")
    with pytest.raises(LayoutError, match=r"No name begins with 'c\.'.*`b\.kernel`"):
        convert(model, "ours", "keras", prefix="c.")


def test_the_number_of_heads_is_asked_for(random_weights):
    torch = convert(random_weights(h=3, i=12, j=12, k=12, v=4, e=12), "ours", "torch")
    with pytest.raises(
        LayoutError, match=r"do not determine the number of heads.*`in_proj_weight` \(36, 12\).*Give `num_heads`"
    ):
        convert(torch, "torch", "ours")
    with pytest.raises(LayoutError, match=r"`in_proj_weight` has the shape \(36, 12\).*Received num_heads=5"):
        convert(torch, "torch", "ours", num_heads=5)
    for heads in (0, -3, 2.0, "3"):
        with pytest.raises(LayoutError, match=r"`num_heads` must be a positive integer\. Received"):
            convert(torch, "torch", "ours", num_heads=heads)
    assert convert(torch, "torch", "ours", num_heads=np.int64(3))["query/kernel"].shape == (3, 12, 4)


def test_a_number_of_heads_that_the_shapes_contradict(random_weights):
    with pytest.raises(LayoutError, match=r"fit the axes H I O with.*H=4.*Received num_heads=4"):
        convert(random_weights(h=3), "ours", "keras", num_heads=4)


@pytest.mark.parametrize("missing", ["query/kernel", "value/bias"])
def test_names_that_are_missing(random_weights, missing):
    weights = random_weights()
    del weights[missing]
    with pytest.raises(
        LayoutError, match=rf"Missing for the layout `keras`: `{missing}`\. Received: `attention_output"
    ):
        convert(weights, "keras", "ours")


def test_shapes_that_fit_no_reading(random_weights):
    weights = random_weights() | {"key/bias": np.ones((9, 4))}
    with pytest.raises(
        LayoutError,
        match=r"These weights do not have the layout `ours`: `key/bias` has the shape \(9, 4\).*H O with H=3",
    ):
        convert(weights, "ours", "keras")


def test_missing_biases_are_zeros_and_that_is_said(random_weights):
    weights = random_weights()
    del weights["key/bias"], weights["value/bias"]
    converted = from_canonical(weights, "keras")
    assert [note.split("`")[1] for note in converted.notes] == ["key/bias", "value/bias"]
    assert np.array_equal(converted["value/bias"], np.zeros((3, 6)))
    assert converted["value/bias"].dtype == weights["value/kernel"].dtype


def test_nothing_else_is_made_up(random_weights):
    weights = random_weights()
    del weights["value/kernel"]
    with pytest.raises(LayoutError, match=r"Missing for the layout `keras`: `value/kernel`\. Received"):
        from_canonical(weights, "keras")


@pytest.mark.parametrize("target", ["keras", "heads", "heads-qkv"])
@pytest.mark.parametrize("source", ["addons", "auto"])
def test_an_axis_of_size_zero_holds_no_weights(source, target):
    """It makes the other sizes free: a file of 400 bytes had biases of 64 GiB, and one of 1 KB 10**8 heads."""
    weights = {f"{role}_kernel": np.zeros((8, 0, 4)) for role in ("query", "key", "value")}
    weights |= {"projection_kernel": np.zeros((8, 4, 0)), "projection_bias": np.zeros(0)}
    says = r"`query_kernel` has the shape \(8, 0, 4\)\. An axis of size 0 holds no weights\. Save the weights again\."
    with pytest.raises(LayoutError, match=says):
        convert(weights, source, target)


def test_canonical_weights_have_no_axis_of_size_zero_either(random_weights):
    with pytest.raises(LayoutError, match=r"`query/kernel` has the shape .* An axis of size 0 holds no weights"):
        from_canonical(random_weights(i=0, bias=False), "keras")


def test_no_more_arrays_are_made_than_are_read(random_weights, monkeypatch):
    weights = random_weights(h=40, bias=False)
    assert len(from_canonical(weights, "heads", fold=True)) > 100
    monkeypatch.setattr(mapping, "MOST_ARRAYS", 30)
    with pytest.raises(LayoutError, match=r"`heads` would have more than 30 arrays\. .*`prefix=`.* such as `ours`"):
        from_canonical(weights, "heads", fold=True)


def test_what_is_filled_is_not_far_larger_than_the_weights(random_weights, monkeypatch):
    monkeypatch.setattr(errors, "LIMIT", 0)
    monkeypatch.setattr(errors, "MADE", 0)
    weights = random_weights()
    del weights["key/bias"]
    with pytest.raises(
        LayoutError, match=r"With `key/bias`, what is made would take .* bytes, and all weights .*Check"
    ):
        from_canonical(weights, "keras")


def test_what_is_filled_is_added_up(random_weights, monkeypatch):
    """Each array was small enough, and their sum was not."""
    weights = random_weights()
    biases = [weights.pop(f"{role}/bias") for role in ("key", "value")]
    monkeypatch.setattr(errors, "MADE", 0)
    monkeypatch.setattr(errors, "LIMIT", sum(each.nbytes for each in biases) - 1)
    with pytest.raises(LayoutError, match=r"With `.*/bias`, what is made would take"):
        from_canonical(weights, "keras")
