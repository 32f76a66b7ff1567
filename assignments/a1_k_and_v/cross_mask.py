# %% [markdown]
# # The mask of the decoder's second attention
#
# **The question.** The decoder layer receives two masks, a look-ahead mask and a padding mask. Which one belongs to its
# second attention? And whose padding does it mark, the source's or the target's? If you pick the wrong one, padding
# receives attention or words are hidden.
#
# **The idea.** A mask says which *keys* a query may attend to. In the second attention the keys are source positions.
# So the mask that belongs there marks where the *source* is padding. It hides nothing else: the whole source is known
# before the first target word is written, so there is no future to hide. Padding in the target does no harm: it only
# adds queries whose outputs nobody uses. Masking those queries gains nothing, and it leaves rows with nothing to
# attend to, which need special treatment.
#
# Here a mask is boolean, and True means attend. (In one course, masks have 1 at padding and −10⁹ is added there. That
# is the same mask with the opposite polarity.)
#
# **The shapes.** Source tokens are integers (B, S); target tokens are integers (B, T). The mask has the axes (batch,
# query position, source position). It is the same for every query position, so one row is enough: (B, 1, S).
#
# **Worked example.** Take the source `[[7, 4, 0, 0]]` with padding 0. The mask is `[[[True, True, False, False]]]`, of
# shape (1, 1, 4), however long the target is.

# %%
import numpy as np


def cross_mask(source, target, padding):
    """Return the mask of the decoder's second attention.

    Args:
        source: Tokens of the source sentences, integers (B, S). Every source sentence has at least one word.
        target: Tokens of the target sentences, integers (B, T).
        padding: Token that fills up sentences in source and target, at their beginning or at their end.

    Returns:
        A boolean mask, (B, 1, S), True where a source position may be attended to.
    """
    ### BEGIN SOLUTION
    return np.expand_dims(source != padding, axis=1)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Whose positions are the keys of the second attention, the source's or the target's? You do not need one of the
# arguments.

# %% [markdown] tags=["hint"]
# Compare the source tokens with the padding token, element by element. This gives booleans of shape (B, S). Make sure
# that they are True where there is a word.

# %% [markdown] tags=["hint"]
# Only one thing is missing: an axis of size 1 between the batch and the source positions. Add it with `None` in an
# index, or with `np.expand_dims`.
