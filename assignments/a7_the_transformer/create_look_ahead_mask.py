# %% [markdown]
# # The look-ahead mask
#
# **The question.** In training, the decoder gets the whole target sentence at once. What keeps it from reading the
# very word that it should predict?
#
# **The idea.** A mask that hides the future: position t may attend to the positions s ≤ t, and so also to itself. The
# decoder's input is shifted by one, so position t holds the word *before* the one that it predicts. And if t were
# hidden from itself, the first position would have nothing to attend to.
#
# **The shapes.** Queries and keys are the same sentence, so the mask is (1, T, T). Rows are queries and columns are
# keys. The 1 is for the batch, since the mask is the same for all sentences. It is boolean, and True means *attend*.
#
# **Worked example.** Length 3: row 0 is [True, False, False], row 1 is [True, True, False], row 2 is [True, True,
# True]. The True values fill the lower left with the diagonal, 6 of 9. For length T there are T(T + 1)/2.

# %%
import numpy as np


def create_look_ahead_mask(length):
    """Return the mask of a target sentence: each position attends to itself and to those before it.

    Args:
        length: Number of positions (T), an integer.

    Returns:
        Boolean (1, T, T), True where the row's position may attend to the column's.
    """
    ### BEGIN SOLUTION
    position = np.arange(length)
    allowed = position[None, :] <= position[:, None]
    return allowed[None]
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Row t, column s: True where s ≤ t. Compare a column of the numbers 0 … T - 1 with a row of the same numbers, and you
# get a (T, T) array of booleans. (`np.tril` of ones gets there too.)

# %% [markdown] tags=["hint"]
# Which of the two is the column? The query t is the row of the mask, so its numbers run down: they are the column
# array, (T, 1). The keys' numbers run to the right: (1, T).

# %% [markdown] tags=["hint"]
# Compare the key's number with the query's by "less than or equal", and put an axis of size 1 in front of the (T, T).
# If you start from `np.tril(np.ones(…))`, convert the result to booleans.
