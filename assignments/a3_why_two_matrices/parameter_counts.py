# %% [markdown]
# # When do two matrices cost less?
#
# **The question.** W_i^Q and W_i^K together have 2 · I · O parameters. Their product W_i has I · I. Is it not wasteful
# to train two matrices if one would do? Count, and see.
#
# **The idea.** It depends on O. Two thin matrices can be far smaller than the matrix that they make. The cost of the
# pair grows with O; the cost of W_i does not. At some O both cost the same, and below it the pair costs less. Every
# head has its own pair, or would have its own W_i, so H heads multiply both costs by H. With the usual O = I / H, both
# cost the same for two heads. With more heads the pair costs less; with one head W_i does.
#
# **The shapes.** W_i^Q and W_i^K are (I, O), and W_i is (I, I). Do not count biases.
#
# **Worked example.** The paper's base model has I = 512, O = 64 and H = 8. The pair of one head has 2 · 512 · 64 =
# 65,536 parameters. W_i has 512 · 512 = 262,144, four times as many. Over eight heads, these are 524,288 and 2,097,152.

# %%
def parameter_counts(features, size, heads):
    """Count the parameters that the logits of an attention layer need, in both ways.

    Args:
        features: Number of features (I).
        size: Size of one head (O).
        heads: Number of heads (H).

    Returns:
        A dict of integers:
        "one_pair": parameters of W_i^Q and W_i^K of one head;
        "one_bilinear": parameters of W_i of one head;
        "all_pairs" and "all_bilinears": the same for all heads;
        "largest_cheaper_size": the largest integer O at which a pair has fewer parameters than W_i, for these I
        features. It depends on nothing else. It is 0 if there is none.
    """
    ### BEGIN SOLUTION
    one_pair = 2 * features * size
    one_bilinear = features * features
    return {
        "one_pair": one_pair,
        "one_bilinear": one_bilinear,
        "all_pairs": one_pair * heads,
        "all_bilinears": one_bilinear * heads,
        "largest_cheaper_size": (features - 1) // 2,
    }
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# A matrix (a, b) has a · b parameters. Write the shapes of W_i^Q, W_i^K and W_i next to each other, first for one head.

# %% [markdown] tags=["hint"]
# The pair has fewer parameters if 2 · I · O < I · I. Divide both sides by what they share: H plays no part, and neither
# does one of the I.

# %% [markdown] tags=["hint"]
# You have 2 · O < I, and O is an integer. Try I = 8: the largest O is 3, because O = 4 costs the same and not less.
# Then try I = 7: O = 3 again. Find one integer division that gives 3 for both, and 0 for I = 1 and I = 2.
