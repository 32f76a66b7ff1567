import types

from kmha.verify.diagnosing import choice_evidence


def test_gelu_may_be_asked_for_its_approximation(monkeypatch):
    """An attribute that is GELU does not tell with which arguments the layer calls it."""
    every = [(), ("activation-gelu",), ("activation-gelu_tanh",), ("activation-silu",)]
    monkeypatch.setattr(choice_evidence, "activations", lambda *_: {"gelu"})
    monkeypatch.setattr(choice_evidence, "combinations", lambda *_: every)
    found = choice_evidence.likely_combinations("encoder", object(), (), types.SimpleNamespace(more={}, weights={}))
    assert found == [("activation-gelu",), ("activation-gelu_tanh",)]
