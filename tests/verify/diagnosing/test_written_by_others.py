"""Code in the styles of well-known texts and of course notebooks. Right code is never accused."""

import pytest

from kmha.verify import diagnose

FRENCH = {"mask": "hides:masque", "heads": "tetes", "width": "largeur"}
RIGHT = [
    ("torch_canonical", "attention", {}),
    ("torch_canonical", "MultiHeadedAttention", {}),
    ("torch_canonical", "PositionalEncoding", {}),
    ("torch_canonical", "DotProductAttention", {}),
    ("torch_canonical", "CausalSelfAttention", {}),
    ("torch_canonical", "Block", {}),
    ("keras_canonical", "scaled_dot_product_attention", {}),
    ("keras_canonical", "positional_encoding", {}),
    ("keras_canonical", "positional_encoding_halves", {}),
    ("keras_canonical", "MultiHeadAttention", {}),
    ("keras_canonical", "CrossAttention", {}),
    ("keras_canonical", "GlobalSelfAttention", {}),
    ("keras_canonical", "CausalSelfAttention", {}),
    ("keras_canonical", "TransformerBlock", {}),
    ("keras_canonical", "TokenAndPositionEmbedding", {}),
    ("keras_canonical", "TokenAndPositionEmbedding", {"arguments": {"embed_dim": 10, "vocab_size": 23}}),
    ("torch_notebooks", "EncoderLayer", {}),
    ("torch_notebooks", "DecoderLayer", {}),
    ("torch_notebooks", "ListOfHeads", {}),
    ("torch_notebooks", "Block", {}),
    ("torch_notebooks", "Attention", {"arguments": {"causale": True}, "roles": FRENCH}),
    ("torch_notebooks", "with_bias", {}),
    ("torch_notebooks", "assembled", {}),
    ("torch_notebooks", "built_in_encoder", {}),
    ("torch_notebooks", "built_in_attention", {}),
    ("keras_notebooks", "SelfAttention", {}),
    ("keras_notebooks", "EncoderBlock", {"arguments": {"embed_dim": 12, "num_heads": 2}}),
    ("keras_notebooks", "masked_attention", {}),
    ("keras_notebooks", "unbuilt_attention", {}),
    ("keras_notebooks", "unbuilt_block", {}),
    ("numpy_notebooks", "mehrkopf", {}),
    ("numpy_notebooks", "of_padding", {}),
    ("numpy_notebooks", "may_be_causal", {"arguments": {"causal": True}}),
]
WRONG = [
    ("torch_canonical", "MultiHeadedAttention", {"wrong": "no transpose"}, "merge-not-transposed"),
    ("torch_canonical", "CausalSelfAttention", {"wrong": "no scale"}, "scale-missing"),
    ("torch_notebooks", "DecoderLayer", {"wrong": "no residual"}, "residual-missing-cross"),
    ("torch_notebooks", "ListOfHeads", {"wrong": "width"}, "scale-features"),
    ("torch_notebooks", "Block", {"wrong": "residual"}, "residual-attention-from-normed"),
    ("keras_notebooks", "SelfAttention", {"wrong": "after"}, "mask-after-softmax"),
    ("keras_notebooks", "EncoderBlock", {"wrong": "no residual"}, "residual-missing-feed-forward"),
    ("keras_notebooks", "masked_attention", {"axis": 1}, "softmax-over-queries"),
    ("numpy_notebooks", "atencion", {}, "scale-without-root"),
    ("numpy_notebooks", "of_added", {}, "scale-missing"),
    ("numpy_notebooks", "of_hidden", {}, "scale-missing"),
    ("numpy_notebooks", "may_be_causal", {"causal": True, "works": False}, "causal-missing"),
    ("numpy_notebooks", "may_be_causal", {"causal": False}, ""),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("module", "name", "options"), RIGHT)
def test_right_code_is_read(candidate, module, name, options):
    found = diagnose(candidate(module, name), **options)
    assert found.verdict == "right", (found.ids, found.advice, found.errors)
    assert not [line for line in str(found).splitlines() if "does not know the argument" in line]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("module", "name", "arguments", "ids"), WRONG)
def test_a_mistake_is_named(candidate, module, name, arguments, ids):
    assert sorted(diagnose(candidate(module, name), arguments=arguments).ids) == ids.split()


@pytest.mark.parametrize(
    ("module", "name", "says"),
    [
        ("torch_notebooks", "PositionwiseFeedForward", "is a feed-forward network without attention"),
        ("keras_canonical", "point_wise_feed_forward_network", "is a feed-forward network without attention"),
    ],
)
def test_code_without_attention_is_told_apart(candidate, module, name, says):
    with pytest.raises(ValueError, match=says):
        diagnose(candidate(module, name))


@pytest.mark.parametrize(
    ("module", "name", "says"),
    [
        ("torch_notebooks", "Assembled", "make an instance, such as layer = Assembled(…)"),
        ("numpy_notebooks", "causal_mask", "--role self=n."),
        ("torch_notebooks", "Decodeur", "--role look_ahead=masque_cible --role mask=masque_origine."),
        (
            "numpy_notebooks",
            "aufmerksamkeit",
            "in another order: --role query=anfrage --role key=schluessel --role value=wert.",
        ),
    ],
)
def test_what_cannot_be_read_is_unjudged_with_the_option_to_paste(candidate, module, name, says):
    found = diagnose(candidate(module, name))
    assert found.verdict == "unjudged"
    assert any(says in line for line in found.advice), found.advice


@pytest.mark.parametrize(
    ("module", "name", "roles"),
    [
        ("torch_notebooks", "Decodeur", {"look_ahead": "masque_cible", "mask": "masque_origine"}),
        ("numpy_notebooks", "encodage", {"length": "longueur", "width": "largeur"}),
        ("numpy_notebooks", "aufmerksamkeit", {"query": "anfrage", "key": "schluessel", "value": "wert"}),
    ],
)
def test_the_proposed_option_works(candidate, module, name, roles):
    assert diagnose(candidate(module, name), roles=roles).right


def test_an_unknown_argument_may_be_a_mask(candidate):
    found = diagnose(candidate("torch_notebooks", "Attention"))
    assert found.right
    assert "if one is a mask: --role mask=masque" in str(found).replace("\n", " ")


def test_a_flag_that_the_user_sets_makes_the_reference_causal(candidate):
    Attention = candidate("torch_notebooks", "Attention")
    options = {"arguments": {"causale": True, "wrong": "ignored"}, "roles": {"causal": "causale"}}
    assert diagnose(Attention, **options).ids == ("causal-missing",)
