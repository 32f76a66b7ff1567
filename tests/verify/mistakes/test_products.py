import numpy as np
import pytest

from kmha.verify.mistakes import products

OUTPUTS = {
    "logits-query-query": lambda p: p.mix(p.soft(p.logits(k=p.q))),
    "logits-key-key": lambda p: p.mix(p.soft(p.logits(q=p.k))),
    "logits-query-value": lambda p: p.mix(p.soft(p.logits(k=p.v))),
    "logits-key-query": lambda p: p.mix(p.soft(np.einsum("bhts->bhst", p.logits()))),
    "mix-key": lambda p: p.mix(p.scores(), p.k),
    "mix-key-value-swapped": lambda p: p.mix(p.soft(p.logits(k=p.v)), p.k),
    "mix-scores-transposed": lambda p: np.einsum("bhts,btho->bhso", p.scores(), p.v),
}


@pytest.mark.parametrize("core", [False, True])
@pytest.mark.parametrize("identity", OUTPUTS)
def test_outputs(make_plain, identity, core):
    p = make_plain("mask, equal lengths", core)
    mixed = OUTPUTS[identity](p)
    p.check(identity, mixed if core else p.merge(mixed))


def test_all(ids_in):
    assert ids_in(products) == {*OUTPUTS}
