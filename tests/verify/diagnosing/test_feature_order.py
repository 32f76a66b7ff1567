"""A layer may interleave its heads' features: only trained weights of other code tell the difference."""

import keras
import pytest

from kmha.verify.diagnosing.diagnosis import diagnose


class _Interleaved(keras.layers.Layer):
    """Attention whose features are (O, H) where it splits heads, or where it merges them, or both."""

    splits = merges = True

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.heads, self.size = num_heads, embed_dim // num_heads
        self.query_dense, self.key_dense, self.value_dense, self.output_dense = (
            keras.layers.Dense(embed_dim) for _ in range(4)
        )

    def split(self, array):
        rows = keras.ops.shape(array)[1]
        if self.splits:
            return keras.ops.transpose(keras.ops.reshape(array, (-1, rows, self.size, self.heads)), (0, 3, 1, 2))
        return keras.ops.transpose(keras.ops.reshape(array, (-1, rows, self.heads, self.size)), (0, 2, 1, 3))

    def call(self, query, key, value):
        query, key = self.split(self.query_dense(query)), self.split(self.key_dense(key))
        logits = keras.ops.matmul(query, keras.ops.swapaxes(key, -1, -2)) / self.size**0.5
        mixed = keras.ops.matmul(keras.ops.softmax(logits), self.split(self.value_dense(value)))
        mixed = keras.ops.transpose(mixed, (0, 2, 3, 1) if self.merges else (0, 2, 1, 3))
        return self.output_dense(keras.ops.reshape(mixed, (-1, keras.ops.shape(mixed)[1], self.heads * self.size)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("splits", "merges"), [(True, False), (False, True), (True, True)])
def test_another_order_of_the_features_is_told_but_not_accused(splits, merges):
    named = type("Interleaved", (_Interleaved,), {"splits": splits, "merges": merges})
    found = diagnose(named)
    expected = ["heads-size-first"] * splits + ["merge-size-first"] * merges
    assert (found.verdict, sorted(found.ids)) == ("right", expected)
    text = " ".join(str(found).split())
    assert "in a way that does no harm" in text
    assert "trained weights of other code do not fit" in text
