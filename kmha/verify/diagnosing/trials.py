"""The calls that a diagnosis tries: each is there to separate some mistakes from the others.

Sizes are pairwise different where the candidate lets them be, so that swapped axes show; some trials have sizes that
are equal, because some mistakes are possible only there. What is tried follows from what the candidate accepts:

| it accepts | trials |
| --- | --- |
| anything | self-attention; with a key of its own T < S, and T = S; logits of tens of thousands |
| a mask | one that differs from item to item, and one that does not; T = S; B = H; rows with nothing to attend to; logits that are exactly zero; a key that is zero; hidden logits that are far larger than the others |
| a causal flag | T = S, T < S, T > S |
| padding | of the keys; of keys and queries with T = S; B = T |
| several of these | each two together |
| dropout | in training, and not |
| float16 | the same few with masks, and logits whose product overflows before it is scaled |
"""  # noqa: E501 - a table

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing.trials_attention import RATE, Maker
from kmha.verify.diagnosing.trials_sizes import Accepts, Sizes, draw_sizes, draw_weights


def draw(
    seed: int, accepts: Accepts, sizes: Sizes | None = None, weights: Any = None, core: bool = False
) -> list[Trial]:
    """All trials for a candidate: with the same weights, unless these are drawn.

    Args:
        seed: of sizes, weights and inputs.
        accepts: what the candidate takes.
        sizes: drawn, if not given.
        weights: canonical ones that the candidate holds; drawn, if not given.
        core: scaled dot-product attention alone: no weights.

    >>> [trial.name for trial in draw(0, Accepts(mask=False, cross=False))]
    ['self-attention', 'large numbers']
    """
    rng = np.random.default_rng(seed)
    sizes = sizes or draw_sizes(rng, accepts)
    return list(Maker(rng, accepts, sizes, weights, core).trials())


__all__ = ["RATE", "Accepts", "Sizes", "draw", "draw_sizes", "draw_weights"]
