import dataclasses

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.choices import CHOICES
from kmha.verify.choices.attention import rotated
from kmha.verify.diagnosing.block_trials import BlockAccepts, BlockSizes, draw_block
from kmha.verify.diagnosing.embedding_candidate import _with_vectors
from kmha.verify.diagnosing.trials import Accepts, draw, draw_sizes
from kmha.verify.mistakes import BANK

SIZES = BlockSizes(batch=2, rows=5, columns=7, width=6, heads=1, size=6, inner=8, memory=4, vocabulary=9)
# What becomes of the pair (x, y) whose angle has the cosine c and the sine s.
CASES = {
    "rotary-sines-only": lambda x, y, c, s: (s * (x - y), s * (x + y)),
    "rotary-cosines-only": lambda x, y, c, s: (c * (x - y), c * (x + y)),
    "rotary-sine-cosine-swapped": lambda x, y, c, s: (x * s - y * c, x * c + y * s),
    "rotary-sign-missing": lambda x, y, c, s: (x * c + y * s, x * s + y * c),
    "rotary-backwards": lambda x, y, c, s: (x * c + y * s, y * c - x * s),
    "rotary-second-half-not-turned": lambda x, y, c, s: (x * c - y * s, y),
}


def _run(id, neighbours):
    rng = np.random.default_rng(3)
    trial = next(each for each in draw_block(3, BlockAccepts("embedding"), SIZES) if each.name == "ids, padded")
    trial = _with_vectors(trial, rng)
    choice = CHOICES[f"rotates-{'interleaved' if neighbours else 'half'}"].changes
    return trial.query, run(trial, [choice, BANK[id].changes])["output"]


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("id", CASES)
def test_each_pair(id, neighbours):
    x, output = _run(id, neighbours)
    half = x.shape[-1] // 2
    for b, t, i in np.ndindex(*x.shape[:2], half):
        first, second = (2 * i, 2 * i + 1) if neighbours else (i, i + half)
        angle = t / 10000 ** (2 * i / x.shape[-1])
        expected = CASES[id](x[b, t, first], x[b, t, second], np.cos(angle), np.sin(angle))
        assert np.allclose((output[b, t, first], output[b, t, second]), expected)


@pytest.mark.parametrize("neighbours", [False, True])
def test_mixed_pairs(neighbours):
    x, output = _run("rotary-pairs-mixed", neighbours)
    width = x.shape[-1]
    for b, t, j in np.ndindex(x.shape):
        partner = (j ^ 1) if neighbours else (j + width // 2) % width
        sign = -1 if j < partner else 1
        frequency = j % (width // 2) if neighbours else j // 2
        angle = t / 10000 ** (2 * frequency / width)
        assert np.isclose(output[b, t, j], x[b, t, j] * np.cos(angle) + sign * x[b, t, partner] * np.sin(angle))


def _heads(id, neighbours):
    """Return the heads of a trial with six features per head, as they are projected, and as a mistake turns them."""
    sizes = dataclasses.replace(draw_sizes(np.random.default_rng(1), Accepts()), size=6)
    trial = next(each for each in draw(1, Accepts(), sizes) if each.query is each.key)
    choice = CHOICES[f"rotary-{'interleaved' if neighbours else 'half'}"].changes
    projected = {role: np.swapaxes(each, 1, 2) for role, each in run(trial)["biased"].items()}
    with pytest.raises(ImpossibleError):
        run(trial, [BANK[id].changes])
    return projected, run(trial, [choice])["heads"], run(trial, [choice, BANK[id].changes])["heads"]


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("id", [f"{id}-in-attention" for id in CASES if id != "rotary-backwards"])
def test_each_pair_of_a_head(id, neighbours):
    projected, right, wrong = _heads(id, neighbours)
    for role in ("query", "key"):
        for t, i in np.ndindex(projected[role].shape[2], 3):
            first, second = (2 * i, 2 * i + 1) if neighbours else (i, i + 3)
            x, y = projected[role][..., t, first], projected[role][..., t, second]
            angle = t / 10000 ** (i / 3)
            expected = CASES[id.removesuffix("-in-attention")](x, y, np.cos(angle), np.sin(angle))
            assert np.allclose((wrong[role][..., t, first], wrong[role][..., t, second]), expected)
    assert np.array_equal(wrong["value"], right["value"])


@pytest.mark.parametrize("neighbours", [False, True])
def test_mixed_pairs_of_heads(neighbours):
    projected, right, wrong = _heads("rotary-pairs-mixed-in-attention", neighbours)
    for role in ("query", "key"):
        for t, j in np.ndindex(projected[role].shape[2], 6):
            partner = (j ^ 1) if neighbours else (j + 3) % 6
            angle = t / 10000 ** ((j % 3 if neighbours else j // 2) / 3)
            x, other = projected[role][..., t, j], projected[role][..., t, partner] * (-1 if j < partner else 1)
            assert np.allclose(wrong[role][..., t, j], x * np.cos(angle) + other * np.sin(angle))
    assert np.array_equal(wrong["value"], right["value"])


@pytest.mark.parametrize("neighbours", [False, True])
def test_which_heads_are_turned(neighbours):
    for role, id in (("query", "rotary-query-not"), ("key", "rotary-key-not")):
        projected, right, wrong = _heads(id, neighbours)
        assert np.array_equal(wrong[role], projected[role])
        assert all(np.array_equal(wrong[other], right[other]) for other in right if other != role)
    projected, right, wrong = _heads("rotary-value-too", neighbours)
    assert np.allclose(wrong["value"], rotated(projected["value"], neighbours))


def test_a_mistake_in_rotary_positions_of_attention_is_named():
    def attention(q, k, v):
        """q, k, v: (batch, heads, positions, size)"""

        def apply_rotary(x):
            half = x.shape[-1] // 2
            angles = np.arange(x.shape[2])[:, None] / 10_000 ** (np.arange(half) / half)
            cos, sin = (np.concatenate([of(angles), of(angles)], -1) for of in (np.cos, np.sin))
            return x * cos + np.concatenate([x[..., half:], x[..., :half]], -1) * sin

        logits = apply_rotary(q) @ np.swapaxes(apply_rotary(k), -1, -2) / np.sqrt(q.shape[-1])
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v

    assert diagnose(attention).ids == ("rotary-sign-missing-in-attention",)
