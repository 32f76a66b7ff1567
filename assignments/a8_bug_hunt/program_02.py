# %% [markdown]
# # Program 2: positions before the batch
#
# **The question.** The author keeps the positions on the first axis, as recurrent networks do. The model trains, but
# badly. The rows of its scores sum to 0.7, to 1.6, to 0.9, and to one only by chance.
#
# **The idea.** A query divides its attention among the keys. So the scores must sum to one over exactly one axis;
# over the others they may sum to anything. Write the letter of each axis of each array beside its line.
#
# **The shapes.** The query is (T, B, H, O), key and value are (S, B, H, O), and the scores are (T, S, B, H): T and S
# positions, B sentences, H heads, O features per head.
#
# **Worked example.** The program gets this case right: T = S = 2, and all elements of query and key are 0. Every
# score is 1/2, and the output for the values 4 and 8 is 6.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `logits-query-query`: The logits are query · query instead of query · key.
# - `mix-key`: The scores mix the keys instead of the values.
# - `mix-scores-transposed`: The scores are transposed before they mix the values, so every value goes to the wrong
#   query.
# - `scale-missing`: The logits are not divided by √O.
# - `softmax-not-normalised`: The exponentials are not divided by their sum.
# - `softmax-over-batch`: The softmax runs over the batch instead of the keys.
# - `softmax-over-flattened`: The softmax runs over queries and keys together: a head's whole matrix sums to one.
# - `softmax-over-heads`: The softmax runs over the heads instead of the keys.
# - `softmax-over-queries`: The softmax runs over the queries instead of the keys: columns sum to one.
# - `softmax-twice`: The softmax is applied twice.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "softmax-over-queries"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_02(query, key, value):
    """Scaled dot-product attention without a mask, with the positions first.

    Args:
        query: (T, B, H, O).
        key, value: (S, B, H, O).

    Returns:
        The output, (T, B, H, O).
    """
    logits = np.einsum("TBHO,SBHO->TSBH", query, key) / np.sqrt(query.shape[-1])
    ### BEGIN SOLUTION
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores = powers / powers.sum(axis=1, keepdims=True)
    ### STARTER
    # powers = np.exp(logits - logits.max(axis=0, keepdims=True))
    # scores = powers / powers.sum(axis=0, keepdims=True)
    ### END SOLUTION
    return np.einsum("TSBH,SBHO->TBHO", scores, value)


# %% [markdown] tags=["hint"]
# Sum the scores over each of their four axes in turn. Over which axis do they sum to one? Over which should they?

# %% [markdown] tags=["hint"]
# The letters of the scores are TSBH. Each query, T, divides its attention among the keys, S.

# %% [markdown] tags=["hint"]
# Both lines of the softmax name the axis of the queries. Both must name the axis over which the values are mixed.
