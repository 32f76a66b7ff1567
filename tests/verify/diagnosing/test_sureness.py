"""Doubts about the reading of a candidate lower the verdict only if they can explain its numbers."""

import numpy as np
import pytest

from kmha.verify.diagnosing.diagnosis import diagnose


def _scores(logits):
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def _product(query, key):
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])


def test_an_unknown_argument_that_is_left_out_excuses_no_other_mistake():
    def attention(query, key, value, compression):
        logits = _product(query, key)
        return (1 / (1 + np.exp(-logits)) if compression is None else _scores(compression @ logits)) @ value

    found = diagnose(attention)
    assert dict(found.convention.guessed) == {"compression": "None"}
    assert (found.verdict, found.ids) == ("known", ("softmax-sigmoid",))


def test_an_unknown_argument_that_may_be_the_mask_excuses_a_missing_mask():
    def attention(query, key, value, compression, is_causal=False):
        logits = _product(query, key)
        return _scores(logits if compression is None else np.where(compression, logits, -1e9)) @ value

    found = diagnose(attention)
    assert found.verdict == "unjudged"
    assert "--set compression=VALUE" in " ".join(found.advice)


@pytest.mark.parametrize(("wrong", "verdict"), [(True, "known"), (False, "right")])
def test_a_third_mask_does_not_excuse_two_known_ones_without_effect(wrong, verdict):
    def attention(query, key, value, attention_mask=None, value_mask=None, key_mask=None):
        logits = _product(query, key)
        for mask in () if wrong else (attention_mask, value_mask, key_mask):
            if mask is not None:
                mask = mask if mask.ndim == 4 else mask[:, None] if mask.ndim == 3 else mask[:, None, None]
                logits = np.where(mask, logits, -1e9)
        return _scores(logits) @ value

    assert diagnose(attention).verdict == verdict


def test_masks_have_the_form_with_which_all_calls_run():
    """Where scores are returned, a mask of any shape runs, because it has no effect."""

    def attention(query, key, value, attention_mask=None, return_attention_scores=False):
        logits = _product(query, key)
        if return_attention_scores:
            return _scores(logits) @ value, _scores(logits)
        if attention_mask is not None:
            assert attention_mask.shape == (len(query), query.shape[-2], key.shape[-2])
            logits = np.where(attention_mask[:, None], logits, -1e9)
        return _scores(logits) @ value

    found = diagnose(attention)
    assert (found.verdict, found.ids, found.errors) == ("known", ("mask-missing",), {})
