"""Embeddings and positional encodings alone."""

import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.conventions import COUNT, TIME
from kmha.verify.diagnosing.unknown_mistakes import EMBEDDING


def positional_encoding(position, d_model):
    """Return the encoding (1, P, d)."""
    angles = np.arange(position)[:, None] / 10000 ** (np.arange(d_model) // 2 * 2 / d_model)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angles), np.cos(angles))[None]


def sines_then_cosines(length, d_model):
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(d_model // 2) * 2 / d_model)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def base_of_a_thousand(position, d_model):
    angles = np.arange(position)[:, None] / 1000 ** (np.arange(d_model) // 2 * 2 / d_model)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angles), np.cos(angles))


def table_on_a_device(max_len, dim, device):
    return positional_encoding(max_len, dim)


def test_functions_of_a_length_and_a_width():
    assert diagnose(table_on_a_device).right
    assert diagnose(positional_encoding).right
    assert diagnose(sines_then_cosines).convention.choices == ("sines-first", "positions-alone")
    assert diagnose(base_of_a_thousand).ids == ("positions-base-1000",)


def test_layers_with_trained_positions():
    torch = pytest.importorskip("torch")

    class TokenAndPosition(torch.nn.Module):
        def __init__(self, maxlen, vocab_size, embed_dim):
            super().__init__()
            self.token_emb = torch.nn.Embedding(vocab_size, embed_dim)
            self.pos_emb = torch.nn.Embedding(maxlen, embed_dim)

        def forward(self, x):
            return self.token_emb(x) + self.pos_emb(torch.arange(x.shape[1]))

    class PositionalEncoding(torch.nn.Module):
        def __init__(self, d_model, max_len=100):
            super().__init__()
            self.register_buffer("pe", torch.tensor(positional_encoding(max_len, d_model)))

        def forward(self, x):
            return x + self.pe[:, : x.shape[1]]

    class SubtractedPositions(PositionalEncoding):
        def forward(self, x):
            return x - self.pe[:, : x.shape[1]]

    class PositionsAlone(torch.nn.Module):
        """The factor 1/√d of a learned table is no mistake: another table gives the same numbers."""

        def __init__(self, dim, max_seq_len):
            super().__init__()
            self.scale = dim**-0.5
            self.pos_emb = torch.nn.Embedding(max_seq_len, dim)

        def forward(self, x):
            return self.pos_emb(torch.arange(x.shape[1])) * self.scale

    class AddedPositions(PositionsAlone):
        def forward(self, x):
            return x + super().forward(x)

    class AddedToTokens(PositionsAlone):
        def __init__(self, dim, max_seq_len, vocab_size):
            super().__init__(dim, max_seq_len)
            self.tokens = torch.nn.Embedding(vocab_size, dim)

        def forward(self, ids):
            return self.tokens(ids) + super().forward(ids)

    for candidate, choices in (
        (PositionsAlone, {"positions-alone-divided"}),
        (AddedPositions, {"learned-positions-divided"}),
        (AddedToTokens, {"unscaled", "learned-positions-divided"}),
    ):
        found = diagnose(candidate)
        assert (found.verdict, {*found.convention.choices}) == ("right", choices), candidate
    assert diagnose(TokenAndPosition).convention.choices == ("unscaled",)
    assert diagnose(TokenAndPosition(64, 11, 6)).right
    assert diagnose(PositionalEncoding).right
    assert diagnose(PositionalEncoding(8)).right
    assert diagnose(SubtractedPositions).ids == ("positions-subtracted",)


def test_an_unknown_mistake_of_an_encoding_is_not_blamed_on_a_sublayer():
    found = diagnose(lambda position, d_model: positional_encoding(position, d_model) ** 3)
    assert found.verdict == "unknown"
    assert found.clue.step == EMBEDDING


def test_one_mistake_with_the_sequence_first_comes_before_two_with_the_batch_first():
    torch = pytest.importorskip("torch")

    class Embeddings(torch.nn.Module):
        def __init__(self, d_model, n_vocab, max_len=64):
            super().__init__()
            self.table, self.d_model = torch.nn.Embedding(n_vocab, d_model), d_model
            encoding = positional_encoding(max_len, d_model)[0][:, None]
            self.register_buffer("encodings", torch.tensor(encoding, dtype=torch.float32))

        def forward(self, x):
            return self.table(x) / self.d_model**0.5 + self.encodings[: x.shape[0]]

    found = diagnose(Embeddings)
    assert found.ids == ("embedding-divided",)
    assert found.convention.entry == TIME


class _Positions:
    """Makes torch modules that look up positions."""

    @staticmethod
    def table(rows, width, doubled=False):
        torch = pytest.importorskip("torch")
        exponents = np.arange(width) * 2 if doubled else np.arange(width) // 2 * 2
        angles = np.arange(rows)[:, None] / 10000 ** (exponents / width)
        return torch.tensor(np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles)))

    @classmethod
    def embedding(cls, table, freeze):
        torch = pytest.importorskip("torch")

        class PositionalEmbedding(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embeddings = torch.nn.Embedding.from_pretrained(table, freeze=freeze)

            def forward(self, ids):
                return self.embeddings(torch.arange(ids.shape[-1]))[None]

        return PositionalEmbedding()


def test_a_frozen_table_of_sines_is_not_taken_for_trained_positions():
    """With a table of its own, a frozen table would be replaced by the one of the trial, and always be right."""
    assert diagnose(_Positions.embedding(_Positions.table(64, 12), freeze=True)).right
    wrong = _Positions.table(64, 12, doubled=True)
    found = diagnose(_Positions.embedding(wrong, freeze=True))
    assert found.ids == ("positions-exponent-doubled-per-feature",)
    assert "load_state_dict" not in found.short_code()
    assert diagnose(_Positions.embedding(wrong, freeze=False)).right  # training may change it
    from_one = _Positions.embedding(_Positions.table(65, 12)[1:], freeze=True)
    assert diagnose(from_one).ids == ("positions-from-one",)
    assert not diagnose(_Positions.embedding(_Positions.table(64, 12) / 2, freeze=True)).right


def test_frozen_positions_that_were_trained():
    torch = pytest.importorskip("torch")
    table = torch.rand(64, 12, dtype=torch.float64) / 2
    table[0] = 0  # of padding
    assert diagnose(_Positions.embedding(table, freeze=True)).right


def test_a_table_that_fits_one_length_alone():
    torch = pytest.importorskip("torch")

    class PositionEmbedding(torch.nn.Module):
        """Positions of the patches of an image and of its class."""

        def __init__(self, patches, width, twice=False):
            super().__init__()
            self.pos_embedding = torch.nn.Parameter(torch.randn(1, patches + 1, width))
            self.twice = twice

        def forward(self, x):
            return x + self.pos_embedding * (2 if self.twice else 1)

    found = diagnose(PositionEmbedding(64, 12))
    assert found.right
    assert "It takes exactly 65 positions: taken as intended." in str(found)
    assert diagnose(PositionEmbedding(64, 12, twice=True)).ids == ("positions-twice",)


def test_layers_that_take_a_number_of_positions():
    torch = pytest.importorskip("torch")

    class PositionalEncoding(torch.nn.Module):
        def __init__(self, d_model=8, max_len=100):
            super().__init__()
            self.register_buffer("pe", torch.tensor(positional_encoding(max_len, d_model)))

        def forward(self, length: int):
            return self.pe[:, :length]

    class Positions(PositionalEncoding):
        def forward(self, n):
            return self.pe[0, :n]

    class ShiftedPositions(PositionalEncoding):
        def forward(self, n):
            return self.pe[0, 1 : n + 1]

    for layer in (PositionalEncoding, PositionalEncoding(6), Positions, Positions(10, 50)):
        found = diagnose(layer)
        assert (found.verdict, found.convention.entry) == ("right", COUNT)
        assert "positions-alone" in found.convention.choices
    assert diagnose(ShiftedPositions).ids == ("positions-from-one",)


def test_a_module_of_flax_that_takes_a_number_of_positions():
    nn = pytest.importorskip("flax.linen")

    class SinusoidalPositionalEncoding(nn.Module):
        max_seq_length: int
        emb_dim: int

        def __call__(self, seq_len):
            return positional_encoding(self.max_seq_length, self.emb_dim)[:, :seq_len]

    assert diagnose(SinusoidalPositionalEncoding).right


def _rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = keras.ops.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * keras.ops.cast(cos, x.dtype) + turned * keras.ops.cast(sin, x.dtype)


def test_code_tells_what_the_name_of_a_class_does_not():
    """They were read as attention."""

    class First(keras.layers.Layer):
        def __init__(self, d_model, max_len=64):
            super().__init__()
            rates = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
            angles = np.arange(max_len)[:, None] * rates
            self.pe = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(max_len, d_model)

        def call(self, x):
            return x + keras.ops.cast(self.pe[: x.shape[1]], x.dtype)

    class Second(keras.layers.Layer):
        def __init__(self, head_dim):
            super().__init__()
            self.rates = 10000.0 ** (-np.arange(0, head_dim, 2) / head_dim)

        def call(self, q, k):
            angles = np.arange(q.shape[2])[:, None] * self.rates
            cos, sin = (np.concatenate([of(angles), of(angles)], axis=-1) for of in (np.cos, np.sin))
            return _rotate(q, cos, sin), _rotate(k, cos, sin)

    for each in (First, Second):
        found = diagnose(each)
        assert (found.verdict, found.candidate.chain) == ("right", "embedding"), found


@pytest.mark.parametrize(("says", "ids"), [("Takes [batch, time, features].", ("positions-over-batch",)), ("", ())])
def test_a_docstring_tells_which_axis_is_the_batch(says, ids):
    """Without it, code that is right for positions first is called right, and the report says so."""

    class AddPositions(keras.layers.Layer):
        __doc__ = says

        def __init__(self, d_model, max_len=64):
            super().__init__()
            angles = np.arange(max_len)[:, None] * 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
            self.pe = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(max_len, 1, d_model)

        def call(self, x):
            return x + keras.ops.cast(self.pe[: x.shape[0]], x.dtype)

    assert diagnose(AddPositions).ids == ids
