# %% [markdown]
# # The whole layer in six equations
#
# **The question.** Where in the layer do Q, K and V come into being? Only the code will tell you. So follow the
# multi-head attention layer of TensorFlow Addons (now retired) from its list of inputs to its output, write down what
# it computes, and find Q, K and V on the way.
#
# **The idea.** There are six steps. Three projections come first: query, key and value are each multiplied by a
# kernel of their own, and only the results are Q, K and V. The fourth step compares every query position with every
# source position: a dot product over the head size O, divided by √O. A softmax over the *source* positions turns
# these logits into weights, which sum to one for each head and query position. In the fifth step the weights mix the
# values. The sixth step applies the output kernel, which has a part for every head. It turns the results of all heads
# into E features and sums over the heads. You need no concatenation: a sum over heads and head size *is* the product
# of the concatenated heads with one matrix.
#
# You call the layer with a list, `[query, key, value]` or `[query, key]`. In the second case the key is also the
# value. For the decoder's second attention, `[target, enc_output]` is enough.
#
# **The shapes.** The query is (B, T, I); key and value are (B, S, I). The three kernels are (H, I, O). The logits are
# (B, H, T, S), the mixed values (B, T, H, O), the output kernel (H, O, E) and the output (B, T, E). There are no
# biases, no mask and no dropout here. The logits may reach several thousand.
#
# **Worked example.** Take one head with O = 4, and one query whose dot products with two keys are 0 and 2·ln 3 ≈ 2.197.
# Divided by √4 = 2 they are 0 and ln 3. Their exponentials are 1 and 3, so the weights are 0.25 and 0.75.

# %%
import numpy as np


def addons_forward(inputs, query_kernel, key_kernel, value_kernel, output_kernel):
    """Return the multi-head attention of the Addons layer, without biases, mask or dropout.

    Args:
        inputs: List [query, key, value] or [query, key], with shapes (B, T, I), (B, S, I) and (B, S, I). Without a
            value, the key is the value.
        query_kernel: Query kernel, (H, I, O).
        key_kernel: Key kernel, (H, I, O).
        value_kernel: Value kernel, (H, I, O).
        output_kernel: Output kernel, (H, O, E).

    Returns:
        The output, (B, T, E).
    """
    ### BEGIN SOLUTION
    query, key = inputs[0], inputs[1]
    value = inputs[2] if len(inputs) == 3 else key
    query = np.einsum("BTI,HIO->BTHO", query, query_kernel)
    key = np.einsum("BSI,HIO->BSHO", key, key_kernel)
    value = np.einsum("BSI,HIO->BSHO", value, value_kernel)
    logits = np.einsum("BTHO,BSHO->BHTS", query, key) / np.sqrt(query.shape[-1])
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    mixed = np.einsum("BHTS,BSHO->BTHO", scores, value)
    return np.einsum("BTHO,HOE->BTE", mixed, output_kernel)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# First take the list apart: it holds two or three arrays. Then come three projections, all alike, each with its own
# kernel. Keep the head axis until the last step.

# %% [markdown] tags=["hint"]
# The logits have four axes: batch, head, query position, source position. O is summed over. The softmax goes over the
# last axis. Subtract the largest logit of each row before `np.exp`. The mix then sums over the source positions.

# %% [markdown] tags=["hint"]
# With letters: the logits go from BTHO and BSHO to BHTS. Multiply them by 1/√O, where O is the last axis of the
# projected query. Take the exponentials and divide them by their sum over S, with `keepdims=True`. The mix goes back to
# BTHO. The last step uses the output kernel and sums over both H and O.
