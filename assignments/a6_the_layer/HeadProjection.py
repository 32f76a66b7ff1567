# %% [markdown]
# # The projection into heads, as a layer
#
# **The question.** TensorFlow Addons had a kernel (heads, in, head size) for each of query, key and value. How do you
# make such a layer in Keras, so that its weights are trained and saved, and any number of items and positions fits?
#
# **The idea.** A Keras layer has three parts. `__init__` keeps the sizes that the user gives. `build` runs once, when
# the shape of the input is known, and makes the weights with `self.add_weight`. That registers them, so that
# optimizers and files see them. `call` computes with `keras.ops` alone: NumPy would cut the gradient. It would also fail
# while Keras traces the layer, because B and T are not known then: they are `None` in `inputs.shape`.
#
# **The shapes.** The input is (B, T, I). The kernel is (H, I, O): a matrix from I features to O for each of H heads.
# The bias is (H, O). The result is (B, T, H, O). As an equation: `BTI,HIO->BTHO`, plus the bias.
#
# **Worked example.** One position with I = 2, x = [1, 2]; H = 2 heads with O = 1. The kernel [[[3], [10]], [[0],
# [1]]] gives 1·3 + 2·10 = 23 for head 0 and 1·0 + 2·1 = 2 for head 1. With the bias [[1], [5]] these are 24 and 7.

# %%
import keras
from keras import ops


class HeadProjection(keras.layers.Layer):
    """Projects features into heads: BTI,HIO->BTHO, plus a bias.

    Args:
        num_heads: Number of heads (H).
        key_dim: Head size (O).
        use_bias: Whether the layer has a bias.
        **kwargs: Arguments of `keras.layers.Layer`.

    Attributes:
        kernel: Trainable weight (H, I, O), made in `build`, initialized with "glorot_uniform".
        bias: Trainable weight (H, O), made after the kernel, initialized with zeros; `None` without `use_bias`.

    Call arguments:
        inputs: The features, (B, T, I).

    Returns:
        (B, T, H, O).
    """

    def __init__(self, num_heads, key_dim, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.use_bias = use_bias

    def build(self, input_shape):
        ### BEGIN SOLUTION
        heads, size = self.num_heads, self.key_dim
        self.kernel = self.add_weight(name="kernel", shape=(heads, input_shape[-1], size), initializer="glorot_uniform")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(heads, size), initializer="zeros")
        ### END SOLUTION

    def call(self, inputs):
        ### BEGIN SOLUTION
        outputs = ops.einsum("BTI,HIO->BTHO", inputs, self.kernel)
        return outputs if self.bias is None else outputs + self.bias
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# I is the last size of `input_shape`; `__init__` kept H and O. `self.add_weight` takes a name, a shape and an
# initializer, and returns the weight. Keep it in the attribute that the docstring names.

# %% [markdown] tags=["hint"]
# In `call`, sum over I and keep the other letters, in the order of the result. `ops.einsum` takes the equation. A
# bias (H, O) can be added directly to (B, T, H, O).

# %% [markdown] tags=["hint"]
# Do not pass `dtype` to `add_weight`, and use no batch size anywhere. If there is no bias, set `self.bias` to `None`
# in `build`, and test for that in `call`.
