"""The bank of known mistakes. A mistake is a named change of one or more steps of a chain in `kmha.verify.chains`.

To add a mistake, write an entry into the module of its step, such as

    register(
        "scale-missing",
        "You did not scale the logits. Divide them by √O before the softmax.",
        "the line after the product of query and key",
        "Vaswani et al. 2017, section 3.2.1",
        scaled=lambda state, right: state["logits"],
    )

with the id, the text for the author, where to look, the source, and the changed step. `state` contains the results of
all steps so far, keyed by name, and `state["trial"]` is the call. `right(state)` computes the original step. If code
with this mistake would raise an error for some sizes, the change raises `ImpossibleError` or lets NumPy raise. No more
is needed: `kmha diagnose` then knows the mistake, and the tests check that no other mistake gives the same numbers.

A mistake whose numbers are random, or depend on the layer alone, is in `without_numbers`.

>>> from kmha.verify.mistakes import BANK
>>> BANK["scale-missing"].look
'the line that scales the product of query and key'
"""

from kmha.verify.mistakes import (  # noqa: F401 - each fills the bank
    batch,
    biases,
    cache_reads,
    caches,
    causal,
    decoders,
    dropout,
    embeddings,
    feed_forward,
    heads,
    mask_application,
    mask_choice,
    mask_shapes,
    merging,
    norms,
    positions,
    products,
    projections,
    residuals,
    rotary,
    softmaxes,
    without_numbers,
)
from kmha.verify.mistakes.entry import BANK, Mistake, register

__all__ = ["BANK", "Mistake", "register"]
