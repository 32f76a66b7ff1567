import types

from kmha.verify.diagnosing import choice_evidence
from kmha.verify.diagnosing.jax_adapters import Held


def test_gelu_may_be_asked_for_its_approximation(monkeypatch):
    """An attribute that is GELU does not tell with which arguments the layer calls it."""
    every = [(), ("activation-gelu",), ("activation-gelu_tanh",), ("activation-silu",)]
    monkeypatch.setattr(choice_evidence, "activations", lambda *_: {"gelu"})
    monkeypatch.setattr(choice_evidence, "combinations", lambda *_: every)
    found = choice_evidence.likely_combinations("encoder", object(), (), types.SimpleNamespace(more={}, weights={}))
    assert found == [("activation-gelu",), ("activation-gelu_tanh",)]


def swished(x):
    return x / (1 + 2.718**-x)


class Turning:
    def __call__(self, x):
        return swished(x)  # after the rotary positions


def test_the_code_of_a_held_module_is_its_own_with_its_helpers():
    for layer in (Turning(), Held(Turning())):
        code = choice_evidence.code_of(layer, [])
        assert "rotary positions" in code
        assert "2.718" in code
        assert "class Held" not in code
