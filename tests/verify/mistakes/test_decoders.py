import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.chains.blocks import weights_of
from kmha.verify.mistakes import BANK


def _end(parts, block1, cross):
    """Finish the layer, given the outputs of block 1 and of the second attention."""
    return parts.end(parts.norm2(block1 + cross))


CALLS = {
    "decoder-query-from-input": lambda p, h: p.attention(p.x, p.memory, 2),
    "decoder-query-unnormed": lambda p, h: p.attention(p.x + p.attention(p.x), p.memory, 2),
    "decoder-query-from-attention": lambda p, h: p.attention(p.attention(p.x), p.memory, 2),
    "decoder-memory-from-input": lambda p, h: p.attention(h, p.x, 2),
    "decoder-memory-from-attention": lambda p, h: p.attention(h, p.attention(p.x), 2),
    "decoder-memory-normed": lambda p, h: p.attention(h, p.norm2(p.memory), 2),
}


@pytest.mark.parametrize("identity", CALLS)
def test_second_attention_elementwise(make_parts, identity):
    parts = make_parts("decoder")
    block1 = parts.block1()
    expected = _end(parts, block1, CALLS[identity](parts, block1))
    np.testing.assert_allclose(parts.wrong(identity), expected, rtol=1e-9, atol=1e-9)


def test_memory_from_block1_in_pre_norm(make_parts):
    parts = make_parts("decoder", norm_first=True)
    block1 = parts.x + parts.attention(parts.norm(parts.x))
    block2 = block1 + parts.attention(parts.norm2(block1), block1, 2)
    expected = block2 + parts.forward(parts.last_norm(block2))
    np.testing.assert_allclose(parts.wrong("decoder-memory-from-block1"), expected, rtol=1e-9, atol=1e-9)


# What each attention should be told to hide: look-ahead, the target's padding, the padding of enc_output.
MASKS = {
    "decoder-masks-exchanged": ("source", "look-ahead target"),
    "decoder-masks-look-ahead-for-cross": ("look-ahead target", "look-ahead target"),
    "decoder-masks-padding-for-self": ("source", "source"),
    "decoder-masks-look-ahead-in-both": ("look-ahead target", "look-ahead source"),
    "decoder-masks-look-ahead-with-padding": ("look-ahead target", "look-ahead source"),
    "decoder-masks-look-ahead-moved": ("target", "look-ahead source"),
    "decoder-masks-source-padding-in-both": ("look-ahead target source", "source"),
    "decoder-masks-target-padding-in-both": ("look-ahead target", "source target"),
    "decoder-masks-target-padding-missing": ("look-ahead", "source"),
    "decoder-masks-source-padding-missing": ("look-ahead target", ""),
}


@pytest.mark.parametrize("identity", MASKS)
def test_masks_elementwise(make_parts, identity):
    parts = make_parts("decoder", "look-ahead and both paddings, T = S")
    state = run(parts.trial, [BANK[identity].changes])
    rows = parts.x.shape[1]
    masks = {
        "look-ahead": np.arange(rows)[None, :] <= np.arange(rows)[:, None],
        "target": parts.trial.query_mask[:, None, :],
        "source": parts.trial.key_mask[:, None, :],
    }
    for number, named in enumerate(MASKS[identity], 1):
        expected = np.ones((len(parts.x), rows, rows), bool)
        for name in named.split():
            expected &= masks[name]
        np.testing.assert_array_equal(state[f"call{number}"].allowed(), expected)
        inside = state[f"inside{number}"]["allowed"][:, 0]
        np.testing.assert_array_equal(np.broadcast_to(inside, expected.shape), expected)


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        ("decoder-masks-exchanged", "padding"),
        ("decoder-masks-exchanged", "look-ahead"),
        ("decoder-masks-look-ahead-with-padding", "look-ahead and padding"),
        ("decoder-masks-source-padding-in-both", "padding"),
        ("decoder-masks-target-padding-in-both", "padding of the target"),
    ],
)
def test_masks_that_do_not_fit(make_parts, identity, name):
    with pytest.raises(ImpossibleError):
        run(make_parts("decoder", name).trial, [BANK[identity].changes])


def test_skipped(make_parts):
    parts = make_parts("decoder")
    block2 = parts.norm2(parts.x + parts.attention(parts.x, parts.memory, 2))
    np.testing.assert_allclose(parts.wrong("decoder-self-attention-skipped"), parts.end(block2), rtol=1e-9, atol=1e-9)
    expected = parts.end(parts.block1())
    np.testing.assert_allclose(parts.wrong("decoder-cross-attention-skipped"), expected, rtol=1e-9, atol=1e-9)


def test_cross_attention_first(make_parts):
    parts = make_parts("decoder", "look-ahead and both paddings")
    block1 = parts.norm(parts.x + parts.attention(parts.x, parts.memory, 2))
    expected = _end(parts, block1, parts.attention(block1))
    np.testing.assert_allclose(parts.wrong("decoder-cross-first"), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("identity", "first", "second"),
    [
        ("decoder-attention-shared", "mha1", "mha1"),
        ("decoder-attention-shared-second", "mha2", "mha2"),
        ("decoder-attention-swapped", "mha2", "mha1"),
    ],
)
def test_weights_of_the_other_attention(make_parts, identity, first, second):
    parts = make_parts("decoder")
    block1 = parts.norm(parts.x + parts.attention(parts.x, weights=weights_of(parts.weights, first)))
    cross = parts.attention(block1, parts.memory, 2, weights=weights_of(parts.weights, second))
    np.testing.assert_allclose(parts.wrong(identity), _end(parts, block1, cross), rtol=1e-9, atol=1e-9)
