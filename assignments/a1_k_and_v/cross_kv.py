# %% [markdown]
# # K and V of the decoder's second attention
#
# **The question.** The course draws K and V as two arrows that leave the encoder. The code passes `key=enc_output`. But
# the encoder returns a single array, neither K nor V. So is `enc_output` K? Find out by making K and V yourself.
#
# **The idea.** No, `enc_output` is not K. The name of an argument tells you which *role* an array plays. It does not
# mean that the layer uses the array as it is. The layer holds one kernel for each role, and first of all it multiplies
# each input by the kernel of its role. K is `enc_output` times the *decoder layer's* key kernel, and V is `enc_output`
# times its value kernel. Both kernels are trained with the decoder layer. Every decoder layer has its own pair, so six
# layers make six different K from the same `enc_output`.
#
# **The shapes.** `enc_output` is (B, S, I): B sentences, S source positions, I features. A kernel is (H, I, O): for
# each of the H heads, a matrix from I features to O. K and V keep the positions and gain a head axis: (B, S, H, O).
#
# **Worked example.** Take one sentence with one position and I = 2: `enc_output = [[[1, 2]]]`. With one head, O = 1 and
# the key kernel `[[[3], [10]]]`, K is 1·3 + 2·10 = 23.

# %%
import numpy as np


def cross_kv(enc_output, key_kernel, value_kernel):
    """Return the keys and values of the decoder's second attention.

    Args:
        enc_output: Output of the encoder, (B, S, I).
        key_kernel: Key kernel of the decoder layer, (H, I, O).
        value_kernel: Value kernel of the decoder layer, (H, I, O).

    Returns:
        K and V, each (B, S, H, O).
    """
    ### BEGIN SOLUTION
    key = np.einsum("BSI,HIO->BSHO", enc_output, key_kernel)
    value = np.einsum("BSI,HIO->BSHO", enc_output, value_kernel)
    return key, value
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# K has a head axis, and `enc_output` has none. So something must happen to `enc_output` before it becomes K. Which of
# the arrays that you are given has a head axis?

# %% [markdown] tags=["hint"]
# Each head multiplies the I features of every position by its own (I, O) matrix. This sums over I. B, S, H and O stay.
# `np.einsum` takes exactly this kind of description.

# %% [markdown] tags=["hint"]
# Write the letters of the two inputs, then the letters of the result. I is in both inputs but not in the result. Do the
# same with the value kernel, and return both arrays as a tuple.
