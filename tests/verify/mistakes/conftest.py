"""The parts of a block in a few lines of NumPy, from which the tests assemble wrong blocks."""

import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.mistakes import BANK


class Parts:
    """The parts of one trial: x, enc_output, and functions for attention, normalization and feed-forward network."""

    def __init__(self, chain="encoder", name="plain", seed=11, **settings):
        self.trials = {trial.name: trial for trial in draw_block(seed, BlockAccepts(chain, **settings))}
        self.trial = self.trials[name]
        self.weights = self.trial.weights
        self.x, self.memory = self.trial.query, self.trial.key
        self.calls = {number: run(self.trial).get(f"call{number}") for number in (1, 2)}
        self.last = "layernorm2" if chain == "encoder" else "layernorm3"

    def attention(self, query, memory=None, number=1, **masks):
        """Compute the right attention, which is tested elsewhere, on other inputs, masks or weights."""
        memory = query if memory is None else memory
        call = dataclasses.replace(self.calls[number], query=query, key=memory, value=memory, **masks)
        return run(call)["output"]

    def norm(self, x, layer="layernorm1", epsilon=1e-6):
        deviations = x - x.mean(-1)[..., None]
        normal = deviations / np.sqrt((deviations**2).mean(-1)[..., None] + epsilon)
        return normal * self.weights[f"{layer}/gamma"] + self.weights[f"{layer}/beta"]

    def norm2(self, x):
        return self.norm(x, "layernorm2")

    def last_norm(self, x):
        return self.norm(x, self.last)

    def dense(self, x, number):
        return x @ self.weights[f"ffn/dense{number}/kernel"] + self.weights[f"ffn/dense{number}/bias"]

    def forward(self, x):
        return self.dense(np.maximum(self.dense(x, 1), 0), 2)

    def end(self, x):
        """The feed-forward part of a post-norm block."""
        return self.last_norm(x + self.forward(x))

    def block1(self):
        return self.norm(self.x + self.attention(self.x))

    def wrong(self, identity):
        """Return the output with a mistake of the bank."""
        return run(self.trial, [BANK[identity].changes])["output"]


@pytest.fixture
def make_parts():
    return Parts
