# %% [markdown]
# # Heads as wide as the model
#
# **The question.** A reader found a paper, arXiv:1906.07510, in which W^Q and W^K of each head have d_model × d_model
# elements instead of d_model × d_model/h. Is it a typo, or is there a reason? The comment got no answer. Count what
# such a layer costs, and what it buys.
#
# **The idea.** A head's size O is a free choice: nothing forces it to be I/H. With O = I, *every* head is H times as
# wide, so its kernels, its projections, its scores and its mix cost H times as much. The layer then costs H² times what
# one of its old heads did, and H times what the whole layer did. Only one thing does not grow: the number of scores. A
# score is one number for each pair of positions, however wide the vectors are that made it.
#
# What you buy is rank. A head's logits depend on W_i = W_i^Q (W_i^K)^T, which has a rank of at most O. With O = I it can
# be any matrix. But then the pair of kernels is a waste: you could train W_i itself, with half of the pair's
# parameters, which is what the original question proposed. So in a layer of this kind the asker is right, as wherever O
# is more than half of I.
#
# **The shapes.** The query, key and value kernels are (H, I, O), and the output kernel is (H, O, I). The sequence has T
# positions, attends to itself, and has no biases. A product of an (a, b) matrix with a (b, c) matrix takes a·b·c
# multiplications. Do not count the softmax or the scale.
#
# **Worked example.** Take T = 10, I = 512 and H = 8. With O = 64, each of the four kernels has 8 · 512 · 64 = 262,144
# parameters, together 1,048,576. A product with them takes 10 · 1,048,576 = 10,485,760 multiplications. Scores and mix
# take 8 · 10 · 10 · 64 = 51,200 each. Together these are 10,588,160. With O = 512 there are 8,388,608 parameters and
# 84,705,280 multiplications, eight times as many. The scores are 8 · 10 · 10 = 800 numbers both times.

# %%
def full_width_heads(positions, features, num_heads):
    """Count what a self-attention layer costs with heads of size I/H, and with heads as wide as the model.

    Args:
        positions: Number of positions (T).
        features: Number of features of the model (I), a multiple of `num_heads`.
        num_heads: Number of heads (H).

    Returns:
        A dict of two dicts, "thin" for O = I/H and "full" for O = I. Each has these integers:
        "parameters": parameters of the four kernels, of all heads;
        "multiplications": multiplications of one sequence: the four projections, the scores and the mix;
        "scores": number of scores, of all heads;
        "rank": the highest rank that W_i of one head can have;
        "cheapest_logits": the fewest parameters with which one head can compute its logits: those of the pair W_i^Q and
        W_i^K, or those of W_i itself.
    """
    ### BEGIN SOLUTION

    def cost(size):
        parameters = 4 * num_heads * features * size
        pairs = num_heads * positions * positions
        pair = 2 * features * size
        return {
            "parameters": parameters,
            "multiplications": positions * parameters + 2 * pairs * size,
            "scores": pairs,
            "rank": size,
            "cheapest_logits": min(pair, features**2),
        }

    return {"thin": cost(features // num_heads), "full": cost(features)}
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Write one function of the head size O that counts everything, and call it twice. Only O differs.

# %% [markdown] tags=["hint"]
# Each of the T positions is multiplied once by every parameter. For the scores, each head multiplies (T, O) by (O, T).
# For the mix, it multiplies (T, T) by (T, O). Both take the same number of multiplications.

# %% [markdown] tags=["hint"]
# The product of an (I, O) and an (O, I) matrix has a rank of at most the smaller of the two sizes. W_i has I · I
# parameters, whatever O is, and the pair has 2 · I · O. Which of the two is smaller depends on O. With one head, thin and
# full are the same layer.
