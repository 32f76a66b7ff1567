"""The steps of attention as one einsum each, to assemble wrong attention from, and candidates to diagnose."""

import dataclasses
import functools
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from kmha.verify.bank.indistinguishable import Configuration
from kmha.verify.bank.self_test import with_dropout
from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.trials import Accepts
from kmha.verify.mistakes import BANK

ALL = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)


@functools.cache
def _draw(configuration):
    """Return the trials of a configuration by name, with a draw of what dropout keeps."""
    rng = np.random.default_rng([configuration.seed, 1])
    return {trial.name: with_dropout(trial, rng) for trial in configuration.draw(rng)}


class Plain:
    """One trial, and what is right in it: inputs x, y, z of query, key, value; heads q, k, v (B, P, H, O)."""

    def __init__(self, name, core=False, seed=5, **accepts):
        self.trial = _draw(Configuration(seed, dataclasses.replace(ALL, **accepts), core))[name]
        self.x, self.y, self.z = self.trial.query, self.trial.key, self.trial.value
        self.weights = self.trial.weights
        if core:
            self.q, self.k, self.v = (np.einsum("bhpo->bpho", array) for array in (self.x, self.y, self.z))
        else:
            self.q, self.k, self.v = (
                self.project(array, role) for array, role in ((self.x, "query"), (self.y, "key"), (self.z, "value"))
            )
        self.B, self.T, self.H, self.O = self.q.shape
        self.S = self.k.shape[1]

    def kernel(self, role):
        return self.weights[f"{role}/kernel"]

    def bias(self, role):
        return self.weights[f"{role}/bias"]

    def project(self, x, role, kernel=None, bias=None):
        kernel = self.kernel(role) if kernel is None else kernel
        return np.einsum("bpi,hio->bpho", x, kernel) + (self.bias(role) if bias is None else bias)

    @property
    def mask(self):
        return self.trial.mask[:, None]

    @property
    def padding(self):
        return self.trial.key_mask[:, None, None]

    @property
    def past(self):
        return (np.arange(self.S) <= np.arange(self.T)[:, None])[None, None]

    @property
    def allowed(self):
        allowed = np.ones((self.B, 1, self.T, self.S), bool)
        if self.trial.mask is not None:
            allowed = allowed & self.mask
        if self.trial.key_mask is not None:
            allowed = allowed & self.padding
        return allowed & self.past if self.trial.causal else allowed

    def products(self, q=None, k=None):
        return np.einsum("btho,bsho->bhts", self.q if q is None else q, self.k if k is None else k)

    def logits(self, q=None, k=None):
        return self.products(q, k) / self.O**0.5

    def soft(self, logits, allowed=None):
        logits = np.where(self.allowed if allowed is None else allowed, logits, -np.inf)
        powers = np.exp(logits - logits.max(-1)[..., None])
        return powers / powers.sum(-1)[..., None]

    def scores(self):
        return self.soft(self.logits())

    def mix(self, scores, v=None):
        return np.einsum("bhts,bsho->bhto", scores, self.v if v is None else v)

    def join(self, mixed):
        return np.concatenate([mixed[:, h] for h in range(mixed.shape[1])], axis=-1)

    def merge(self, mixed, kernel=None):
        kernel = self.kernel("attention_output") if kernel is None else kernel
        return np.einsum("bhto,hoe->bte", mixed, kernel) + self.bias("attention_output")

    def merge_joined(self, joined):
        kernel = self.kernel("attention_output")
        return joined @ kernel.reshape(-1, kernel.shape[2]) + self.bias("attention_output")

    def end(self, scores, v=None):
        return self.merge(self.mix(scores, v))

    def attend(self, q=None, k=None, v=None, allowed=None):
        return self.end(self.soft(self.logits(q, k), allowed), v)

    def wrong(self, identity, step="output"):
        """Return the output with a mistake of the bank."""
        return run(self.trial, [BANK[identity].changes])[step]

    def check(self, identity, expected, step="output"):
        found = self.wrong(identity, step)
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * float(np.nanmax(np.abs(expected))))


@pytest.fixture
def draw():
    return lambda configuration: list(_draw(configuration).values())


@pytest.fixture
def make_plain():
    return Plain


@pytest.fixture
def ids_in():
    """The ids of the mistakes that a module adds."""
    return lambda module: {
        one.id for one in BANK.values() if module.__name__ in {change.__module__ for change in one.changes.values()}
    }


@pytest.fixture
def candidate():
    """A class or function of `candidates/`, which is in no package, by the names of its module and its own."""
    return _candidate


def _candidate(module, name):
    for framework in ("torch", "jax", "flax", "equinox", "haiku"):
        if module.startswith(framework):
            pytest.importorskip(framework)
    full = f"candidates_{module}"
    if full not in sys.modules:
        path = Path(__file__).parent / "candidates" / f"{module}.py"
        spec = importlib.util.spec_from_file_location(full, path)
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return getattr(sys.modules[full], name)
