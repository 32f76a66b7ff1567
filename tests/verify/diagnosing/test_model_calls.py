"""Mistakes of a whole model of token ids, which its calls show without a reference."""

import math

import pytest
from keras import layers, ops

from kmha.verify import diagnose

torch = pytest.importorskip("torch")
nn = torch.nn


class Reviews(nn.Module):
    """Scores of a review, of which every batch has reviews of the same length."""

    def __init__(self, n_vocab=50, d_model=24, n_head=3, n_scores=4):
        super().__init__()
        self.lookup = nn.Embedding(n_vocab, d_model)
        self.mix = nn.MultiheadAttention(d_model, n_head, batch_first=True)
        self.score = nn.Linear(d_model, n_scores)

    def forward(self, token_ids):
        words = self.lookup(token_ids)
        return self.score((words + self.mix(words, words, words)[0]).mean(1))


class ReviewsAcross(Reviews):
    def __init__(self):
        super().__init__()
        self.mix = nn.MultiheadAttention(24, 3)


class TokensFirst(Reviews):
    """A model of (P, B) ids, which is right."""

    def __init__(self):
        super().__init__()
        self.mix = nn.MultiheadAttention(24, 3)

    def forward(self, token_ids):
        words = self.lookup(token_ids)
        return self.score(words + self.mix(words, words, words)[0])


class WavePositions(nn.Module):
    axis = 1

    def __init__(self, d_model):
        super().__init__()
        angles = torch.arange(300)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, x):
        rows = self.table[: x.shape[self.axis]]
        return x + (rows if self.axis == 1 else rows[:, None])


class WavePositionsByItem(WavePositions):
    axis = 0


class Letters(nn.Module):
    """A character-level language model."""

    waves_class, ahead = WavePositions, 1

    def __init__(self, vocab_size, width=16, heads=2):
        super().__init__()
        self.table, self.waves = nn.Embedding(vocab_size, width), self.waves_class(width)
        self.block = nn.TransformerEncoderLayer(width, heads, 32, batch_first=True)
        self.out = nn.Linear(width, vocab_size)

    def forward(self, ids):
        later = torch.ones(ids.shape[1], ids.shape[1]).triu(self.ahead).bool()
        return self.out(self.block(self.waves(self.table(ids) * math.sqrt(16)), src_mask=later))


class LettersByItem(Letters):
    waves_class = WavePositionsByItem


class LettersThatSeeAhead(Letters):
    ahead = 100


class Filled(nn.Module):
    """A model for filling in masked tokens, which sees all."""

    def __init__(self, vocab_size, width=16):
        super().__init__()
        self.table, self.out = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size)
        self.block = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True)

    def forward(self, ids):
        return self.out(self.block(self.table(ids), src_key_padding_mask=ids == 0))


class Frases(layers.Layer):
    """Attention among the words of sentences, written with foreign names."""

    hides = staticmethod(lambda palabras: ops.equal(palabras, 0))

    def __init__(self, palabras_distintas, ancho, partes):
        super().__init__()
        self.partes, self.tamano = partes, ancho // partes
        self.tabla = layers.Embedding(palabras_distintas, ancho)
        self.a, self.b, self.c, self.d = (layers.Dense(ancho) for _ in range(4))

    def call(self, palabras):
        x = self.tabla(palabras)
        q, k, v = (ops.reshape(f(x), (*ops.shape(x)[:2], self.partes, self.tamano)) for f in (self.a, self.b, self.c))
        puntos = ops.einsum("bqhd,bkhd->bhqk", q, k) / self.tamano**0.5
        puntos = ops.where(self.hides(palabras)[:, None, None], -1e9, puntos)
        return self.d(ops.reshape(ops.einsum("bhqk,bkhd->bqhd", ops.softmax(puntos), v), ops.shape(x)))


class FrasesAlReves(Frases):
    hides = staticmethod(lambda palabras: ops.not_equal(palabras, 0))


@pytest.mark.parametrize(
    ("model", "id"),
    [
        (ReviewsAcross, "batch-for-positions"),
        (LettersByItem, "positions-over-batch"),
        (LettersThatSeeAhead, "causal-missing"),
        (FrasesAlReves, "padding-inverted"),
    ],
)
def test_a_mistake_beside_the_parts_is_named(model, id):
    found = diagnose(model)
    assert found.ids == (id,)
    assert found.name == model.__name__
    assert "is wrong" in str(found)


@pytest.mark.parametrize("model", [Reviews, TokensFirst, Filled, Frases])
def test_a_right_model_without_parts_of_its_own_is_refused(model):
    with pytest.raises(ValueError, match="takes token ids"):
        diagnose(model)


def test_a_right_model_of_the_next_token_is_not_accused():
    found = diagnose(Letters)
    assert (found.verdict, found.name) == ("right", "WavePositions in Letters")


def test_a_built_model_is_called_as_it_is():
    assert diagnose(ReviewsAcross()).ids == ("batch-for-positions",)
    assert diagnose(Letters(30)).right
