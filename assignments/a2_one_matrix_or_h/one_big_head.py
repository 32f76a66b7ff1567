# %% [markdown]
# # Many heads, or one big head?
#
# **The question.** A reader looks at the single large matrix for the queries and calls the layer one huge head. Another
# answers that the two are different. Use the same kernels both ways and find where they part.
#
# **The idea.** They agree until the dot product. A dot product of two vectors of width H·O is the sum of H dot products
# of width O. So one big head *adds* the H logits of each pair of positions, and then takes a single softmax: there is
# one weight for each pair. Several heads take H softmaxes and keep H weights. This is all the difference. No parameter
# is gained or lost, and the number of multiplications is the same.
#
# It matters because the one weight is a compromise. If one part of the query asks for one position and another part for
# another position, the sum asks for both. Each gets half, for all features of the value: the big head returns an
# average. With several heads, some features come from the one position and some from the other.
#
# The scale differs too. Each of the H heads divides its logits by √O, and one big head divides by √(H·O). So the big
# head's logits are the sum of the heads' scaled logits, divided by √H.
#
# **The shapes.** Query and key, after their projections, are (B, T, H·O) and (B, S, H·O), with the columns of head 0
# first. The value is (B, S, H·O). The heads' logits are (B, H, T, S), and those of one big head are (B, T, S).
#
# **Worked example.** Take H = 2, O = 1, one query [4, 4], two keys [1, 0] and [0, 1], and two values [10, 1] and [2,
# 20]. Head 0 has the logits 4 and 0, and so the scores 0.982 and 0.018. Head 1 has the same, exchanged. The first
# feature is 0.982 · 10 + 0.018 · 2 = 9.86, and the second is 0.018 · 1 + 0.982 · 20 = 19.66. One big head has the
# logits (4 + 0)/√2 and (0 + 4)/√2, so both scores are 0.5. It returns [6, 10.5], the average of the values.

# %%
import numpy as np


def one_big_head(query, key, value, num_heads):
    """Attend with H heads and with one big head, on the same projected arrays.

    Args:
        query: Query after its projection, (B, T, H·O), with the columns of head 0 first.
        key: Key after its projection, (B, S, H·O).
        value: Value after its projection, (B, S, H·O).
        num_heads: Number of heads (H).

    Returns:
        A dict of four arrays:
        "heads": the results of the H heads side by side, (B, T, H·O);
        "one": the result of one big head of size H·O, (B, T, H·O);
        "heads_logits": the heads' logits, divided by √O, (B, H, T, S);
        "one_logits": the big head's logits, divided by √(H·O), (B, T, S). They follow from the heads' logits alone.
    """
    ### BEGIN SOLUTION
    query_heads, key_heads, value_heads = (
        array.reshape(*array.shape[:2], num_heads, -1) for array in (query, key, value)
    )
    size = query_heads.shape[-1]
    heads_logits = np.einsum("BTHO,BSHO->BHTS", query_heads, key_heads) / np.sqrt(size)
    one_logits = heads_logits.sum(axis=1) / np.sqrt(num_heads)

    def softmax(logits):
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)

    heads = np.einsum("BHTS,BSHO->BTHO", softmax(heads_logits), value_heads)
    return {
        "heads": heads.reshape(query.shape),
        "one": softmax(one_logits) @ value,
        "heads_logits": heads_logits,
        "one_logits": one_logits,
    }
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Cut the last axis of all three arrays into H pieces of O. The head axis comes first of the two, because the columns of
# one head lie side by side. Write a softmax over the last axis, once. You need it twice.

# %% [markdown] tags=["hint"]
# The whole dot product is the sum of the heads' dot products. But the heads' logits are already divided by √O, and the
# big head's have to be divided by √(H·O) = √H · √O. Which factor is missing?

# %% [markdown] tags=["hint"]
# Sum the heads' logits over the head axis and divide by the square root of H. Then take the softmax of each of the two
# logits. Mix the heads with `BHTS,BSHO->BTHO` and a reshape to the query's shape. The big head mixes whole values: (B,
# T, S) times (B, S, H·O).
