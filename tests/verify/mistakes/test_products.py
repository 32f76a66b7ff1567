import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError
from kmha.verify.mistakes import products

OUTPUTS = {
    "logits-query-query": lambda p: p.mix(p.soft(p.logits(k=p.q))),
    "logits-key-key": lambda p: p.mix(p.soft(p.logits(q=p.k))),
    "logits-query-value": lambda p: p.mix(p.soft(p.logits(k=p.v))),
    "logits-key-query": lambda p: p.mix(p.soft(np.einsum("bhts->bhst", p.logits()))),
    "mix-key": lambda p: p.mix(p.scores(), p.k),
    "mix-key-value-swapped": lambda p: p.mix(p.soft(p.logits(k=p.v)), p.k),
    "mix-at-query": lambda p: p.mix(np.einsum("bhts,tu->bhtu", p.scores(), np.eye(p.T))),
    "mix-scores-transposed": lambda p: np.einsum("bhts,btho->bhso", p.scores(), p.v),
}


@pytest.mark.parametrize("core", [False, True])
@pytest.mark.parametrize("identity", OUTPUTS)
def test_outputs(make_plain, identity, core):
    p = make_plain("mask, equal lengths", core)
    mixed = OUTPUTS[identity](p)
    p.check(identity, mixed if core else p.merge(mixed))


# What the product of query and key is divided by.
DIVISORS = {
    "scale-missing": lambda p: 1,
    "scale-without-root": lambda p: p.O,
    "scale-multiplied": lambda p: p.O**-0.5,
    "scale-multiplied-without-root": lambda p: 1 / p.O,
    "scale-fourth-root": lambda p: p.O**0.25,
    "scale-half-of-inverse": lambda p: 2 * p.O,
    "scale-all-heads": lambda p: (p.H * p.O) ** 0.5,
    "scale-all-heads-without-root": lambda p: p.H * p.O,
    "scale-features": lambda p: p.x.shape[-1] ** 0.5,
    "scale-features-without-root": lambda p: p.x.shape[-1],
    "scale-keys": lambda p: p.S**0.5,
    "scale-queries": lambda p: p.T**0.5,
    "scale-heads": lambda p: p.H**0.5,
    "scale-size-over-heads": lambda p: (p.O / p.H) ** 0.5,
    "scale-batch": lambda p: p.B**0.5,
}
SCALES = {
    "scale-after-softmax": lambda p: p.end(p.soft(p.products()) / p.O**0.5),
    "scale-after-softmax-too": lambda p: p.end(p.scores() / p.O**0.5),
    "scale-kernel-not-bias": lambda p: p.end(
        p.soft(p.products(q=(p.q - p.bias("query")) / p.O**0.5 + p.bias("query")))
    ),
    "scale-after-mask": lambda p: p.end(p.soft((p.products() + np.where(p.allowed, 0, -1e4)) / p.O**0.5, np.ones(1))),
}


@pytest.mark.parametrize("identity", DIVISORS)
def test_divisor(make_plain, identity):
    p = make_plain("mask")
    p.check(identity, p.end(p.soft(p.products() / DIVISORS[identity](p))))


@pytest.mark.parametrize("name", ["mask", "large numbers, mask"])
@pytest.mark.parametrize("identity", SCALES)
def test_scales(make_plain, identity, name):
    p = make_plain(name)
    p.check(identity, SCALES[identity](p))


def test_scale_after_mask_shows_in_large_numbers_alone(make_plain):
    for name, shows in (("mask", False), ("large numbers, mask", True)):
        p = make_plain(name)
        far = np.abs(p.wrong("scale-after-mask") - p.end(p.scores())).max()
        assert (far > 1e-3) == shows


@pytest.mark.parametrize("identity", ["scale-features", "scale-features-without-root", "scale-kernel-not-bias"])
def test_scale_not_of_the_core(make_plain, identity):
    with pytest.raises(ImpossibleError):
        make_plain("mask", core=True).wrong(identity)


def test_all(ids_in):
    assert ids_in(products) == {*OUTPUTS, *DIVISORS, *SCALES}
