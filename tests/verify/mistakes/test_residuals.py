import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.mistakes import BANK

ENCODER = {
    "residual-missing": lambda p, a: p.last_norm(p.forward(p.norm(a))),
    "residual-missing-attention": lambda p, a: p.end(p.norm(a)),
    "residual-missing-feed-forward": lambda p, a: p.last_norm(p.forward(p.norm(p.x + a))),
    "residual-doubled-attention": lambda p, a: p.end(p.norm(p.x + p.x + a)),
    "residual-doubled-feed-forward": lambda p, a: p.last_norm(2 * p.norm(p.x + a) + p.forward(p.norm(p.x + a))),
    "residual-sublayer-doubled-attention": lambda p, a: p.end(p.norm(p.x + a + a)),
    "residual-of-itself-attention": lambda p, a: p.end(p.norm(2 * p.x)),
    "residual-output-doubled-attention": lambda p, a: p.end(p.norm(a + a)),
    "residual-output-doubled": lambda p, a: p.last_norm(2 * p.forward(p.norm(a + a))),
    "residual-unused-attention": lambda p, a: p.end(p.norm(p.x)),
    "residual-unused-feed-forward": lambda p, a: p.last_norm(p.norm(p.x + a)),
    "residual-averaged": lambda p, a: p.last_norm((p.norm((p.x + a) / 2) + p.forward(p.norm((p.x + a) / 2))) / 2),
    "residual-multiplied": lambda p, a: p.last_norm(p.norm(p.x * a) * p.forward(p.norm(p.x * a))),
    "residual-subtracted": lambda p, a: p.last_norm(p.norm(p.x - a) - p.forward(p.norm(p.x - a))),
    "residual-feed-forward-from-input": lambda p, a: p.last_norm(p.x + p.forward(p.norm(p.x + a))),
    "residual-feed-forward-from-attention": lambda p, a: p.last_norm(a + p.forward(p.norm(p.x + a))),
    "residual-feed-forward-from-unnormed": lambda p, a: p.last_norm(p.x + a + p.forward(p.norm(p.x + a))),
}
DECODER = {
    "residual-missing-cross": lambda p, h, c: p.norm2(c(h)),
    "residual-doubled-cross": lambda p, h, c: p.norm2(2 * h + c(h)),
    "residual-unused-cross": lambda p, h, c: p.norm2(h),
    "residual-cross-from-input": lambda p, h, c: p.norm2(p.x + c(h)),
    "residual-cross-from-attention": lambda p, h, c: p.norm2(p.attention(p.x) + c(h)),
    "residual-cross-from-unnormed": lambda p, h, c: p.norm2(p.x + p.attention(p.x) + c(h)),
    "residual-cross-from-encoder": lambda p, h, c: p.norm2(p.memory + c(h)),
}


@pytest.mark.parametrize("identity", ENCODER)
def test_encoder_elementwise(make_parts, identity):
    parts = make_parts()
    expected = ENCODER[identity](parts, parts.attention(parts.x))
    np.testing.assert_allclose(parts.wrong(identity), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("identity", DECODER)
def test_decoder_elementwise(make_parts, identity):
    parts = make_parts("decoder", "T = S")
    block2 = DECODER[identity](parts, parts.block1(), lambda query: parts.attention(query, parts.memory, 2))
    np.testing.assert_allclose(parts.wrong(identity), parts.end(block2), rtol=1e-9, atol=1e-9)


def test_feed_forward_from_block1_in_a_decoder(make_parts):
    parts = make_parts("decoder")
    block1 = parts.block1()
    block2 = parts.norm2(block1 + parts.attention(block1, parts.memory, 2))
    expected = parts.last_norm(block1 + parts.forward(block2))
    np.testing.assert_allclose(parts.wrong("residual-feed-forward-from-block1"), expected, rtol=1e-9, atol=1e-9)


def test_from_normed_in_pre_norm(make_parts):
    parts = make_parts(norm_first=True)
    normed = parts.norm(parts.x)
    block1 = normed + parts.attention(normed)
    expected = block1 + parts.forward(parts.norm2(block1))
    np.testing.assert_allclose(parts.wrong("residual-attention-from-normed"), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("identity", "chain", "name", "norm_first"),
    [
        ("residual-cross-from-encoder", "decoder", "plain", False),  # T ≠ S
        ("residual-attention-from-normed", "encoder", "plain", False),
        ("residual-feed-forward-from-unnormed", "encoder", "plain", True),
    ],
)
def test_impossible(make_parts, identity, chain, name, norm_first):
    parts = make_parts(chain, name, norm_first=norm_first)
    with pytest.raises(ImpossibleError):
        run(parts.trial, [BANK[identity].changes])
