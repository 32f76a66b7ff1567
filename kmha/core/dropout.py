"""Dropout of the scores, in a form that every path of `attention.attend` can draw."""

import dataclasses
from typing import Any

import keras


@dataclasses.dataclass(frozen=True)
class Dropout:
    """Sets scores to zero with probability `rate`, and raises the others by 1 / (1 - rate).

    Attributes:
        rate: above 0, at most 1.
        seeds: gives a new seed with every call; what is drawn is what `keras.layers.Dropout` with these seeds draws.
    """

    rate: float
    seeds: keras.random.SeedGenerator

    @classmethod
    def of(cls, layer: keras.layers.Dropout, training: bool | None) -> "Dropout | None":
        """What `layer` would do when called with `training`; `None` if that is nothing."""
        return cls(layer.rate, layer.seed_generator) if training and layer.rate > 0 else None

    def __call__(self, scores: Any) -> Any:
        return keras.random.dropout(scores, self.rate, seed=self.seeds)
