# %% [markdown]
# # Rows with nothing to attend to
#
# **The question.** My loss is NaN from some batch on. All inputs are finite, and most batches are fine. Where does it
# come from?
#
# **The idea.** From a row that may attend to nothing: a sentence of padding alone, or padding at the beginning under a
# look-ahead mask. Its logits are all -∞, its largest logit is -∞ too, and -∞ - (-∞) is NaN. Filling in -1e9 hides it
# and does not mend it: the row then attends to everything that should be hidden. A row that attends to nothing has
# scores of zero, and hands on no gradient.
#
# Setting NaN to 0 at the end mends only the scores: on the way back NaN is multiplied by 0, and NaN · 0 is NaN. The bad
# number must never be made. The same holds for hidden logits that are infinite or NaN themselves: *choose* between
# numbers, do not multiply by a mask.
#
# The way back through a softmax: if g is the gradient of the loss with respect to a row's scores s, that with
# respect to its logits is s · (g - Σ s · g), element by element, with the sum over the row. Hidden logits get 0.
#
# **The shapes.** `logits` (B, H, T, S), `mask` boolean (B, T, S), `upstream`, which is g, (B, H, T, S).
#
# **One line, worked.** Logits (0, ln 3), both open: scores (0.25, 0.75). With g = (4, 0), Σ s · g = 1, and the gradient
# is (0.25 · 3, 0.75 · -1) = (0.75, -0.75).

# %%
import numpy as np


def masked_softmax(logits, mask, upstream):
    """A softmax over what the mask allows, and the way back through it.

    Args:
        logits: scaled, (B, H, T, S); where they are hidden they may hold anything, also ∞ and NaN.
        mask: boolean (B, T, S), True where t may attend to s; a row may be all False.
        upstream: the gradient of the loss with respect to the scores, (B, H, T, S), finite.

    Returns:
        The scores and the gradient of the loss with respect to the logits, each (B, H, T, S): both are 0 wherever the
        mask is False, and neither holds a NaN.
    """
    ### BEGIN SOLUTION
    masked = np.where(mask[:, None], logits, -np.inf)
    largest = masked.max(axis=-1, keepdims=True)
    powers = np.exp(masked - np.where(np.isfinite(largest), largest, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    scores = powers / np.where(total == 0, 1.0, total)
    gradient = scores * (upstream - np.sum(scores * upstream, axis=-1, keepdims=True))
    return scores, gradient
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Follow one row of -∞ through your softmax with pencil and paper. There are two places where NaN comes up: one before
# exp, and one after the sum. Each needs another number to be *put in its place* before it is used.

# %% [markdown] tags=["hint"]
# First choose: the logit where the mask is True, -∞ elsewhere (`np.where`, not a product). If a row's largest is -∞,
# take off 0 in its place: exp(-∞) is 0, as it should be. If a row's sum is 0, divide by 1 in its place.

# %% [markdown] tags=["hint"]
# With scores that are 0 wherever something is hidden, the formula of the gradient does the rest: it begins with a
# factor s. The sum in it goes over the last axis, with `keepdims=True`.
