"""Families of right code in packages that kmha could not read: each is read, and with a mistake it is named."""

import numpy as np
import pytest

from kmha.verify import diagnose

BUILT = {"Layer": (12, 3, 20), "Guided": (12, 3), "Pairs": ("dot",)}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(
    ("name", "settings", "given", "says"),
    [
        ("HeadsLast", None, {}, "It returns the scores as (B, T, S, H), with the heads last: taken as intended."),
        ("MaskOfItemsAndHeads", None, {}, "Right, if True hides in `mask`."),
        ("Layer", {}, {}, "Right, if True hides in `attn_masks`."),
        ("Layer", {"crosses": True}, {}, "Tested: causal masks, padding, large numbers."),
        ("Zeroed", None, {}, "Its output is zero at padding: taken as intended."),
        ("SingleLayerNetwork", None, {}, "Tested: padding, large numbers."),
        ("Guided", {}, {"causal": False}, "Pre-norm and GELU: taken as intended."),
        ("Pairs", {}, {}, "Tested: self-attention, cross-attention, padding, large numbers."),
    ],
)
def test_a_family_is_read(candidate, name, settings, given, says, scale):
    pytest.importorskip("torch")
    thing = candidate("torch_families", name)
    thing = thing if settings is None else thing(*BUILT[name], **settings, scale=scale)
    found = diagnose(thing, arguments={**given, **({"scale": scale} if settings is None else {})})
    assert (found.verdict, found.ids) == (("right", ()) if scale else ("known", ("scale-missing",))), found
    assert not scale or says in " ".join(str(found).split())


def test_a_mask_of_queries_and_keys_alone(candidate):
    """It was said to take padding for queries, since (B, S) is (T, S) where B = T."""
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_families", "OnlySquareMasks"))
    assert found.right
    assert "Not tested: padding (it takes masks (T, S) alone, or such calls raise an error)" in " ".join(
        str(found).split()
    )


@pytest.mark.parametrize(("divide", "ids"), [(False, ()), (True, ("embedding-divided",))])
def test_positions_that_are_counted_without_padding(candidate, divide, ids):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_families", "CountedPositions")(17, 12, divide=divide))
    assert (found.right, found.ids) == (not ids, ids), found
    assert "learned positions from row 1 of the table on, without counting padding" in " ".join(str(found).split())


def test_an_attention_that_is_not_causal_and_takes_no_mask_accuses_nobody(candidate):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_families", "Guided")(12, 3))
    assert found.verdict == "unjudged"
    assert "If its self-attention is not meant to be causal, say so: --set causal=false." in str(found)


def test_a_function_that_splits_heads_itself_needs_their_number():
    def attention(query, key, value):
        def split(x):
            return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)

        num_heads = 3
        assert query.ndim == 3
        assert not query.shape[-1] % num_heads
        query, key, value = map(split, (query, key, value))
        logits = query @ key.swapaxes(2, 3) / query.shape[-1] ** 0.5
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True) @ value).swapaxes(1, 2)
        return mixed.reshape(*mixed.shape[:2], -1)

    assert "say into how many: --set num_heads=H" in str(diagnose(attention))
    assert diagnose(attention, arguments={"num_heads": 3}).right
