# %% [markdown]
# # Which biases are needed
#
# **The question.** Query, key, value and output have a bias each. Which of the four are needed, and what must be done
# to leave the others out?
#
# **The idea.** A bias can go where its effect can be had from another, or where it has none. Two can go:
#
# - The key's adds the same to all logits of a row, which the softmax does not see.
# - The value's adds b_i^V to every value of head i. A row of scores sums to one, so whatever they are the mixed value
#   has exactly b_i^V more. The output projection multiplies that by W_i^O, and sums over the heads: a constant vector
#   of E features, the same at every position. The output's bias can hold it.
#
# The query's must stay as it is: what it adds differs from key to key. (With dropout on the scores, or in a row with
# nothing to attend to, the scores do not sum to one, and the second point does not hold exactly.)
#
# **The shapes.** The biases of query, key and value are (H, O), the output's kernel is (H, O, E), its bias (E,).
#
# **One line, worked.** H = 2, O = E = 1: value biases 3 and 4, W^O = 10 for the first head and 100 for the second,
# output bias 7. The new output bias is 7 + 3 · 10 + 4 · 100 = 437.

# %%
import numpy as np


def fold_biases(query_bias, key_bias, value_bias, output_kernel, output_bias):
    """Biases with which the layer computes the same, as few of them as can be.

    Args:
        query_bias, key_bias, value_bias: (H, O).
        output_kernel: (H, O, E).
        output_bias: (E,).

    Returns:
        Four new arrays: the biases of query, key, value and output, in the same shapes as before. Those of key and
        value are zeros, and the layer's output is what it was. The kernels stay as they are.
    """
    ### BEGIN SOLUTION
    moved = np.einsum("HO,HOE->E", value_bias, output_kernel)
    return query_bias.copy(), np.zeros_like(key_bias), np.zeros_like(value_bias), output_bias + moved
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Take the four biases one by one. Which one can be replaced by zeros without anything else? Which one must be made up
# for elsewhere, and where? Which are left?

# %% [markdown] tags=["hint"]
# Follow the value's bias through the layer: Σ_s score · (v_s + b) = (Σ_s score · v_s) + b, since the scores sum to one.
# What comes next in the layer is the output's kernel, head by head.

# %% [markdown] tags=["hint"]
# b^V is (H, O), the output's kernel (H, O, E): H and O are summed over, E stays. The result is added to the output's
# bias. Make new arrays, and leave the arguments as they are.
