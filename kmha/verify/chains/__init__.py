"""Attention, blocks and embeddings as chains of named steps, which a mistake changes one at a time."""

from kmha.verify.chains.attention import ImpossibleError, Trial, run

__all__ = ["ImpossibleError", "Trial", "run"]
