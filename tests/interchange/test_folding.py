import numpy as np
import pytest

from kmha.interchange import LayoutError, convert, errors, from_canonical
from kmha.verify import reference
from kmha.verify.tolerance import is_close

B, T, S = 2, 5, 9


def _output(weights, widths=(8, 5, 7)):
    rng = np.random.default_rng(1)
    query, key, value = (rng.normal(size=(B, length, width)) for length, width in zip((T, S, S), widths, strict=True))
    return reference.attention(query, key, value, weights)[0]


def _but_query_bias(weights):
    del weights["query/bias"]
    return weights


def test_biases_that_fold_give_the_same_output(random_weights):
    weights = _but_query_bias(random_weights(v=4))
    folded = convert(weights | {"query/bias": np.zeros((3, 4))}, "ours", "addons", fold=True)
    said = {note.split("`")[1]: note for note in folded.notes}
    assert len(said) == 3
    assert "all of it is zero" in said["query/bias"]
    assert "changes no softmax" in said["key/bias"]
    assert "moved into `attention_output/bias`" in said["value/bias"]
    back = convert(folded, "addons", "ours")
    assert not np.any(back["value/bias"])
    assert is_close(_output(back), _output(weights), "float64")
    without = {name: array for name, array in weights.items() if name != "value/bias"}
    assert not is_close(_output(back), _output(without), "float64")


def test_a_value_bias_where_there_is_no_output_bias_yet(random_weights):
    weights = random_weights(v=4)
    for name in ("query/bias", "key/bias", "attention_output/bias"):
        del weights[name]
    folded = from_canonical(weights, "addons", fold=True)
    expected = np.einsum("ho,hoe->e", weights["value/bias"], weights["attention_output/kernel"])
    assert is_close(folded["projection_bias"], expected, "float64")


def test_folding_keeps_the_dtype(random_weights):
    weights = _but_query_bias(random_weights(v=4, dtype="float32"))
    folded = convert(weights | {"query/bias": np.zeros((3, 4))}, "ours", "addons", fold=True)
    assert {array.dtype for array in folded.values()} == {np.dtype("float32")}


def test_nothing_is_folded_unasked(random_weights):
    with pytest.raises(LayoutError) as caught:
        convert(random_weights(v=4), "ours", "addons")
    message = str(caught.value)
    assert "No place for `query/bias`: a query bias adds b_q·k to the logit of every key" in message
    assert "No place for `key/bias`: it adds the same q·b_k to all keys" in message
    assert "No place for `value/bias`: rows of scores sum to one" in message


def test_a_query_bias_is_never_folded(random_weights):
    with pytest.raises(LayoutError, match="No place for `query/bias`: a query bias adds"):
        convert(random_weights(v=4), "ours", "addons", fold=True)


@pytest.mark.parametrize("target", ["torch", "d2l", "addons", "heads", "keras-grouped"])
def test_a_gate_has_no_place_elsewhere(random_weights, target):
    weights = random_weights(3, 12, 12, 12, 4, 4, 12, gate=True)
    with pytest.raises(LayoutError, match=r"No place for `gate/bias`, `gate/kernel`: .*gate"):
        convert(weights, "ours", target, fold=True)


def test_a_value_bias_behind_a_gate_does_not_move(random_weights):
    weights = random_weights(v=4, gate=True)
    with pytest.raises(LayoutError, match="No place for `value/bias`: the gate multiplies it"):
        convert(weights, "ours", "addons", fold=True)


def test_fewer_heads_for_keys_are_repeated_on_request(random_weights):
    weights = random_weights(h=6, v=4, o=4, groups=2)
    grouped = convert({k: v.swapaxes(0, 1) if v.ndim == 3 and k[0] != "a" else v for k, v in weights.items()},
                      "keras-grouped", "keras-grouped")  # fmt: skip
    with pytest.raises(LayoutError, match=r"6 in `query`, 2 in `key`. `fold=True` repeats"):
        convert(grouped, "keras-grouped", "ours")
    whole = convert(grouped, "keras-grouped", "ours", fold=True)
    assert whole.notes == ["`key` and `value`: each of 2 heads is repeated 3 times."]
    for head in range(6):
        assert np.array_equal(whole["key/kernel"][head], weights["key/kernel"][head // 3])
        assert np.array_equal(whole["value/bias"][head], weights["value/bias"][head // 3])


def test_repeated_heads_are_not_far_larger_than_the_weights(monkeypatch):
    """A query of many heads and a key of many features, each small, were gigabytes together."""
    weights = {"query/kernel": np.ones((1_000, 1, 1)), "key/kernel": np.ones((1, 5_000, 1))}
    weights |= {"value/kernel": np.ones((1, 1, 1)), "attention_output/kernel": np.ones((1_000, 1, 1))}
    monkeypatch.setattr(errors, "LIMIT", 1_000_000)
    with pytest.raises(LayoutError, match=r"With `key/kernel`, what is made would take 40,000,000 bytes, and all"):
        from_canonical(weights, "addons", fold=True)


@pytest.mark.parametrize(
    ("target", "sizes", "why"),
    [
        ("torch", {"v": 6, "e": 18}, "one width and one head size"),
        ("torch", {"j": 5}, "one width and one head size"),
        ("torch", {"e": 11}, "requires E = H O: `embed_dim` is the width of all heads .*Received: E=11, H=3, O=4"),
        ("torch", {"i": 11, "j": 11, "k": 11}, "requires I = H O"),
        ("torch-separate", {"i": 11, "j": 5}, "requires I = H O"),
        ("d2l", {"e": 11}, "requires E = H O"),
        ("addons", {"v": 6}, "query, key and value have one `head_size`"),
    ],
)
def test_sizes_that_a_layout_cannot_hold(random_weights, target, sizes, why):
    weights = random_weights(**{"h": 3, "i": 12, "j": 12, "k": 12, "o": 4, "v": 4, "e": 12, "bias": False} | sizes)
    with pytest.raises(LayoutError, match=why):
        convert(weights, "ours", target, fold=True)


def test_an_attention_is_no_block(random_weights):
    with pytest.raises(
        LayoutError, match=r"No place for .*it has no such weights. It has .*`feed_forward/inner/kernel`"
    ):
        convert(random_weights(), "ours", "ours-encoder-layer")
