"""Models that take token ids: their parts are diagnosed."""

import types

import keras
import pytest
from keras import layers, ops

from kmha.verify import diagnose
from kmha.verify.diagnosing import whole_model


class Block(layers.Layer):
    def __init__(self, width, heads, wrong=""):
        super().__init__()
        self.ln_a, self.ln_b = layers.LayerNormalization(epsilon=1e-5), layers.LayerNormalization(epsilon=1e-5)
        self.attn = layers.MultiHeadAttention(heads, width // heads)
        self.up, self.down = layers.Dense(2 * width, activation="gelu"), layers.Dense(width)

    def call(self, x):
        h = self.ln_a(x)
        x = x + self.attn(h, h, use_causal_mask=True)
        return x + self.down(self.up(self.ln_b(x)))


class WrongBlock(Block):
    def call(self, x):
        h = self.ln_a(x)
        x = x + self.attn(h, h, use_causal_mask=True)
        return self.down(self.up(self.ln_b(x)))


class Model(keras.Model):
    block = Block

    def __init__(self, vocab_size=30, maxlen=16, width=16, heads=2, depth=2):
        super().__init__()
        self.tok, self.pos = layers.Embedding(vocab_size, width), layers.Embedding(maxlen, width)
        self.blocks = [self.block(width, heads) for _ in range(depth)]
        self.head = layers.Dense(vocab_size, use_bias=False)

    def call(self, idx):
        x = self.tok(idx) + self.pos(ops.arange(ops.shape(idx)[1]))
        for each in self.blocks:
            x = each(x)
        return self.head(x)


class WrongModel(Model):
    block = WrongBlock


class NoParts(keras.Model):
    def __init__(self, vocab_size, width, heads):
        super().__init__()
        self.tok = layers.Embedding(vocab_size, width)
        self.attn = layers.MultiHeadAttention(heads, width // heads)

    def call(self, ids):
        x = self.tok(ids)
        return self.attn(x, x)


def test_a_right_part_is_right_and_the_rest_is_not_judged():
    found = diagnose(Model)
    assert (found.verdict, found.name) == ("right", "Block in Model")
    assert "Model takes token ids, so that kmha diagnosed its parts: Block is right." in " ".join(found.further)


@pytest.mark.parametrize("given", [WrongModel, WrongModel(vocab_size=30)])
def test_a_mistake_of_a_part_is_named(given):
    found = diagnose(given)
    assert found.ids == ("residual-missing-feed-forward",)
    assert found.name.startswith("WrongBlock in ")


def test_a_model_whose_parts_are_all_of_a_framework_is_refused_in_words():
    with pytest.raises(ValueError, match="takes token ids"):
        diagnose(NoParts)


class PostNorm(Block):
    def call(self, x):
        x = self.ln_a(x + self.attn(x, x, use_causal_mask=True))
        return self.ln_b(x + self.down(self.up(x)))


class PostNormModel(Model):
    block = PostNorm


def test_options_hold_for_the_parts():
    assert diagnose(PostNormModel, expect=["post-norm"]).right
    assert diagnose(Model, expect=["post-norm"]).verdict == "known"
    with pytest.raises(ValueError, match="expected the id of a design choice"):
        diagnose(Model, expect=["post-morn"])
    assert diagnose(Model, mask="hides").candidate.said_meaning == "hides"


@pytest.mark.parametrize(
    ("verdicts", "first"),
    [(["raises", "right"], "right"), (["right", "unknown"], "unknown"), (["unknown", "known"], "known")],
)
def test_the_part_that_tells_most_comes_first(monkeypatch, verdicts, first):
    """The first part could not be run, and the report of the whole model was that."""
    found = {type(f"Part{each}", (), {}): types.SimpleNamespace(name=f"Part{each}", verdict=each) for each in verdicts}
    monkeypatch.setattr(whole_model, "classes_inside", lambda model: [*found])
    part, says = whole_model.judged(types.SimpleNamespace(name="Model"), "token ids", found.get)
    assert part.verdict == first
    assert all(kind.__name__ in says for kind in found)
