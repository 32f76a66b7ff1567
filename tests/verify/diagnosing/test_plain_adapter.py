import functools
import types

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.layer_adapters import is_layer
from kmha.verify.diagnosing.plain_adapter import PlainAdapter, is_plain, places_of


@pytest.mark.parametrize("name", ["SelfAttention", "EncoderLayer", "EncoderOfDicts", "Embedding", "LazyAttention"])
def test_a_right_class_is_right(candidate, name):
    found = diagnose(candidate("plain_classes", name))
    assert found.right, found.ids
    assert found.errors == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "wrong", "ids"),
    [
        ("SelfAttention", "no scale", ("scale-missing",)),
        ("LazyAttention", "no scale", ("scale-missing",)),
        ("EncoderLayer", "no residual", ("residual-missing-feed-forward",)),
        ("EncoderOfDicts", "no residual", ("residual-missing-feed-forward",)),
        ("Embedding", "twice", ("positions-exponent-doubled",)),
    ],
)
def test_a_mistake_is_named(candidate, name, wrong, ids):
    assert diagnose(candidate("plain_classes", name), arguments={"wrong": wrong}).ids == ids


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "wrong", "line"),
    [
        ("SelfAttention", "no scale", "result = layer.forward(x=x)"),
        ("LazyAttention", "no scale", "# makes the weights"),
        ("EncoderOfDicts", "no residual", "layer.norms[0].g = "),
        ("EncoderOfDicts", "no residual", "layer.p['W1'] = "),
    ],
)
def test_the_script_runs(candidate, name, wrong, line):
    module = candidate("plain_classes", name)
    found = diagnose(module, arguments={"wrong": wrong})
    scope = {name: module}
    exec("\n".join(line for line in found.code().splitlines() if not line.startswith("from ")), scope)  # noqa: S102
    assert line in found.code()
    np.testing.assert_allclose(scope["result"], found.smallest.answer.output, rtol=1e-6)


def test_dropout_that_is_on_by_default_is_off_in_calls_that_say_so(candidate):
    found = diagnose(candidate("plain_classes", "PositionalEncoding"))
    assert found.right, found


def test_a_mask_that_the_first_call_keeps_is_no_weight():
    class ScaledDotProductAttention:
        def __init__(self):
            self.bias = None

        def __call__(self, query, key, value):
            if self.bias is None:
                self.bias = np.zeros((64, 64))
                self.bias[np.triu_indices(64, 1)] = -1e30
            logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
            logits = logits + self.bias[: logits.shape[-2], : logits.shape[-1]]
            powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
            return powers / powers.sum(axis=-1, keepdims=True) @ value

    found = diagnose(ScaledDotProductAttention)
    assert found.right, found


def test_weights_in_lists_dicts_and_objects():
    class Head:
        def __init__(self):
            self.kernel, self.mask, self.count = np.ones((2, 3)), np.ones((4, 4)), 3

    class Layer:
        def __init__(self):
            self.heads, self.out, self.again = [Head(), Head()], {"w": np.zeros(5)}, self

        def __call__(self, x):
            return np.asarray(x)

    adapter, layer = PlainAdapter(Layer), Layer()
    found = adapter.variables(layer)
    assert [(each.path, each.shape) for each in found] == [
        ("heads.0.kernel", (2, 3)),
        ("heads.1.kernel", (2, 3)),
        ("out.w", (5,)),
    ]
    found[1].assign(np.full((2, 3), 7.0))
    found[2].assign(np.full(5, 9.0))
    assert layer.heads[1].kernel[0, 0] == found[1].read()[0, 0] == 7.0
    assert layer.out["w"][0] == 9.0
    assert adapter.parts(layer) == [*layer.heads, layer.out]


def test_what_is_no_plain_class():
    assert not is_plain(int)
    assert not is_plain(type("Nothing", (), {}))
    assert not is_plain(functools.partial)
    assert not is_layer(PlainAdapter(int))


@pytest.mark.parametrize("wrong", ["", "no scale"])
def test_an_object_with_its_weights(candidate, wrong):
    attention = candidate("plain_classes", "SelfAttention")(12, 3, wrong)
    assert diagnose(attention).ids == (("scale-missing",) if wrong else ())


def test_an_embedding_that_makes_its_table_late_and_keeps_its_output():
    class Embedding:
        def __init__(self, vocab_size, d_model):
            self.shape, self.table = (vocab_size, d_model), None

        def forward(self, ids):
            if self.table is None:
                self.table = np.random.default_rng(0).normal(size=self.shape)
            width = self.shape[1]
            angles = np.arange(ids.shape[1])[:, None] / 10000 ** (np.arange(width) // 2 * 2 / width)
            waves = np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))
            self.out = self.table[ids] * np.sqrt(width) + waves
            return self.out

    for thing in (Embedding, Embedding(7, 12)):
        assert diagnose(thing).right
    used = Embedding(7, 12)
    used.forward(np.arange(5)[None])
    with pytest.raises(ValueError, match="it was called and keeps its result"):
        diagnose(used)


@pytest.mark.parametrize(("factor", "ids"), [(12**0.5, ()), (12.0, ("embedding-scaled-by-width",))])
def test_an_embedding_as_an_object_stays_as_it_was(factor, ids):
    class Embedding:
        def __init__(self):
            self.table = np.random.default_rng(0).normal(size=(17, 12))
            angles = np.arange(64)[:, None] / 10000 ** (np.arange(12) // 2 * 2 / 12)
            self.pe = np.where(np.arange(12) % 2 == 0, np.sin(angles), np.cos(angles))

        def forward(self, ids):
            return self.table[ids] * factor + self.pe[: ids.shape[1]]

    embedding = Embedding()
    before = embedding.table.copy()
    assert diagnose(embedding).ids == ids
    assert np.array_equal(embedding.table, before)


def test_what_cannot_be_copied_is_told(candidate):
    import threading

    attention = candidate("plain_classes", "SelfAttention")(12, 3)
    attention.lock = threading.Lock()
    with pytest.raises(ValueError, match=r"cannot be copied .*Give kmha its class"):
        diagnose(attention)


@pytest.mark.parametrize("name", ["masked_attention", "positionwise", "position_wise", "post_norm", "single"])
def test_names_that_only_begin_like_those_of_constants(name):
    """The weights of a decoder's `masked_attention` were left out, and the layer was said to differ."""
    part = types.SimpleNamespace(kernel=np.ones((2, 3)))
    assert [place.path for place in places_of(types.SimpleNamespace(**{name: part}))] == [f"{name}.kernel"]


@pytest.mark.parametrize("name", ["mask", "causal_mask", "pos", "pos_emb", "positional", "inv_freq", "cos"])
def test_names_of_constants(name):
    assert not [*places_of(types.SimpleNamespace(**{name: np.ones((2, 3))}))]
