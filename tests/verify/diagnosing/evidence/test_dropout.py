import keras
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.evidence import dropout

pytestmark = pytest.mark.tensorflow


class Block(keras.layers.Layer):
    """A post-norm encoder layer with dropout after its sublayers."""

    wrong = ""

    def __init__(self, d_model, num_heads, dff, dropout_rate=0.1):
        super().__init__()
        self.mha = keras.layers.MultiHeadAttention(num_heads, d_model // num_heads)
        self.dense1, self.dense2 = keras.layers.Dense(dff, activation="relu"), keras.layers.Dense(d_model)
        self.norm1, self.norm2 = (keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(2))
        self.dropout = keras.layers.Dropout(dropout_rate)

    def call(self, x, training=False):
        training = {"": training, "always": True, "never": False}[self.wrong]
        x = self.norm1(x + self.dropout(self.mha(x, x), training=training))
        return self.norm2(x + self.dropout(self.dense2(self.dense1(x)), training=training))


class Always(Block):
    wrong = "always"


class Never(Block):
    wrong = "never"


@pytest.mark.parametrize(
    ("layer", "ids"), [(Block, ()), (Always, ("dropout-at-inference",)), (Never, ("dropout-never",))]
)
def test_blocks(layer, ids):
    found = diagnose(layer)
    assert (found.verdict, found.ids) == ("known" if ids else "right", ids)
    assert bool(found.matches[0].because) == bool(ids)


class Embedding(keras.layers.Layer):
    """Tokens alone, with dropout in training, or `always`."""

    def __init__(self, vocab_size, d_model, dropout_rate=0.1, always=None):
        super().__init__()
        self.table, self.always = keras.layers.Embedding(vocab_size, d_model), always
        self.dropout = keras.layers.Dropout(dropout_rate)

    def call(self, ids, training=False):
        return self.dropout(self.table(ids), training=self.always or training)


@pytest.mark.parametrize("always", [None, True])
def test_embeddings(always):
    found = diagnose(Embedding, arguments={"always": always}, expect=("no-positions",))
    assert found.ids == (("dropout-at-inference",) if always else ())


def test_attention_has_trials_with_dropout(evaluated):
    assert dropout.find(*evaluated(keras.layers.MultiHeadAttention)) is None


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_layer_that_is_already_built(evaluated, rate):
    """Its own rate cannot be changed."""

    class Attention(keras.layers.MultiHeadAttention):
        def call(self, query, value, key=None):
            return super().call(query, value, key, training=False)

    layer = Attention(3, 5, dropout=rate)
    layer(*[keras.ops.ones((2, 4, 7))] * 2)
    found = dropout.find(*evaluated(layer))
    assert (found and found.ids) == (("dropout-never",) if rate else None)
