"""The bank of known mistakes: each a named change of one step of the chain in `kmha.verify.chains.attention`.

To add one, write an entry into the module of its step, such as

    @mistake(
        "scale-missing",
        step="scaled",
        says="The logits are not divided by √O.",
        look="the line after the product of query and key",
        source="Vaswani et al. 2017, section 3.2.1",
    )
    def _unscaled(state, right):
        return state["logits"]

`state` holds the results of all steps so far by name, `state["trial"]` the call; `right(state)` is what the right step
would give. A change that is impossible with some sizes (its code would raise there) raises `ImpossibleError`, or lets
NumPy raise. That is all: `kmha diagnose` knows it from then on, and the tests hold that it is told from every other.

>>> from kmha.verify.mistakes import BANK
>>> BANK["scale-missing"].says
'The logits are not divided by √O.'
"""

from kmha.verify.mistakes import (  # noqa: F401 - each fills the bank
    batch,
    biases,
    causal,
    decoders,
    dropout,
    embeddings,
    feed_forward,
    heads,
    mask_shapes,
    mask_values,
    masks,
    merging,
    norm_places,
    norms,
    positions,
    precision,
    products,
    projections,
    residuals,
    scale,
    softmaxes,
)
from kmha.verify.mistakes.entry import BANK, Mistake, add, mistake

__all__ = ["BANK", "Mistake", "add", "mistake"]
