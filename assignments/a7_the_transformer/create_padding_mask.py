# %% [markdown]
# # The padding mask
#
# **The question.** The sentences of a batch have different lengths, and zeros fill up the short ones. Is the mask 1
# at the padding, or 1 at the words? Tutorials do it both ways, and their code silently does the opposite if you mix
# them.
#
# **The idea.** Padding holds no word, so no query may attend to it. Here, and wherever Keras has an `attention_mask`,
# a mask is boolean, and **True means *attend***. So it is True at words and False at padding. Code that adds `mask *
# -1e9` to the logits has the opposite convention. Never mix the two.
#
# **The shapes.** Ids are (B, S). The mask says which positions may be attended to *as keys*. This is the same for all
# queries, so the mask is (B, 1, S), where the 1 broadcasts over the T queries. (The course's first version has one
# more axis, for the heads, and 1 at padding. Its later version has this shape, and 1.0 at words. Keras' layer adds
# the axis of the heads itself.)
#
# **Worked example.** ids = [[7, 6, 0, 0], [1, 2, 3, 0]] gives [[[True, True, False, False]], [[True, True, True,
# False]]], of shape (2, 1, 4).

# %%
import numpy as np


def create_padding_mask(ids):
    """Return a mask that hides padding.

    Args:
        ids: Token ids (B, S), integers; 0 is padding, wherever it stands.

    Returns:
        Boolean (B, 1, S), True where a query may attend.
    """
    ### BEGIN SOLUTION
    allowed = np.not_equal(ids, 0)
    return allowed[:, None, :]
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Comparing an array with a number gives booleans of the same shape. Which comparison is True at words?

# %% [markdown] tags=["hint"]
# The axis of the queries stands between B and S. Indexing with `None` (which is `np.newaxis`) puts an axis of size 1
# in its place.

# %% [markdown] tags=["hint"]
# Take two steps: compare the ids with the id of padding, so that words are True; then put the new axis into the
# middle of the shape. No numbers and no -1e9: the result stays boolean.
