# %% [markdown]
# # Rows with nothing to attend to
#
# **The question.** “My loss becomes NaN on certain batches. All inputs are finite, and most batches are fine. Where
# does the NaN come from?” People ask this again and again. Write a softmax that never produces it.
#
# **The idea.** It comes from a row with nothing to attend to: a sentence that is all padding, or padding at the
# beginning under a look-ahead mask. All logits of that row are -∞. Its largest logit is -∞ too, and -∞ - (-∞) is NaN.
# If you fill in -1e9 instead, you hide the problem but do not solve it: the row then attends to everything that
# should be hidden. A row with nothing to attend to should have scores of zero and pass back no gradient.
#
# If you set NaN to 0 at the end, you repair only the scores. On the way back NaN is multiplied by 0, and NaN · 0 is
# NaN. So the NaN must never arise. The same holds for hidden logits that are infinite or NaN themselves: *choose*
# between numbers; do not multiply by a mask.
#
# The way back through a softmax goes like this. Let g be the gradient of the loss with respect to the scores s of a
# row. The gradient with respect to the logits of the row is s · (g - Σ s · g), element by element, with the sum over
# the row. Hidden logits get 0.
#
# **The shapes.** `logits` is (B, H, T, S), `mask` is boolean (B, T, S), and `upstream`, which is g, is (B, H, T, S).
#
# **Worked example.** Take the logits (0, ln 3), both allowed. The scores are (0.25, 0.75). With g = (4, 0), Σ s · g =
# 1, and the gradient is (0.25 · 3, 0.75 · -1) = (0.75, -0.75).

# %%
import numpy as np


def masked_softmax(logits, mask, upstream):
    """Return a softmax over the positions that the mask allows, and its gradient.

    Args:
        logits: Scaled logits, (B, H, T, S), of up to hundreds of thousands, below 0 too. Where they are hidden they may
            hold anything, even ∞ and NaN.
        mask: Boolean mask, (B, T, S), True where t may attend to s. A row may be all False.
        upstream: Gradient of the loss with respect to the scores, (B, H, T, S), finite.

    Returns:
        The scores, and the gradient of the loss with respect to the logits, each (B, H, T, S). Both are 0 wherever the
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
# Follow one row of -∞ through your softmax with pencil and paper. NaN arises in two places: once before the
# exponential, and once after the sum. In both places, substitute another number *before* the operation that produces
# the NaN.

# %% [markdown] tags=["hint"]
# First choose: the logit where the mask is True, -∞ elsewhere (`np.where`, not a product). If the largest logit of a
# row is -∞, subtract 0 instead: exp(-∞) is 0, as it should be. If the sum of a row is 0, divide by 1 instead.

# %% [markdown] tags=["hint"]
# Once the scores are 0 wherever something is hidden, the formula of the gradient does the rest, because it begins with
# a factor s. The sum in it goes over the last axis, with `keepdims=True`.
