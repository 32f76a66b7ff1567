from pathlib import Path

import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.diagnosis import candidate_of
from kmha.verify.diagnosing.evidence.pointing import line_of
from kmha.verify.mistakes import BANK


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def core(query, key, value, mask=None):
    """Divide by sqrt, and then softmax."""
    logits = query @ np.swapaxes(key, -1, -2)
    logits = logits / np.sqrt(key.shape[-2])  # sqrt of the number of keys
    if mask is not None:
        logits = np.where(mask, logits, -1e9)
    query += 0
    scores = softmax(logits)
    return scores @ value, scores


def twice(query, key, value):
    logits = query @ np.swapaxes(key, -1, -2) * np.sqrt(key.shape[-1])
    logits = logits / np.sqrt(key.shape[-1])
    return softmax(logits) @ value


class Layer(keras.layers.Layer):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.heads, self.size = num_heads, d_model // num_heads
        self.wq = keras.layers.Dense(d_model)
        self.wk = keras.layers.Dense(d_model)
        self.wv = keras.layers.Dense(d_model)
        self.wo = keras.layers.Dense(d_model)

    def split(self, x):
        x = keras.ops.reshape(x, (-1, x.shape[1], self.heads, self.size))
        return x

    def call(self, query, key, value):
        q = self.split(self.wq(query))
        k = self.split(self.wk(key))
        v = self.split(self.wv(key))
        logits = keras.ops.einsum("bthd,bshd->bhts", q, k) / self.size**0.5
        scores = keras.ops.softmax(logits, axis=-1)
        mixed = keras.ops.einsum("bhts,bshd->bthd", scores, v)
        mixed = keras.ops.reshape(mixed, (-1, q.shape[1], self.heads * self.size))
        return self.wo(mixed)


@pytest.mark.parametrize(
    ("thing", "identity", "text"),
    [
        (core, "scale-keys", "logits = logits / np.sqrt(key.shape[-2])  # sqrt of the number of keys"),
        (core, "softmax-over-queries", None),  # the sum, the maximum, the call: which of them is not clear
        (core, "mask-inverted", "logits = np.where(mask, logits, -1e9)"),
        (core, "returned-logits", "return scores @ value, scores"),
        (core, "mix-key", "return scores @ value, scores"),
        (core, "input-changed", "query += 0"),
        (core, "norm-unbiased", None),
        (twice, "scale-missing", "logits = query @ np.swapaxes(key, -1, -2) * np.sqrt(key.shape[-1])"),
        (twice, "scale-keys", None),
        (Layer, "inputs-value-is-key", "v = self.split(self.wv(key))"),
        (Layer, "kernels-query-for-key", "k = self.split(self.wk(key))"),
        (Layer, "merge-projection-missing", "return self.wo(mixed)"),
        (Layer, "logits-query-query", 'logits = keras.ops.einsum("bthd,bshd->bhts", q, k) / self.size**0.5'),
        (Layer, "scale-without-root", 'logits = keras.ops.einsum("bthd,bshd->bhts", q, k) / self.size**0.5'),
        (Layer, "softmax-over-heads", "scores = keras.ops.softmax(logits, axis=-1)"),
        (Layer, "mix-key", 'mixed = keras.ops.einsum("bhts,bshd->bthd", scores, v)'),
        (Layer, "heads-reshaped", "x = keras.ops.reshape(x, (-1, x.shape[1], self.heads, self.size))"),
        (Layer, "kernels-key-value-swapped", None),
        (Layer, "dropout-at-inference", None),
    ],
)
def test_lines(thing, identity, text):
    found = line_of(candidate_of(thing, {}), BANK[identity])
    assert (found and found.text) == text
    if found:
        lines = Path(__file__).read_text().splitlines()
        assert (found.path, lines[found.number - 1].strip()) == (__file__, text)


def test_diagnosis_has_the_line():
    found = diagnose(core)
    assert found.ids == ("scale-keys",)
    assert found.line.text.startswith("logits = logits / np.sqrt")


def test_code_that_cannot_be_read():
    scope = {"np": np}
    exec("def attention(query, key, value):\n    return np.exp(query @ key) @ value / 2", scope)  # noqa: S102 - no file
    assert line_of(candidate_of(scope["attention"], {}), BANK["scale-missing"]) is None
