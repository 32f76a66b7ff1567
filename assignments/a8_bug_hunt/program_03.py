# %% [markdown]
# # Program 3: NumPy's masked arrays
#
# **The question.** "NumPy has masked arrays, so I let them do the work." The loss falls faster than that of anybody
# else's model, but the text that the model generates is useless.
#
# **The idea.** A boolean mask has no meaning of its own. Each library's documentation has one sentence that says what
# True stands for. Where two libraries meet, read that sentence in both.
#
# **The shapes.** The query is (B, H, T, O), key and value are (B, H, S, O), and the mask is (B, T, S): B sentences, H
# heads, T and S positions, O features per head.
#
# **Worked example.** The program gets this case right: S = 2, and both keys have the value 5. Whichever of the two
# is hidden, the output is 5.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `mask-after-softmax`: The mask is applied after the softmax, and the rows are not divided by their new sum, which
#   is less than one.
# - `mask-any-row-for-all`: The mask is reduced to one row of keys, so a key that at least one query may attend to is
#   open to all queries.
# - `mask-first-head-only`: Only the first head is masked.
# - `mask-inverted`: The mask is inverted: queries attend to what should be hidden.
# - `mask-missing`: No mask has any effect: every query attends to every key (or 1e-9 is added where -1e9 is meant).
# - `mask-of-first-item`: The first item's mask is used for the whole batch.
# - `mask-zeroes-logits`: Hidden logits become 0 instead of -∞ (multiplied by the mask, or filled with 1e-9), so they
#   keep a share.
# - `scale-multiplied`: The logits are multiplied by √O instead of divided.
# - `softmax-of-opposite`: The softmax is taken of the negative logits: the least similar keys get the largest scores.
# - `softmax-over-queries`: The softmax runs over the queries instead of the keys: columns sum to one.

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
# Take a mask that lets a query attend to one key only. The output must be that key's value. What do you get?

# %% [markdown] tags=["hint"]
# Read in NumPy's manual, under `numpy.ma.MaskedArray`, what True in the mask means for the array.

# %% [markdown] tags=["hint"]
# The docstring's mask says what may be attended to, and a masked array's mask says what is invalid. One `~` lies
# between them.
