"""Code in the styles of public repositories, which kmha once accused or could not judge."""

import numpy as np
import pytest

from kmha.verify import diagnose


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "arguments", "ids"),
    [
        ("Encoder", {}, ()),
        ("SequenceDecoder", {"second": "padding"}, ()),
        pytest.param(
            "SequenceDecoder",
            {"second": "both"},
            ("decoder-masks-look-ahead-with-padding",),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SequenceDecoder",
            {"second": "look-ahead"},
            ("decoder-masks-look-ahead-for-cross",),
            marks=pytest.mark.slow,
        ),
        ("SingleEncoder", {}, ()),
        pytest.param("Direct", {}, (), marks=pytest.mark.slow),
    ],
)
def test_keras(candidate, name, arguments, ids):
    found = diagnose(candidate("keras_repositories", name), arguments=arguments)
    assert (found.verdict, found.ids) == ("known" if ids else "right", ids), found


@pytest.mark.parametrize(
    ("name", "arguments", "ids"),
    [
        ("Attention", {}, ()),
        ("Attention", {"scale": False}, ("scale-missing",)),
        ("DecoderLayer", {}, ()),
        ("HeadsOfItems", {}, ("mask-items-as-heads",)),
        ("SelfMaskedDecoder", {}, ()),
        ("SelfMaskedDecoder", {"scale": False}, ("scale-missing",)),
    ],
)
def test_torch(candidate, name, arguments, ids):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_repositories", name), arguments=arguments)
    assert (found.verdict, found.ids) == ("known" if ids else "right", ids), found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    ("name", "built"),
    [
        *(("OfModule", None), ("OfModule", {}), ("OfDict", None), ("OfClass", None), ("OfConfig", None)),
        *(("Uncropped", None), ("Uncropped", {"d_model": 24, "num_heads": 3, "context": 9}), ("Written", None)),
        *(("Block", None), ("Block", {}), ("UncroppedBlock", None), ("SingleHeadBlock", None)),
        ("UncroppedBlock", {"d_model": 24, "num_heads": 3, "seq_len": 10}),
    ],
)
def test_sizes_that_are_no_arguments(candidate, name, built, scale):
    """Some were said to differ, with one head instead of four, or with positions taken for items."""
    pytest.importorskip("torch")
    thing = candidate("torch_sizes", name)
    thing = thing if built is None else thing(**built, scale=scale)
    found = diagnose(thing, arguments={"scale": scale} if built is None else {})
    assert (found.verdict, found.ids) == (("right", ()) if scale else ("known", ("scale-missing",))), found


def test_an_unknown_number_of_heads_accuses_nobody(candidate):
    pytest.importorskip("torch")
    silent = candidate("torch_sizes", "Silent")
    found = diagnose(silent)
    assert found.verdict == "unjudged"
    assert "Nothing states its number of heads. Give it: --set num_heads=H." in str(found)
    assert diagnose(silent, arguments={"num_heads": 4}).right


@pytest.mark.parametrize("shared", [True, False])
def test_inputs_in_their_usual_order_need_no_other(candidate, shared):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_repositories", "Placed")(12, 3, shared))
    assert (found.verdict, found.ids) == (("known", ("kernels-key-for-value",)) if shared else ("right", ())), found


@pytest.mark.parametrize(
    ("slip", "scale", "verdict", "ids", "says"),
    [
        ("always", True, "raises", (), "Did you mean `transpose`?"),
        ("attribute", True, "raises", (), "no attribute 'd_head'."),
        ("mask", False, "known", ("scale-missing",), "Did you mean `masked_fill`?"),
        ("mask", True, "right", (), "Did you mean `masked_fill`?"),
    ],
)
def test_misspelt_names(candidate, slip, scale, verdict, ids, says):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_repositories", "Attention"), arguments={"slip": slip, "scale": scale})
    assert (found.verdict, found.ids) == (verdict, ids)
    assert says in " ".join(str(found).split())
    if verdict == "raises":
        assert found.line.path.endswith("torch_repositories.py")
        assert {"always": "tanspose", "attribute": "self.d_head"}[slip] in found.line.text


def test_a_temperature_of_1_is_left_alone():
    def attention(query, key, value, temperature=1.0):
        logits = query @ np.swapaxes(key, -1, -2) / (np.sqrt(query.shape[-1]) * temperature)
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        return scores / scores.sum(-1, keepdims=True) @ value

    assert diagnose(attention).right


def test_dropout_that_may_be_a_layer_is_left_out():
    def attention(query, key, value, dropout=None, training=None):
        logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        scores = scores / scores.sum(-1, keepdims=True)
        return (scores if dropout is None else dropout(scores, training=training)) @ value

    assert diagnose(attention).right


def test_sizes_of_positions():
    def positional_encoding(max_seq_len, dm):
        angles = np.arange(max_seq_len)[:, None] / 10000 ** (2 * (np.arange(dm) // 2) / dm)
        return np.where(np.arange(dm) % 2, np.cos(angles), np.sin(angles))

    assert diagnose(positional_encoding).right


@pytest.mark.parametrize(
    ("exponent", "ids"),
    [
        (lambda j, d: j // 2 * 2 / d, ()),
        (lambda j, d: 2 * j / d, ("positions-exponent-doubled-per-feature",)),
        (lambda j, d: j // 2 * 2 * np.log(10000 / d) / np.log(10000), ("positions-exponent-divided-in-logarithm",)),
    ],
)
def test_the_encoding_of_one_position(exponent, ids):
    def positional_encoding(position, d_model):
        angles = [position / 10000 ** exponent(j, d_model) for j in range(d_model)]
        return np.array([np.cos(angle) if j % 2 else np.sin(angle) for j, angle in enumerate(angles)])

    found = diagnose(positional_encoding)
    assert (found.verdict, found.ids) == ("known" if ids else "right", ids), found
    assert ids == () or "np.stack([positional_encoding(position=position" in str(found)


def _encoding(length, width, twice=False):
    feature = np.arange(width)
    angles = np.arange(length)[:, None] / 10_000 ** (2 * (feature if twice else feature // 2) / width)
    return np.where(feature % 2 == 0, np.sin(angles), np.cos(angles))


def test_encodings_by_the_names_of_their_sizes():
    """A right one was accused of a constant output, because nothing told that it takes a length."""
    doubled = "positions-exponent-doubled-per-feature"
    assert diagnose(lambda sentence_length, d_model: _encoding(sentence_length, d_model)).right
    assert diagnose(lambda dim, max_seq_len: _encoding(max_seq_len, dim, twice=True)).ids == (doubled,)
    assert not diagnose(lambda spam, eggs: _encoding(7, 12)).accused


def test_a_table_made_for_the_first_call(candidate):
    found = diagnose(candidate("keras_repositories", "PositionsOfFirstCall"))
    assert found.right, found
    found = diagnose(candidate("keras_repositories", "PositionsOfFirstCall"), arguments={"twice": True})
    assert found.ids == ("positions-exponent-doubled-per-feature",), found


def test_a_fused_kernel_needs_no_names(candidate):
    """The names of its weights were said not to tell which is the query's, beside a second kernel without a name."""
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_repositories", "Interleaved"))
    assert (found.verdict, set(found.ids)) == ("known", {"mask-missing", "scale-all-heads"}), found


def test_a_block_gets_all_that_its_constructor_needs(candidate):
    pytest.importorskip("torch")
    assert diagnose(candidate("torch_sizes", "Particular")).right
