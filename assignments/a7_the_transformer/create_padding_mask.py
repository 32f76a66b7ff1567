# %% [markdown]
# # The padding mask
#
# **The question.** Sentences of one batch have different lengths, and the short ones are filled up with zeros. Is the
# mask 1 at the padding or 1 at the words? Tutorials do it both ways, and their code silently does the opposite with
# the other.
#
# **The idea.** Padding holds no word, so no query may attend to it. Here, and wherever Keras has an `attention_mask`,
# a mask is boolean, and **True means: may be attended**. So it is True at words and False at padding. Code that adds
# `mask * -1e9` to the logits has the opposite convention: never mix the two.
#
# **The shapes.** Ids are (B, S). The mask says who may be attended *as a key*, and that is the same for all queries:
# so it is (B, 1, S), where the 1 stands for the T queries and broadcasts. (The course's first version has one more
# axis, for the heads, and 1 at padding; its later one has this shape, and 1.0 at words. Keras' layer puts the heads'
# axis in by itself.)
#
# **One line, worked.** ids = [[7, 6, 0, 0], [1, 2, 3, 0]] gives [[[True, True, False, False]], [[True, True, True,
# False]]], of shape (2, 1, 4).

# %%
import numpy as np


def create_padding_mask(ids):
    """Which positions may be attended: those that are not padding.

    Args:
        ids: token ids (B, S), integers; 0 is padding, wherever it stands.

    Returns:
        Boolean (B, 1, S), True where a query may attend.
    """
    ### BEGIN SOLUTION
    allowed = np.not_equal(ids, 0)
    return allowed[:, None, :]
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# A comparison of an array with a number gives booleans of the same shape. Which comparison is True at words?

# %% [markdown] tags=["hint"]
# The axis of the queries stands between B and S. Indexing with `None` (which is `np.newaxis`) puts an axis of size 1
# where it stands.

# %% [markdown] tags=["hint"]
# Two steps: compare the ids with the padding's id, so that words are True; then put the new axis into the middle of
# the shape. No numbers, no -1e9: the result stays boolean.
