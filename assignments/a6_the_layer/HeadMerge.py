# %% [markdown]
# # The merge of the heads
#
# **The question.** Every head has mixed values of its own, O features. Are the heads concatenated, added up or
# averaged? And where is the matrix W^O of the paper in a kernel with three axes?
#
# **The idea.** Concatenate the heads' O features and multiply by W^O, a matrix (H·O, E): that is the same as giving
# each head its own (O, E) piece of W^O and adding the H products. With the kernel as (H, O, E) no concatenation is
# needed: one sum goes over heads and features at once, `BTHO,HOE->BTE`. The bias is added once, not once a head.
#
# **The shapes.** In: (B, T, H, O). Kernel (H, O, E), bias (E,). Out: (B, T, E).
#
# **One line, worked.** H = 2 heads with O = 1: [[2], [3]]. Kernel [[[10]], [[100]]], bias [1]: 2·10 + 3·100 + 1 =
# 321.

# %%
import keras
from keras import ops


class HeadMerge(keras.layers.Layer):
    """Heads into features: BTHO,HOE->BTE, and a bias.

    Args:
        output_dim: E.
        use_bias: whether there is a bias.
        **kwargs: those of `keras.layers.Layer`.

    Attributes:
        kernel: a trainable weight (H, O, E), made in `build`; starts from "glorot_uniform".
        bias: a trainable weight (E,), made after the kernel, that starts from zeros; `None` without `use_bias`.

    Call arguments:
        inputs: (B, T, H, O).

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
# It is `HeadProjection` turned round: now the sizes of heads and features are in the input's shape, its last two, and
# the new size is the one that `__init__` kept.

# %% [markdown] tags=["hint"]
# Letters that are in both inputs of an einsum and not in its result are summed over, several at once too. Which two
# are these here?

# %% [markdown] tags=["hint"]
# H and O go, E comes. The bias has E numbers and is added to the sum over the heads: after the einsum, once.
