import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.choices import CHOICES
from kmha.verify.diagnosing.trials import Accepts, draw, draw_sizes
from kmha.verify.mistakes import BANK, products

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


LINEAR_BIASES = {
    # The slopes, and how far a key is after the query where T = S.
    "linear-biases-opposite": lambda heads, far: -(2.0 ** (-8 * (heads + 1) / heads.size)) * far,
    "linear-biases-from-one": lambda heads, far: 2.0 ** (-8 * heads / heads.size) * far,
}


@pytest.mark.parametrize("identity", LINEAR_BIASES)
def test_linear_biases(make_plain, identity):
    p = make_plain("mask, equal lengths")
    choice = CHOICES["linear-biases-geometric"].changes
    trial = dataclasses.replace(p.trial, choices=(choice,))
    far = np.arange(p.S) - np.arange(p.T)[:, None]
    biases = LINEAR_BIASES[identity](np.arange(p.H)[:, None, None], far)
    expected = p.end(p.soft(p.logits() + biases))
    np.testing.assert_allclose(run(trial, [BANK[identity].changes])["output"], expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(ImpossibleError):
        run(p.trial, [BANK[identity].changes])


def test_half_of_the_inverse_is_not_told_from_the_width_of_two_heads(make_plain):
    p = make_plain("mask")
    assert p.H == 2
    with pytest.raises(ImpossibleError):
        p.wrong("scale-half-of-inverse")
    sizes = dataclasses.replace(draw_sizes(np.random.default_rng(0), Accepts()), heads=3)
    trial = draw(0, Accepts(), sizes)[0]
    assert run(trial, [BANK["scale-half-of-inverse"].changes])["scale"] == 1 / (2 * sizes.size)


def test_all(ids_in):
    assert ids_in(products) == {*OUTPUTS, *DIVISORS, *SCALES, *LINEAR_BIASES, "scale-half-of-inverse"}
