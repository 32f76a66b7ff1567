# %% [markdown]
# # The merge of the heads
#
# **The question.** Every head has its own mixed values, O features. Are the heads concatenated, added up or averaged?
# And where is the paper's matrix W^O in a kernel with three axes?
#
# **The idea.** Concatenate the heads' O features and multiply by W^O, a matrix (H·O, E). This is the same as giving
# each head its own (O, E) piece of W^O and adding the H products. With the kernel as (H, O, E), no concatenation is
# needed: one sum runs over heads and features at once, `BTHO,HOE->BTE`. The bias is added once, not once per head.
#
# **The shapes.** In: (B, T, H, O). Kernel (H, O, E), bias (E,). Out: (B, T, E).
#
# **Worked example.** H = 2 heads with O = 1: [[2], [3]]. Kernel [[[10]], [[100]]], bias [1]: 2·10 + 3·100 + 1 =
# 321.

# %%
import keras
from keras import ops


class HeadMerge(keras.layers.Layer):
    """Merges the heads into features: BTHO,HOE->BTE, plus a bias.

    Args:
        output_dim: Number of output features (E).
        use_bias: Whether the layer has a bias.
        **kwargs: Arguments of `keras.layers.Layer`.

    Attributes:
        kernel: Trainable weight (H, O, E), made in `build`, initialized with "glorot_uniform".
        bias: Trainable weight (E,), made after the kernel, initialized with zeros; `None` without `use_bias`.

    Call arguments:
        inputs: The heads, (B, T, H, O).

    Returns:
        (B, T, E).
    """

    def __init__(self, output_dim, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.output_dim = output_dim
        self.use_bias = use_bias

    def build(self, input_shape):
        ### BEGIN SOLUTION
        heads, size = input_shape[-2:]
        self.kernel = self.add_weight(name="kernel", shape=(heads, size, self.output_dim), initializer="glorot_uniform")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.output_dim,), initializer="zeros")
        ### END SOLUTION

    def call(self, inputs):
        ### BEGIN SOLUTION
        outputs = ops.einsum("BTHO,HOE->BTE", inputs, self.kernel)
        return outputs if self.bias is None else outputs + self.bias
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# This is `HeadProjection` turned around: now the number of heads and their size are in the input's shape, its last
# two, and the new size is the one that `__init__` kept.

# %% [markdown] tags=["hint"]
# An einsum sums over letters that are in both inputs and not in its result, even several at once. Which two are these
# here?

# %% [markdown] tags=["hint"]
# H and O go, and E comes. The bias has E numbers and is added to the sum over the heads: once, after the einsum.
