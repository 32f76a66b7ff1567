# %% [markdown]
# # Program 5: heads folded into the batch
#
# **The question.** "All heads at once: I fold them into the batch and repeat the mask H times." With a batch of one
# sentence everything agrees. With a batch of eight, some sentences attend to padding, and others have real words
# hidden.
#
# **The idea.** When two axes are folded into one, one of them runs faster. Everything beside the folded array must
# run the same way. For B = 2 and H = 2, write down which sentence and which head stand at index 0, 1, 2, 3 of both.
#
# **The shapes.** The query is (B, T, H·O), and key and value are (B, S, H·O); folded, they are (B·H, T, O) and (B·H,
# S, O). The mask is (B, T, S): B sentences, T and S positions, H heads, O features per head.
#
# **Worked example.** The program gets this case right: B = 1, H = 2. The one sentence's mask is there twice, once
# for each head.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `heads-reshaped`: The heads are split by a reshape without a transpose, which mixes positions and features.
# - `mask-first-head-only`: Only the first head is masked.
# - `mask-inverted`: The mask is inverted: queries attend to what should be hidden.
# - `mask-of-first-item`: The first item's mask is used for the whole batch.
# - `mask-of-next-item`: Each item gets the mask of the item after it.
# - `mask-repeated`: The heads come first in (H·B), and the mask is repeated instead of tiled: heads get another
#   item's mask.
# - `mask-tiled`: The mask is tiled over (B·H), although each item's mask must be repeated for its heads: heads get
#   another item's mask.
# - `merge-batch-exchanged`: Batch and heads are exchanged when the heads are merged: (B·H) is read as (H·B).
# - `merge-not-transposed`: The heads are merged without transposing back: a query gets pieces of other queries.
# - `scale-all-heads`: The logits are divided by √(H·O), the width of all heads together, instead of √O.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "mask-tiled"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_05(query, key, value, mask, heads):
    """Multi-head attention without projections.

    Args:
        query: (B, T, H·O), with head 0's features first.
        key, value: (B, S, H·O).
        mask: boolean (B, T, S), True where query t may attend to key s; every query may attend to some key.
        heads: their number, H.

    Returns:
        The output, (B, T, H·O).
    """

    def fold(array):
        batch, positions, _ = array.shape
        return array.reshape(batch, positions, heads, -1).swapaxes(1, 2).reshape(batch * heads, positions, -1)

    Q, K, V = fold(query), fold(key), fold(value)
    logits = Q @ K.swapaxes(1, 2) / np.sqrt(Q.shape[-1])
    ### BEGIN SOLUTION
    logits = np.where(np.repeat(mask, heads, axis=0), logits, -np.inf)
    ### STARTER
    # logits = np.where(np.tile(mask, (heads, 1, 1)), logits, -np.inf)
    ### END SOLUTION
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    mixed = powers / powers.sum(axis=-1, keepdims=True) @ V
    return mixed.reshape(len(query), heads, -1, mixed.shape[-1]).swapaxes(1, 2).reshape(query.shape)


# %% [markdown] tags=["hint"]
# Fold an array that holds its sentence's number everywhere, and print the first element of each of the B·H rows. Do
# the same with the mask's rows.

# %% [markdown] tags=["hint"]
# In the folded arrays, all heads of sentence 0 come first, then all heads of sentence 1. In the mask, all sentences
# come first, and then all of them again.

# %% [markdown] tags=["hint"]
# One NumPy function puts whole copies one after the other; another puts the copies of each item side by side. You
# need the other one, on the first axis.
