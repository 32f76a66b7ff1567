"""Attention, blocks, embeddings and decoding with a cache as chains of named steps. A mistake changes steps."""

from kmha.verify.chains import blocks, caches, embedding  # noqa: F401 - each adds its chains to CHAINS
from kmha.verify.chains.attention import (
    CHAINS,
    Change,
    ImpossibleError,
    State,
    Step,
    Trial,
    chains_with,
    run,
    steps_of,
)

__all__ = ["CHAINS", "Change", "ImpossibleError", "State", "Step", "Trial", "chains_with", "run", "steps_of"]
