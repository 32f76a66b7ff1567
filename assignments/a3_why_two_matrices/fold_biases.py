# %% [markdown]
# # Which biases do you need?
#
# **The question.** Query, key, value and output have a bias each. Which of the four does the layer need? And what must
# you do to leave the others out? Some models leave one out for good.
#
# **The idea.** A bias can go if it has no effect, or if another bias can take over its effect. Two can go:
#
# - The key bias adds the same number to all logits of a row, and the softmax does not see that.
# - The value bias adds b_i^V to every value of head i. A row of scores sums to one. So whatever the scores are, the
#   mixed value has exactly b_i^V more. The output projection multiplies this by W_i^O and sums over the heads. The
#   result is a constant vector of E features, the same at every position, and the output bias can hold it.
#
# The query bias must stay as it is: what it adds differs from key to key. (With dropout on the scores, or in a row with
# nothing to attend to, the scores do not sum to one. Then the second point does not hold exactly.)
#
# **The shapes.** The biases of query, key and value are (H, O). The output kernel is (H, O, E), and the output bias is
# (E,).
#
# **Worked example.** Take H = 2 and O = E = 1. The value biases are 3 and 4, W^O is 10 for the first head and 100 for
# the second, and the output bias is 7. The new output bias is 7 + 3 · 10 + 4 · 100 = 437.

# %%
import numpy as np


def fold_biases(query_bias, key_bias, value_bias, output_kernel, output_bias):
    """Return biases with which the layer computes the same, with as few of them as possible.

    Args:
        query_bias, key_bias, value_bias: Biases of query, key and value, (H, O).
        output_kernel: Output kernel, (H, O, E).
        output_bias: Output bias, (E,).

    Returns:
        Four new arrays: the biases of query, key, value and output, with the same shapes as before. Those of key and
        value are zeros, and the output of the layer is unchanged. The kernels stay as they are.
    """
    ### BEGIN SOLUTION
    moved = np.einsum("HO,HOE->E", value_bias, output_kernel)
    return query_bias.copy(), np.zeros_like(key_bias), np.zeros_like(value_bias), output_bias + moved
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Take the four biases one by one. Which one can you simply replace by zeros? Which one can you replace by zeros if you
# make up for it elsewhere, and where? Which ones are left?

# %% [markdown] tags=["hint"]
# Follow the value bias through the layer: Σ_s score · (v_s + b) = (Σ_s score · v_s) + b, because the scores sum to one.
# What comes next in the layer is the output kernel, head by head.

# %% [markdown] tags=["hint"]
# b^V is (H, O) and the output kernel is (H, O, E). You sum over H and O, and E stays. Add the result to the output
# bias. Make new arrays, and leave the arguments as they are.
