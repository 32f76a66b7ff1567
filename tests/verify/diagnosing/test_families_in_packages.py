"""Families of right code in packages that kmha could not read: each is read, and with a mistake it is named."""

import numpy as np
import pytest

from kmha.verify import diagnose

BUILT = {
    "Layer": (12, 3, 20),
    "Guided": (12, 3),
    "Pairs": ("dot",),
    "WithFunction": (12, 3),
    "NormAndPart": (12, 3),
    "Packed": (12, 3),
    "StatedSize": (3, 12, 4),
}


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
        ("HeadsBeforeItems", None, {}, "Right, if True hides in `attn_mask`."),
        ("OwnPadding", None, {}, "Tested: causal masks, large numbers."),
        ("OneMask", None, {}, "Tested: causal masks, large numbers."),
        ("BothPaddings", None, {}, "Tested: padding, large numbers."),
        ("WithFunction", {}, {}, "Pre-norm: taken as intended."),
        ("NormAndPart", {}, {}, "Pre-norm: taken as intended."),
        ("Packed", {}, {}, "Not tested: masks (it takes no mask); cross-attention (it takes no separate key)"),
        ("StatedSize", {}, {}, "Tested: self-attention, cross-attention, large numbers."),
    ],
)
def test_a_family_is_read(candidate, name, settings, given, says, scale):
    pytest.importorskip("torch")
    thing = candidate("torch_families", name)
    thing = thing if settings is None else thing(*BUILT[name], **settings, scale=scale)
    found = diagnose(thing, arguments={**given, **({"scale": scale} if settings is None else {})})
    assert (found.verdict, found.ids) == (("right", ()) if scale else ("known", ("scale-missing",))), found
    assert not scale or says in " ".join(str(found).split())


def test_a_window_that_is_never_reached_is_not_tested():
    """A window of 64 positions hides nothing from the few positions of a call."""
    torch = pytest.importorskip("torch")

    class Local(torch.nn.Module):
        def __init__(self, dim, num_heads, window_size):
            super().__init__()
            self.heads, self.window_size = num_heads, window_size
            self.qkv, self.out = torch.nn.Linear(dim, 3 * dim), torch.nn.Linear(dim, dim)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            places = torch.arange(length)
            near = places[:, None] - places < self.window_size
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, near)
            return self.out(y.transpose(1, 2).reshape(batch, length, width))

    found = diagnose(Local)
    assert found.right
    says = "`window_size` (kmha passed one that is longer than all inputs)"
    assert {"says": says, "important": True} in found.to_dict()["untested"]


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


@pytest.mark.parametrize(
    ("name", "causal", "ids"),
    [
        ("SelfAlone", False, ()),
        ("SelfAlone", True, ("causal-missing",)),
        ("CausalAlone", True, ()),
        ("CausalAlone", False, ("causal-always",)),
    ],
)
def test_a_class_may_be_said_to_be_causal(candidate, name, causal, ids):
    pytest.importorskip("torch")
    thing = candidate("torch_families", name)
    thing = thing(12, 3) if name == "SelfAlone" else thing  # its constructor has such an argument
    assert diagnose(thing, arguments={"causal": causal}).ids == ids


def test_another_layer_beside_the_attention_accuses_nobody(candidate):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_families", "LayerBefore")(12, 3))
    assert found.verdict == "unjudged"
    assert "for a feed-forward network of one layer, which may be wrong" in " ".join(str(found).split())


@pytest.mark.parametrize("divide", [False, True])
def test_a_table_beside_positions_that_are_not_trained_has_the_tokens(candidate, divide):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_families", "PositionalLookup")(17, 12, divide=divide))
    assert found.right != divide
    assert not divide or "embedding-divided" in found.ids


def test_an_attention_that_is_not_causal_and_takes_no_mask_accuses_nobody(candidate):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_families", "Guided")(12, 3))
    assert found.verdict == "unjudged"
    assert "If its self-attention is not meant to be causal, say so: --set causal=false." in str(found)


@pytest.mark.parametrize(("scale", "ids"), [(0.5, ()), (1, ("scale-without-root",))])
def test_the_framework_is_that_of_a_function_in_another_module(candidate, scale, ids):
    pytest.importorskip("torch")
    core = candidate("torch_families", "core")

    def attention(query, key, value, attn_mask=None):
        return core(query, key, value, attn_mask=attn_mask, scale=query.shape[-1] ** -scale)

    assert diagnose(attention).ids == ids


class Dense:
    def __init__(self, features):
        self.W = np.random.default_rng(features).normal(size=(features, features))

    def __call__(self, x):
        return x @ self.W


class CalledObject:
    """NumPy attention whose objects are called as functions are."""

    def __init__(self, width, heads, scale=True):
        self.num_heads, self.scale = heads, scale
        self.wq, self.wk, self.wv, self.wo = (Dense(width) for _ in range(4))

    def __call__(self, x):
        batch, length, width = x.shape
        query, key, value = (
            layer(x).reshape(batch, length, self.num_heads, -1).swapaxes(1, 2) for layer in (self.wq, self.wk, self.wv)
        )
        logits = query @ key.swapaxes(2, 3) / (query.shape[-1] ** 0.5 if self.scale else 1)
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ value
        return self.wo(mixed.swapaxes(1, 2).reshape(batch, length, width))


class Around:
    """It states no number of heads itself."""

    def __init__(self, scale):
        self.layer = CalledObject(12, 3, scale)

    def __call__(self, x):
        return self.layer(x)


@pytest.mark.parametrize("scale", [True, False])
def test_an_object_that_is_called_and_has_weights_is_a_layer(scale):
    for thing in (CalledObject(12, 3, scale), Around(scale)):
        found = diagnose(thing)
        assert found.ids == (() if scale else ("scale-missing",)), found
        assert found.right == scale


def test_weights_that_cannot_be_seen_accuse_nobody():
    class Tensor:
        """A package's own array, which takes NumPy's place."""

        __slots__ = ("data",)

        def __init__(self, data):
            self.data = data

    kernel = Tensor(np.random.default_rng(0).normal(size=(5, 5)))

    def attention(query, key, value):
        logits = (query @ kernel.data) @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        return scores / scores.sum(-1, keepdims=True) @ value

    found = diagnose(attention)
    assert found.verdict == "unjudged"
    assert "It keeps `kernel`, which may contain weights that kmha does not see." in " ".join(str(found).split())


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


def test_names_of_normalizations_that_are_exchanged_do_no_harm(candidate):
    """They matter for weights of other code alone, as the order of a head's features does."""
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_families", "NormsExchanged"))
    assert (found.right, found.ids) == (True, ("norm-swapped-1-last",))
    text = " ".join(str(found).split())
    assert "it differs from the reference in all 7 calls, in a way that does no harm." in text
    assert "You swapped the normalizations" in text
