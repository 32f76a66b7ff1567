import numpy as np
import pytest

from kmha.verify.diagnosing.diagnosis import diagnose


def _attention(number, added):
    def attention(query, key, value, mask=None):
        logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
        if mask is not None:
            logits = logits + np.where(mask, 0.0, number) if added else np.where(mask, logits, number)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ value

    return attention


HARMLESS = {"mask-number-in-thousands", "mask-fills-10000", "mask-adds-10000", "scale-after-mask"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("added", [False, True], ids=["filled", "added"])
@pytest.mark.parametrize("number", [-100.0, -1000.0, -2000.0, -5000.0, -9000.0])
def test_a_number_that_trained_models_do_not_reach_is_no_mistake(number, added):
    """-1,000 was called -100, and -2,000 and -5,000 gave no verdict."""
    for seed in range(3):
        found = diagnose(_attention(number, added), seed=seed)
        if number == -100:
            assert (found.verdict, found.ids) == ("known", (f"mask-{'adds' if added else 'fills'}-100",))
        else:
            assert found.verdict == "right"
            assert len(found.ids) == 1
            assert set(found.ids) <= HARMLESS


def test_what_shows_in_ordinary_calls_too_is_no_low_number():
    def attention(query, key, value, mask=None):
        return _attention(-1000.0, added=True)(query, key * 0.5, value, mask)

    assert "mask-number-in-thousands" not in diagnose(attention).ids
