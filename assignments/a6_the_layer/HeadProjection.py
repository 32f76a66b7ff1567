# %% [markdown]
# # The projection into heads, as a layer
#
# **The question.** TensorFlow Addons had a kernel (heads, in, head size) for each of query, key and value. How is
# such a thing made in Keras, so that its weights are trained and saved, and any batch fits?
#
# **The idea.** A Keras layer has three parts. `__init__` keeps the sizes that the user names. `build` runs once, when
# the shape of the input is known, and makes the weights with `self.add_weight`: that is what registers them, so that
# optimizers and files see them. `call` computes, with `keras.ops` alone: NumPy would cut the gradient, and would not
# run where the batch's size is not known yet.
#
# **The shapes.** The input is (B, T, I). The kernel is (H, I, O): a matrix from I features to O for each of H heads.
# The bias is (H, O). The result is (B, T, H, O). As equation: `BTI,HIO->BTHO`, plus the bias.
#
# **One line, worked.** One position with I = 2, x = [1, 2]; H = 2 heads with O = 1. The kernel [[[3], [10]], [[0],
# [1]]] gives 1·3 + 2·10 = 23 for head 0 and 1·0 + 2·1 = 2 for head 1; with the bias [[1], [5]] these are 24 and 7.

# %%
import keras
from keras import ops


class HeadProjection(keras.layers.Layer):
    """Projects features into heads: BTI,HIO->BTHO, and a bias.

    Args:
        num_heads: H.
        key_dim: O, the size of a head.
        use_bias: whether there is a bias.
        **kwargs: those of `keras.layers.Layer`.

    Attributes:
        kernel: a trainable weight (H, I, O), made in `build`; starts from "glorot_uniform".
        bias: a trainable weight (H, O), made after the kernel, that starts from zeros; `None` without `use_bias`.

    Call arguments:
        inputs: (B, T, I).

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
# I is the last size of `input_shape`; H and O are what `__init__` kept. `self.add_weight` takes a name, a shape and
# an initializer, and returns the weight: keep it in the attribute that the docstring names.

# %% [markdown] tags=["hint"]
# In `call`: I is summed over, the other letters stay, in the order of the result. `ops.einsum` takes the equation. A
# bias (H, O) is added to (B, T, H, O) as it is.

# %% [markdown] tags=["hint"]
# Do not pass `dtype` to `add_weight`, and no size of the batch anywhere. Set `self.bias` to `None` in `build` if
# there is to be none, and ask for that in `call`.
