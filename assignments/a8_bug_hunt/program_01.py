# %% [markdown]
# # Program 1: einsum from end to end
#
# **The question.** With one head, the program agrees with the library to the last digit. With two heads, the scores
# are a little too even; with eight, they are nearly flat. "I changed nothing but the number of heads."
#
# **The idea.** Change one size at a time, and watch which one brings the difference. What depends on the number of
# heads, and should not?
#
# **The shapes.** The query's input is (B, T, I), and the input of key and value is (B, S, I). The kernels of query,
# key and value are (H, I, O), and the output kernel is (H, O, E): B sentences, T and S positions, H heads, I and E
# features, O features per head.
#
# **Worked example.** The program gets this case right: one head, O = 4, a projected query (2, 0, 0, 0) and a
# projected key (3, 0, 0, 0). Their product is 6, and the logit that goes into the softmax is 3.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `heads-all-first`: Every head computes what the first head computes.
# - `kernels-key-for-value`: The value is projected with the key's kernel.
# - `logits-key-key`: The logits are key · key instead of query · key.
# - `merge-averaged`: The heads are averaged instead of concatenated.
# - `scale-all-heads`: The logits are divided by √(H·O), the width of all heads together, instead of √O.
# - `scale-keys`: The logits are divided by √S, the root of the number of keys, instead of √O.
# - `scale-missing`: The logits are not divided by √O.
# - `scale-without-root`: The logits are divided by O instead of √O: the root is missing, or the scale is applied
#   twice.
# - `softmax-base-two`: The softmax takes powers of 2 instead of e.
# - `softmax-over-heads`: The softmax runs over the heads instead of the keys.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "scale-all-heads"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_01(query, value, query_kernel, key_kernel, value_kernel, output_kernel):
    """Multi-head attention without biases and mask; key and value come from the same input.

    Args:
        query: (B, T, I).
        value: (B, S, I).
        query_kernel, key_kernel, value_kernel: (H, I, O).
        output_kernel: (H, O, E).

    Returns:
        The output, (B, T, E).
    """
    ### BEGIN SOLUTION
    size = query_kernel.shape[-1]
    ### STARTER
    # heads, _, size = query_kernel.shape
    ### END SOLUTION
    Q = np.einsum("BTI,HIO->BHTO", query, query_kernel)
    K = np.einsum("BSI,HIO->BHSO", value, key_kernel)
    V = np.einsum("BSI,HIO->BHSO", value, value_kernel)
    ### BEGIN SOLUTION
    logits = np.einsum("BHTO,BHSO->BHTS", Q, K) / np.sqrt(size)
    ### STARTER
    # logits = np.einsum("BHTO,BHSO->BHTS", Q, K) / np.sqrt(heads * size)
    ### END SOLUTION
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    return np.einsum("BHTS,BHSO,HOE->BTE", scores, V, output_kernel)


# %% [markdown] tags=["hint"]
# Compute the logits of a single head by hand, with a loop, and compare them with the program's. By which factor do
# they differ? Does the factor change with H, with O, with S?

# %% [markdown] tags=["hint"]
# The factor is √H for every number of heads. So one line depends on the number of heads and should not.

# %% [markdown] tags=["hint"]
# A logit is the sum of O products. How large it gets depends only on the number of products in that sum, and so does
# the number to divide by.
