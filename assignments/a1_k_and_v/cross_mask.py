# %% [markdown]
# # The mask of the decoder's second attention
#
# **The question.** The decoder layer is handed two masks, a look-ahead mask and a padding mask. Which belongs to its
# second attention, and whose padding is it: the source's or the target's?
#
# **The idea.** A mask says which *keys* a query may attend to. In the second attention the keys are source positions.
# So the mask that belongs there says where the *source* is padding. It hides nothing else: the whole source is known
# before the first target word is written, so there is no future to hide. The target's own padding makes queries that
# nobody reads; hiding their rows gains nothing, and a row with nothing to attend to is a case of its own.
#
# Here a mask is boolean, and True means attend. (A course whose masks have 1 at padding and add −10⁹ there means the
# same by the opposite.)
#
# **The shapes.** Source tokens (B, S), target tokens (B, T), integers. The mask has the axes (batch, query position,
# source position); it is the same for every query position, so one row is enough: (B, 1, S).
#
# **One line, worked.** Source `[[7, 4, 0, 0]]` with padding 0: the mask is `[[[True, True, False, False]]]`, of shape
# (1, 1, 4), however long the target is.

# %%
import numpy as np


def cross_mask(source, target, padding):
    """Who may be attended to in the decoder's second attention.

    Args:
        source: tokens of the source sentences, integers (B, S).
        target: tokens of the target sentences, integers (B, T).
        padding: the token that fills sentences up, in both. It may be at the beginning or at the end of a sentence.

    Returns:
        Boolean (B, 1, S), True where a position may be attended to.
    """
    ### BEGIN SOLUTION
    return np.expand_dims(source != padding, axis=1)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Whose positions are the keys of the second attention, those of the source or those of the target? One of the
# arguments is not needed.

# %% [markdown] tags=["hint"]
# Compare the source's tokens with the padding token, element by element: that gives booleans of shape (B, S). True
# must stand where there is a word.

# %% [markdown] tags=["hint"]
# What is left is an axis of size 1 between the batch and the source positions: `None` in an index adds one, or
# `np.expand_dims` does.
