# %% [markdown]
# # Program 3: NumPy's masked arrays
#
# **The question.** "NumPy has masked arrays, so I let them do the work." The loss falls faster than with anybody else's
# model, and what it generates is useless.
#
# **The idea.** A boolean mask has no meaning of its own: in each library's documentation one sentence says what True
# stands for. Where two libraries meet, read that sentence of both.
#
# **The shapes.** The query is (B, H, T, O), key and value are (B, H, S, O), the mask is (B, T, S): B sentences, H
# heads, T and S positions, O features a head.
#
# **One line, worked.** A case that it gets right: S = 2, and both keys have the value 5. Whichever of the two is
# hidden, the output is 5.
#
# **Name it, mend it.** The program below runs and gives the right shape, and one thing in it is wrong. Mend it, and set
# `MISTAKE` to the id of what was wrong, one of these:
#
# - `mask-after-softmax`: The mask is applied after the softmax, and rows are not divided by their new sum: it is less
#   than one.
# - `mask-any-row-for-all`: A key that any query may attend to is open to all of them: the mask is reduced to one of the
#   keys.
# - `mask-first-head-only`: Only the first head is masked.
# - `mask-inverted`: The mask is inverted: attended is what should be hidden.
# - `mask-missing`: No mask has any effect: everybody attends to everybody (or 1e-9 is added where -1e9 is meant).
# - `mask-of-first-item`: The first item's mask is used for the whole batch.
# - `mask-zeroes-logits`: Hidden logits become 0 in place of -∞ (multiplied by the mask, or filled with 1e-9): they keep
#   a share.
# - `scale-multiplied`: The logits are multiplied by √O in place of divided.
# - `softmax-of-opposite`: The softmax is of the negative logits: the least alike get the most.
# - `softmax-over-queries`: The softmax runs over the queries in place of the keys: columns sum to one.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "mask-inverted"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_03(query, key, value, mask):
    """Scaled dot-product attention with a mask.

    Args:
        query: (B, H, T, O).
        key, value: (B, H, S, O).
        mask: boolean (B, T, S), True where query t may attend to key s; every query may attend to some key.

    Returns:
        The output, (B, H, T, O).
    """
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    ### BEGIN SOLUTION
    hidden = ~mask[:, None]
    ### STARTER
    # hidden = mask[:, None]
    ### END SOLUTION
    visible = np.ma.masked_array(logits, mask=np.broadcast_to(hidden, logits.shape))
    visible = visible - visible.max(axis=-1, keepdims=True)
    powers = np.ma.exp(visible).filled(0.0)
    return powers / powers.sum(axis=-1, keepdims=True) @ value


# %% [markdown] tags=["hint"]
# Take a mask in which a query may attend to one key only. Its output must be that key's value. What do you get?

# %% [markdown] tags=["hint"]
# Read in NumPy's manual, on `numpy.ma.MaskedArray`, what an element of the mask that is True means for the array.

# %% [markdown] tags=["hint"]
# The docstring's mask says what may be attended to, a masked array's mask says what is invalid. One `~` lies between
# them.
