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


@pytest.mark.parametrize(("heads", "groups", "bias"), [(4, 2, True), (3, 1, False)])
def test_a_packed_layer_with_fewer_heads_of_keys_and_values(candidate, heads, groups, bias):
    candidate("torch_packages", "attend")
    packed, built = candidate("torch_forms", "Packed"), {"num_kv_heads": groups, "num_heads": heads}
    for wrong, ids in (("", ()), ("no scale", ("scale-missing",))):
        assert diagnose(packed(12, heads, groups, bias, wrong)).ids == ids
        found = diagnose(packed, arguments={**built, "bias": bias, "wrong": wrong})
        assert found.ids == ids
    scope = {"__name__": "shown"}
    exec(compile(found.code(), "shown.py", "exec"), scope)  # noqa: S102 - the code that is shown
    np.testing.assert_allclose(scope["result"].detach(), found.smallest.answer.output, rtol=1e-4)


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
