"""Arguments that are named like a mask, but tell only whether to mask."""

import keras
import numpy as np
import pytest

from kmha.verify.diagnosing.diagnosis import diagnose


def _attend(query, key, value, causal=False):
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ value


@pytest.mark.parametrize("default", [True, False])
def test_a_flag_is_no_mask(default):
    """It was given arrays, so that all calls raised an error."""

    def attention(query, key, value, mask=default):
        if mask not in (True, False):
            raise TypeError("expected a flag")
        return _attend(query, key, value, causal=mask)

    found = diagnose(attention)
    assert (found.verdict, found.ids) == ("right", ())
    assert "mask" not in found.candidate.roles


def test_a_text_is_no_mask():
    """It was given arrays, and named for a mask that it does not apply."""

    def attention(query, key, value, mask: str | None = None):
        return _attend(query * 1.5, key, value, causal=mask == "subsequent")

    def right(query, key, value, mask: str | None = None):
        return _attend(query, key, value, causal=mask == "subsequent")

    assert diagnose(right).verdict == "right"
    assert not any(id.startswith("mask") for id in diagnose(attention).ids)


class _Decoder(keras.layers.Layer):
    """A decoder layer, post-norm, whose masks are flags."""

    def __init__(self, d_model, num_heads, dff):
        super().__init__()
        self.mha1, self.mha2 = (keras.layers.MultiHeadAttention(num_heads, d_model // num_heads) for _ in range(2))
        self.ffn1, self.ffn2 = keras.layers.Dense(dff, "relu"), keras.layers.Dense(d_model)
        self.norm1, self.norm2, self.norm3 = (keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(3))

    def call(self, x, enc_output, self_mask=True, cross_mask=False):
        if (type(self_mask), type(cross_mask)) != (bool, bool):
            raise TypeError("expected flags")
        x = self.norm1(x + self.mha1(x, x, use_causal_mask=self_mask))
        x = self.norm2(x + self.mha2(x, enc_output, use_causal_mask=cross_mask))
        return self.norm3(x + self.ffn2(self.ffn1(x)))


def test_the_flags_of_a_decoder_are_no_masks():
    found = diagnose(_Decoder)
    assert {"self_mask", "cross_mask"} & {*found.candidate.roles.values()} == set()
    assert not found.errors
    assert found.verdict == "right"
