import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.mistakes import BANK


def _same(part):
    """An encoder layer of two parts alike, each a function of x, norm and sublayer."""
    return lambda p: part(part(p.x, p.norm, p.attention), p.last_norm, p.forward)


def _swapped(p):
    block1 = p.last_norm(p.x + p.attention(p.x))
    return p.norm(block1 + p.forward(block1))


POST = {
    "norm-before": _same(lambda x, norm, sublayer: x + sublayer(norm(x))),
    "norm-both": _same(lambda x, norm, sublayer: norm(x + sublayer(norm(x)))),
    "norm-never": _same(lambda x, norm, sublayer: x + sublayer(x)),
    "norm-inside-residual": _same(lambda x, norm, sublayer: x + norm(sublayer(x))),
    "norm-replaces-input": _same(lambda x, norm, sublayer: norm(x) + sublayer(norm(x))),
    "norm-twice": _same(lambda x, norm, sublayer: norm(norm(x + sublayer(x)))),
    "norm-last-twice": lambda p: p.last_norm(p.end(p.block1())),
    "norm-missing-attention": lambda p: p.end(p.x + p.attention(p.x)),
    "norm-missing-feed-forward": lambda p: p.block1() + p.forward(p.block1()),
    "norm-shared-1-last": lambda p: p.end(p.last_norm(p.x + p.attention(p.x))),
    "norm-shared-last-1": lambda p: p.norm(p.block1() + p.forward(p.block1())),
    "norm-swapped-1-last": _swapped,
}


@pytest.mark.parametrize("identity", POST)
def test_encoder_elementwise(make_parts, identity):
    parts = make_parts()
    np.testing.assert_allclose(parts.wrong(identity), POST[identity](parts), rtol=1e-9, atol=1e-9)


def test_after_in_place_of_before(make_parts):
    parts = make_parts(norm_first=True)
    expected = parts.end(parts.block1())
    np.testing.assert_allclose(parts.wrong("norm-after"), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("identity", "second", "last"),
    [
        ("norm-missing-cross", None, "layernorm3"),
        ("norm-shared-2-1", "layernorm1", "layernorm3"),
        ("norm-shared-2-last", "layernorm3", "layernorm3"),
        ("norm-shared-last-2", "layernorm2", "layernorm2"),
        ("norm-swapped-2-last", "layernorm3", "layernorm2"),
    ],
)
def test_decoder_elementwise(make_parts, identity, second, last):
    parts = make_parts("decoder")
    block1 = parts.block1()
    block2 = block1 + parts.attention(block1, parts.memory, 2)
    block2 = block2 if second is None else parts.norm(block2, second)
    expected = parts.norm(block2 + parts.forward(block2), last)
    np.testing.assert_allclose(parts.wrong(identity), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("identity", "norm_first"), [("norm-before", True), ("norm-after", False)])
def test_where_it_should_be_is_no_mistake(make_parts, identity, norm_first):
    with pytest.raises(ImpossibleError):
        run(make_parts(norm_first=norm_first).trial, [BANK[identity].changes])
