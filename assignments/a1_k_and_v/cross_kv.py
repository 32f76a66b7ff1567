# %% [markdown]
# # K and V of the decoder's second attention
#
# **The question.** The course draws K and V as arrows that leave the encoder. The code passes `key=enc_output`. But
# the encoder returns one array, no K and no V. So which is it: is `enc_output` K?
#
# **The idea.** No: an argument's name says which *role* an array plays, not what becomes of it. The layer holds one
# kernel for each role, and the first thing it does is to multiply each input by its own: K is `enc_output` times the
# *decoder layer's* key kernel, V is `enc_output` times its value kernel. Both kernels are trained with the decoder
# layer, and every decoder layer has its own pair: six layers make six different K out of the same `enc_output`.
#
# **The shapes.** `enc_output` is (B, S, I): B sentences, S source positions, I features. A kernel is (H, I, O): for
# each of H heads a matrix from I features to O. K and V keep the positions and get a head axis: (B, S, H, O).
#
# **One line, worked.** One sentence, one position, I = 2: `enc_output = [[[1, 2]]]`. One head with O = 1 and the key
# kernel `[[[3], [10]]]` gives K = 1·3 + 2·10 = 23.

# %%
import numpy as np


def cross_kv(enc_output, key_kernel, value_kernel):
    """Keys and values as the decoder's second attention makes them.

    Args:
        enc_output: what the encoder returned, (B, S, I).
        key_kernel: of the decoder layer, (H, I, O).
        value_kernel: of the decoder layer, (H, I, O).

    Returns:
        K and V, each (B, S, H, O).
    """
    ### BEGIN SOLUTION
    key = np.einsum("BSI,HIO->BSHO", enc_output, key_kernel)
    value = np.einsum("BSI,HIO->BSHO", enc_output, value_kernel)
    return key, value
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# K has an axis for heads, and `enc_output` has none. So something must happen to `enc_output` before it is K: which
# array that you are given has a head axis?

# %% [markdown] tags=["hint"]
# For every head, every position's I features are multiplied by that head's (I, O) matrix. The I features are summed
# over; B, S, H and O stay. `np.einsum` takes exactly such a description.

# %% [markdown] tags=["hint"]
# Write the letters of the two inputs, then those of the result: I is in both inputs and not in the result. Do the same
# once more with the value kernel, and return both in a tuple.
