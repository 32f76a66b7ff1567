# %% [markdown]
# # The whole layer in six equations
#
# **The question.** Where in the layer Q, K and V come into being is told by nothing but its code. What does the old
# Addons layer compute, from its list of inputs to its output, and where in it are the three?
#
# **The idea.** Six steps. Query, key and value are each multiplied by a kernel of their own; only what comes out is Q,
# K and V. Every query position is compared with every source position by a dot product over the head size O, divided
# by √O. A softmax over the *source* positions makes weights of these logits: for each head and query position they sum
# to one. The weights mix the values. An output kernel, which has a part for every head, turns what all heads found
# into E features, and the heads are summed over. No concatenation is written anywhere: a sum over heads and head size
# *is* the product of the concatenated heads with one matrix.
#
# The layer is called with a list: `[query, key, value]`, or `[query, key]`, and then the key is the value too. For the
# decoder's second attention, `[target, enc_output]` is enough.
#
# **The shapes.** Query (B, T, I); key and value (B, S, I); three kernels (H, I, O); logits (B, H, T, S); what the
# weights have mixed (B, T, H, O); output kernel (H, O, E); output (B, T, E). There are no biases, no mask and no
# dropout here. Logits may be as large as some thousands.
#
# **One line, worked.** One head, O = 4, one query whose dot products with two keys are 0 and 2·ln 3 ≈ 2.197. Divided
# by √4 = 2 they are 0 and ln 3, the exponentials 1 and 3, so the weights are 0.25 and 0.75.

# %%
import numpy as np


def addons_forward(inputs, query_kernel, key_kernel, value_kernel, output_kernel):
    """Multi-head attention as the Addons layer computes it, without biases, mask and dropout.

    Args:
        inputs: a list, [query, key, value] or [query, key]: (B, T, I), (B, S, I) and (B, S, I). Without value, the key
            is the value.
        query_kernel: (H, I, O).
        key_kernel: (H, I, O).
        value_kernel: (H, I, O).
        output_kernel: (H, O, E).

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
# Take the list apart first: two or three arrays. Then three projections, one like the other, each with its own kernel.
# Keep the head axis through everything that follows until the last step.

# %% [markdown] tags=["hint"]
# The logits have four axes, batch, head, query position, source position: O is summed over. The softmax is over the
# last of them; take off the row's largest logit before `np.exp`. Then the source positions are summed over in the mix.

# %% [markdown] tags=["hint"]
# With letters: logits from BTHO and BSHO to BHTS, times 1/√O with O from the projected query's last axis;
# exponentials, divided by their sum over S with `keepdims=True`; the mix back to BTHO; at last both H and O are summed
# over with the output kernel.
