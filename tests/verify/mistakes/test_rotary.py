import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.choices import CHOICES
from kmha.verify.diagnosing.block_trials import BlockAccepts, BlockSizes, draw_block
from kmha.verify.diagnosing.embedding_candidate import _with_vectors
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
