# %% [markdown]
# # When two matrices cost less
#
# **The question.** W_i^Q and W_i^K have 2 · I · O parameters, their product W_i has I · I. Is it not wasteful to train
# two matrices where one would do?
#
# **The idea.** It depends on O. Two thin matrices can be far smaller than the one that they make: what the pair costs
# grows with O, what W_i costs does not. At some O both cost the same, and below it the pair costs less. Every head has
# its own pair, or would have its own W_i, so H heads multiply both sides alike. With the usual O = I / H both cost the
# same for two heads; with more heads the pair costs less, with one head W_i does.
#
# **The shapes.** W_i^Q and W_i^K are (I, O), W_i is (I, I). Biases are not counted.
#
# **One line, worked.** The paper's base model: I = 512, O = 64, H = 8. The pair of one head has 2 · 512 · 64 = 65,536
# parameters, W_i 512 · 512 = 262,144, four times as many. Over eight heads: 524,288 and 2,097,152.

# %%
def parameter_counts(features, size, heads):
    """How many parameters the logits of an attention layer need, in both ways.

    Args:
        features: I.
        size: O, of one head.
        heads: H.

    Returns:
        A dict of integers:
        "one_pair": the parameters of W_i^Q and W_i^K of one head;
        "one_bilinear": those of W_i of one head;
        "all_pairs" and "all_bilinears": the same for all heads;
        "largest_cheaper_size": the largest integer O at which a pair has fewer parameters than W_i, for these I
        features. It does not depend on `size`; 0 if there is none.
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
# A matrix (a, b) has a · b parameters. Write the shapes of W_i^Q, W_i^K and W_i beside each other, first for one head.

# %% [markdown] tags=["hint"]
# The pair has fewer where 2 · I · O < I · I. Divide both sides by what they share: H plays no part, and neither does
# one of the I.

# %% [markdown] tags=["hint"]
# You have 2 · O < I, and O is an integer. Try I = 8: O = 3 is the largest, since O = 4 costs the same and not less.
# Then I = 7: O = 3 as well. Find one integer division that gives 3 for both, and 0 for I = 1 and I = 2.
