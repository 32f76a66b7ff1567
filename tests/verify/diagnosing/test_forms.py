"""Forms of layers that the diagnosis once refused or accused: a right layer of each, and with a mistake."""

import numpy as np
import pytest

from kmha.verify import diagnose

CLASSES = [
    ("ValueKeyQuery", {}, "no residual", ("residual-missing-attention",)),
    ("CrossingPreNorm", {}, "not scaled", ("scale-missing",)),
    ("NeedsMask", {}, "not scaled", ("scale-missing",)),
    ("EncoderState", {}, "not scaled", ("scale-missing",)),
    ("ListOfHeads", {"context_length": 64}, "not scaled", ("scale-missing",)),
    ("RotatesOnRequest", {}, "not scaled", ("scale-missing",)),
    ("DropsScores", {}, "transposed", ("mix-scores-transposed",)),
    ("PositionalEncoder", {}, "sines", ("positions-sines-only",)),
    ("TextToImage", {}, "not scaled", ("scale-missing",)),
    ("OfConfig", {}, "not scaled", ("scale-missing",)),
    ("WithValueSize", {}, "not scaled", ("scale-missing",)),
]


@pytest.mark.parametrize(("name", "arguments", "wrong", "ids"), CLASSES, ids=[each[0] for each in CLASSES])
def test_a_class(candidate, name, arguments, wrong, ids):
    candidate("torch_packages", "attend")
    found = diagnose(candidate("torch_forms", name), arguments=arguments)
    assert found.right, (found.ids, found.wrong, found.errors)
    assert diagnose(candidate("torch_forms", name), arguments={**arguments, "wrong": wrong}).ids == ids


@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("no residual", ("residual-missing-attention",))])
def test_a_built_block_with_cross_attention_alone(candidate, wrong, ids):
    candidate("torch_packages", "attend")
    assert diagnose(candidate("torch_forms", "Crossing")(12, 3, 20, wrong)).ids == ids


@pytest.mark.parametrize(
    ("heads", "groups", "bias", "order"),
    [(4, 2, True, "roles"), (3, 1, False, "roles"), (4, 2, True, "groups"), (6, 2, False, "pairs")],
)
def test_a_packed_layer_with_fewer_heads_of_keys_and_values(candidate, heads, groups, bias, order):
    candidate("torch_packages", "attend")
    packed = candidate("torch_forms", "Packed")
    built = {"num_kv_heads": groups, "num_heads": heads, "bias": bias, "order": order}
    for wrong, ids in (("", ()), ("no scale", ("scale-missing",))):
        assert diagnose(packed(12, heads, groups, bias, order, wrong)).ids == ids
        found = diagnose(packed, arguments={**built, "wrong": wrong})
        assert found.ids == ids
    scope = {"__name__": "shown"}
    exec(compile(found.code(), "shown.py", "exec"), scope)  # noqa: S102 - the code that is shown
    np.testing.assert_allclose(scope["result"].detach(), found.smallest.answer.output, rtol=1e-4)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("wrong", "ids"), [("", ()), ("no scale", ("scale-missing",))])
def test_a_block_with_fewer_heads_of_keys_and_values(candidate, packed, wrong, ids):
    candidate("torch_packages", "attend")
    block = candidate("torch_forms", "GroupedBlock")
    assert diagnose(block(12, 4, 2, 20, packed, wrong)).ids == ids
    found = diagnose(block, arguments={"num_heads": 6, "num_kv_heads": 2, "packed": packed, "wrong": wrong})
    assert found.ids == ids
    assert bool(found.right) == (not ids)


def test_an_order_of_packed_heads_that_nothing_tells_is_no_mistake(candidate):
    candidate("torch_packages", "attend")
    found = diagnose(candidate("torch_forms", "Packed")(12, 4, 2, order="value before key"))
    assert found.verdict == "unjudged"
    assert "kmha does not know in which order qkv_proj.weight holds the heads" in " ".join(found.advice)


def test_a_list_is_one_of_heads_only_if_its_parts_have_one_each(candidate):
    candidate("torch_packages", "attend")
    assert diagnose(candidate("torch_forms", "FusedHeads")()).right
    found = diagnose(candidate("torch_forms", "Parts")())
    assert found.verdict == "unjudged"
    assert "--set num_heads=H" in " ".join(found.advice)


def test_a_cache_that_a_layer_does_not_use_itself(candidate):
    candidate("torch_packages", "attend")
    assert diagnose(candidate("torch_forms", "CacheOfAnother")()).right


def test_masks_of_a_form_that_mostly_raises_accuse_nobody(candidate):
    """Where B = T, a mask (T, S) may be taken for one of (B, S)."""
    candidate("torch_packages", "attend")
    block = candidate("torch_forms", "Crossing")

    class Square(block):
        def forward(self, x, context, mask=None):
            if mask is not None and mask.shape != (x.shape[1], context.shape[1]):
                raise ValueError("expected a mask (T, S)")
            return super().forward(x, context, mask)

    assert diagnose(Square(12, 3, 20)).verdict in ("right", "unjudged")
