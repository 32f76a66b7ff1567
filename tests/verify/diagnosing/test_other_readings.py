"""Arguments that packages give meanings of their own: a right layer of each, and with a mistake."""

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.diagnosis import candidate_of

CASES = [
    ("Attention", {}, "context ignored", ()),
    ("Attention", {"strict": True}, "not scaled", ("scale-missing",)),
    ("Attention", {"is_cross_attention": True}, "context ignored", ("inputs-all-query",)),
    ("Decoder", {}, "not scaled", ("scale-missing",)),
    ("FewKeys", {"num_heads": 4, "few": 2}, "not scaled", ("scale-missing",)),
    ("Pair", {}, "not scaled", ("scale-missing",)),
]
BUILT = ["PaddingAndMask", "Block", "Latents", "SkipsWithoutMemory"]


@pytest.mark.parametrize(("name", "arguments", "wrong", "ids"), CASES)
def test_a_class(candidate, name, arguments, wrong, ids):
    found = diagnose(candidate("torch_packages", name), arguments=arguments)
    assert found.right, (found.ids, found.wrong, found.errors)
    assert diagnose(candidate("torch_packages", name), arguments={**arguments, "wrong": wrong}).ids == ids


@pytest.mark.parametrize("name", BUILT)
def test_a_built_layer(candidate, name):
    found = diagnose(candidate("torch_packages", name)())
    assert found.right, (found.ids, found.wrong, found.errors)
    assert diagnose(candidate("torch_packages", name)(wrong="not scaled")).ids == ("scale-missing",)


@pytest.mark.parametrize("built", [False, True])
def test_a_mistake_that_needs_equal_lengths(candidate, built):
    layer, wrong = candidate("torch_packages", "Pair"), {"wrong": "scores transposed"}
    found = diagnose(layer(12, 3, **wrong)) if built else diagnose(layer, arguments=wrong)
    assert found.ids == ("mix-scores-transposed",)


def test_a_built_layer_with_few_keys(candidate):
    assert diagnose(candidate("torch_packages", "FewKeys")()).right


def test_a_compiled_function_is_read_from_its_docstring():
    assert diagnose(pytest.importorskip("torch").nn.functional.scaled_dot_product_attention).right


def test_a_table_of_relative_positions_is_no_feed_forward_network(candidate):
    assert candidate_of(candidate("torch_packages", "Relative"), {}).chain == "attention"


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("mask tiled", ("mask-tiled",))])
def test_no_guessed_size_makes_a_kernel_empty(candidate, wrong, ids):
    """An empty kernel ignores its input, so that every mistake of a layer that has one looks right."""
    found = diagnose(candidate("torch_packages", "SizesOfRoles"), arguments={"wrong": wrong})
    assert (found.ids, found.right) == (ids, not ids)
    assert found.sizes.key_features > 0
    with pytest.raises(CandidateError, match="--set colour=VALUE"):
        diagnose(candidate("torch_packages", "UnknownSizes"), arguments={"wrong": wrong})


@pytest.mark.parametrize(
    ("name", "arguments", "ids"),
    [
        ("HeadsInAList", {}, ()),
        ("RefersToOthers", {}, ()),
        ("HeadsInAList", {"plain": True}, ("parts-not-registered",)),
        ("HeadsInAList", {"plain": True, "wrong": "not scaled"}, ("scale-missing",)),
    ],
)
def test_modules_in_a_plain_list(candidate, name, arguments, ids):
    found = diagnose(candidate("torch_packages", name), arguments=arguments)
    assert (found.ids, found.errors) == (ids, {})


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("not scaled", ("scale-missing",))])
def test_a_mask_for_padding_alone_in_a_block_of_heads_in_a_list(candidate, wrong, ids):
    """No causal mask has a form that such a mask may have, and the length of the list is the number of heads."""
    found = diagnose(candidate("torch_packages", "block_of_padding")(wrong))
    assert (found.ids, found.right) == (ids, not ids)
    if found.right:
        assert "causal masks (its mask is for padding alone" in str(found)
        assert not any(result.trial.causal for result in found.results)
        assert any(result.trial.masked for result in found.results)


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("not scaled", ("scale-missing",))])
def test_beside_a_target_the_source_is_the_memory(candidate, wrong, ids):
    found = diagnose(candidate("torch_packages", "SourceAndTarget"), arguments={"wrong": wrong})
    assert (found.ids, found.right) == (ids, not ids)
    assert any(result.trial.key is not result.trial.query for result in found.results)


@pytest.mark.parametrize(("activation", "ids"), [("Tanh", "tanh"), ("GELU", None)])
def test_an_activation_that_is_no_choice_hides_no_other_choice(candidate, activation, ids):
    torch = pytest.importorskip("torch")
    found = diagnose(candidate("torch_packages", "activated")(getattr(torch.nn, activation)()))
    assert found.ids == ((f"feed-forward-activation-{ids}",) if ids else ())
    assert found.convention.choices == (("pre-norm",) if ids else ("pre-norm", "activation-gelu"))


@pytest.mark.parametrize(("ahead", "ids"), [(0, ()), (1, ("causal-one-ahead",))])
def test_a_mistake_in_a_causal_mask_that_is_always_aligned_at_the_bottom_right(ahead, ids):
    def causal_attention(q, k, v):
        logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        rows, columns = logits.shape[-2:]
        logits = np.where(np.tri(rows, columns, columns - rows + ahead, dtype=bool), logits, -1e30)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v

    found = diagnose(causal_attention)
    assert (found.ids, found.right) == (ids, not ids)
    assert found.convention.choices == ("causal-bottom-right",)


def test_a_list_of_attentions_is_no_list_of_heads(candidate):
    with pytest.raises(CandidateError, match="nothing states its number of heads"):
        diagnose(candidate("torch_packages", "list_of_attentions")())


def test_an_activation_that_must_be_made_stays(candidate):
    found = diagnose(candidate("torch_packages", "activated")(), expect=["activation-gelu"])
    assert found.ids == ("feed-forward-activation-tanh",)
    assert "activation-gelu" in found.convention.choices


@pytest.mark.parametrize(
    ("name", "options", "ids"),
    [
        ("QueryLast", {}, ()),
        ("QueryLast", {"wrong": "not scaled"}, ("scale-missing",)),
        ("ContextFirst", {}, ("inputs-query-from-encoder",)),
        ("OfItself", {}, ()),
        ("OfItself", {"wrong": "not scaled"}, ("scale-missing",)),
        ("OfItself", {"self_attention": False}, ()),
    ],
)
def test_what_the_inputs_are_is_told_by_names_and_flags_alone(candidate, name, options, ids):
    """`x` and `y` were taken for query and memory, and `self_attention=True` for a memory that is ignored."""
    found = diagnose(candidate("torch_packages", name)(12, 3, **options))
    assert found.ids == ids
    assert found.right == (not ids)
    assert ("The query is taken from `y`" in str(found)) == (name == "QueryLast")


def test_ids_of_an_encoding_without_tokens_are_positions(candidate):
    """They were drawn at random, and looking them up was called a mistake."""
    assert diagnose(candidate("torch_packages", "PositionalEncodingOfSteps")(12)).right


def test_lengths_without_effect_beside_a_mask_are_told(candidate):
    found = diagnose(candidate("torch_packages", "LengthsForAKernel")(12, 3))
    assert found.right
    assert "`lengths` has no effect beside its mask" in " ".join(str(found).split())
