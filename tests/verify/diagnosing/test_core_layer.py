from pathlib import Path

import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.evidence.source_text import functions_of


class _Core(keras.layers.Layer):
    """Scaled dot-product attention without weights."""

    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature, self.dropout = temperature, keras.layers.Dropout(0.1)

    def call(self, q, k, v, mask=None):
        assert len(q.shape) == 4
        logits = q @ keras.ops.transpose(k, (0, 1, 3, 2)) / self.temperature
        logits = logits if mask is None else keras.ops.where(mask, logits, -1e9)
        return keras.ops.softmax(logits) @ v


class _Unscaled(_Core):
    def __init__(self):
        super().__init__(1.0)


@pytest.mark.parametrize(("layer", "ids"), [(_Core, ()), (_Unscaled, ("scale-missing",))])
def test_a_layer_without_weights(layer, ids):
    found = diagnose(layer)
    assert found.ids == ids
    assert found.convention.entry == "(B, H, P, O)"
    assert not ids or "result = _Unscaled()(q=q" in found.code()


def test_an_object_without_weights():

    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):
        def forward(self, queries, keys, values):
            logits = torch.einsum("blhe,bshe->bhls", queries, keys) / np.sqrt(queries.shape[-1])
            return torch.einsum("bhls,bshd->blhd", torch.softmax(logits, -1), values), None

    found = diagnose(Attention())
    assert found.right
    assert found.convention.entry == "(B, P, H, O)"


class _Made:
    """It is made for one head size, which only its scale states."""

    def __init__(self, dim, fill=-1e9, factor=1.0):
        self.sqrt_dim, self.fill = factor * np.sqrt(dim), fill

    def __call__(self, query, key, value, mask=None):
        logits = query @ np.swapaxes(key, -1, -2) / self.sqrt_dim
        logits = logits if mask is None else np.where(mask, logits, self.fill)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ value


def test_a_head_size_that_an_attribute_states():
    """It was called with heads of another size, and its scale was said to be wrong."""
    found = diagnose(_Made(6))
    assert found.verdict == "right"
    assert found.sizes.size == 6
    assert "Its heads got 6 features, as its attribute `sqrt_dim` says." in str(found).replace("\n", " ")


class _Splits:
    """It splits features into heads itself, and nothing but its attribute says into how many."""

    def __init__(self, num_heads, scaled=True):
        self.num_heads, self.scaled = num_heads, scaled

    def __call__(self, query, key, value, mask=None):
        heads = [x.reshape(*x.shape[:2], self.num_heads, -1).swapaxes(1, 2) for x in (query, key, value)]
        attend = _Made(heads[0].shape[-1] if self.scaled else 1)
        return attend(*heads, mask).swapaxes(1, 2).reshape(query.shape)


@pytest.mark.parametrize(("scaled", "ids"), [(True, ()), (False, ("scale-missing",))])
def test_a_number_of_heads_that_an_object_states(scaled, ids):
    """Every call raised an error, and kmha asked for `--set num_heads=H`."""
    found = diagnose(_Splits(3, scaled))
    assert (found.right, found.ids) == (not ids, ids)
    assert found.sizes.heads == 3


class _CountsHeads(_Made):
    """It is told a number of heads that only its text and a check use."""

    def __init__(self, num_heads, size=6):
        super().__init__(size)
        self.num_heads = num_heads

    def __repr__(self):
        return f"{self.num_heads} heads"

    def __call__(self, query, key, value, mask=None):
        assert self.num_heads > 0
        return super().__call__(query, key, value, mask)


def test_a_number_of_heads_that_splits_nothing():
    """Its inputs were split into so many heads, and it was said to differ."""
    assert diagnose(_CountsHeads(3)).right


def test_the_code_of_a_layer_without_weights_is_read():
    """Only kmha's own wrapper was, so no line was ever quoted."""
    found = functions_of(diagnose(_Unscaled).candidate)
    assert {each.name for each in found} == {"call", "__init__"}
    assert {Path(each.path).name for each in found} == {Path(__file__).name}


@pytest.mark.parametrize(
    ("fill", "verdict", "ids"),
    [
        (-1e9, "right", ()),
        (-1e4, "right", ("mask-fills-10000",)),
        (-1e3, "right", ("mask-number-in-thousands",)),
        (-100.0, "known", ("mask-fills-100",)),
    ],
)
def test_a_fill_that_no_logits_reach_is_not_accused(fill, verdict, ids):
    """BERT hides logits with -10,000, and so do several packages. It is told, but it is no mistake."""
    found = diagnose(_Made(6, fill))
    assert (found.verdict, found.ids) == (verdict, ids)
    text = str(found).replace("\n", " ")
    assert ("You set hidden logits to -10,000" in text) is (fill == -1e4)
    assert ("Look at" in text or Path(__file__).name in text) is (verdict == "known")


@pytest.mark.parametrize(
    ("name", "sizes", "ids"),
    [
        ("NeverReadsItsHeads", (12, 4, 3), ()),
        ("NeverReadsItsHeads", (12, 4, 3, "width"), ("scale-all-heads",)),
        ("SplitsInAHelper", None, None),
    ],
)
def test_a_number_of_heads_that_the_code_of_a_core_never_reads(candidate, name, sizes, ids):
    """It was read as a layer with weights, which ended in an error about features."""
    pytest.importorskip("torch")
    layer = candidate("torch_packages", name)
    if ids is None:  # it needs features H·O, and this is said
        with pytest.raises(CandidateError, match="kmha made inputs that do not go together"):
            diagnose(layer)
        return
    found = diagnose(layer(*sizes))
    assert (found.right, found.ids) == (not ids, ids)
