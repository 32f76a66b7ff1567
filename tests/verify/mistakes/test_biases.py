import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError
from kmha.verify.mistakes import biases

ROLES = ("query", "key", "value", "attention_output")
NONE = 0.0


def _size_first(p, role):
    """The numbers in memory order, read as (O, H)."""
    flat = p.bias(role).reshape(-1)
    return np.array([[flat[o * p.H + h] for o in range(p.O)] for h in range(p.H)])


# What each of the four biases is replaced by.
BIASES = {
    "bias-missing-query": {"query": NONE},
    "bias-missing-value": {"value": NONE},
    "bias-missing-output": {"attention_output": NONE},
    "bias-missing-query-key-value": dict.fromkeys(ROLES[:3], NONE),
    "bias-missing-value-output": {"value": NONE, "attention_output": NONE},
    "bias-missing-query-output": {"query": NONE, "attention_output": NONE},
    "bias-missing-all": dict.fromkeys(ROLES, NONE),
    "bias-query-key-swapped": {"query": "key", "key": "query"},
    "bias-query-value-swapped": {"query": "value", "value": "query"},
    "bias-key-value-swapped": {"key": "value", "value": "key"},
    "bias-size-first": dict.fromkeys(ROLES[:3], _size_first),
    "bias-of-first-head": dict.fromkeys(ROLES[:3], lambda p, role: p.bias(role)[[0] * p.H]),
    "bias-per-item": dict.fromkeys(ROLES[:3], lambda p, role: p.B * p.bias(role)),
    "bias-output-per-item": {"attention_output": lambda p, role: p.B * p.bias(role)},
    "bias-output-per-head": {"attention_output": lambda p, role: p.H * p.bias(role)},
}


@pytest.mark.parametrize("identity", BIASES)
def test_replaced(make_plain, identity):
    p = make_plain("mask")

    def bias(role):
        changed = BIASES[identity].get(role, role)
        if callable(changed):
            return changed(p, role)
        return p.bias(changed) if isinstance(changed, str) else changed

    q, k, v = (p.project(x, role, bias=bias(role)) for x, role in zip((p.x, p.y, p.z), ROLES[:3], strict=True))
    p.check(identity, p.attend(q, k, v) - p.bias("attention_output") + bias("attention_output"))


def test_averaged(make_plain):
    p = make_plain("mask")
    p.check("bias-output-averaged", p.end(p.scores()) / p.H)


def test_before_the_projection(make_plain):
    p = make_plain("mask", wide=True)
    q, k, v = (
        p.project(x + p.bias(role).reshape(-1), role, bias=0.0)
        for x, role in zip((p.x, p.y, p.z), ROLES[:3], strict=True)
    )
    p.check("bias-before-projection", p.attend(q, k, v))
    with pytest.raises(ImpossibleError):
        make_plain("mask").wrong("bias-before-projection")


def test_the_key_s_bias_changes_no_scores(make_plain):
    """So the bank has no mistake of leaving it out."""
    p = make_plain("mask")
    without = p.attend(k=p.project(p.y, "key", bias=0.0))
    np.testing.assert_allclose(without, p.end(p.scores()), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("identity", [*BIASES, "bias-output-averaged", "bias-before-projection"])
def test_without_biases_there_is_no_such_mistake(make_plain, identity):
    with pytest.raises(ImpossibleError):
        make_plain("mask", core=True).wrong(identity)


def test_all(ids_in):
    assert ids_in(biases) == {*BIASES, "bias-output-averaged", "bias-before-projection"}
