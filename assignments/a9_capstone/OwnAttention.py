# %% [markdown]
# # Your own layer, whole
#
# **The question.** A small model has been trained with Keras' own attention layers. You want to take them out and put
# your own layer in. What does your layer need so that the model cannot tell the difference?
#
# **The idea.** It needs what the model uses, and no more: a constructor with the number of heads and the head size, a
# call with the built-in's arguments in the built-in's order (query, *value*, key, `attention_mask`, and further back
# `use_causal_mask`), eight weights, and the same numbers. You have written all of this before, in pieces. Here you
# write it once, in one class, with kernels that have the heads first. Nothing is handed out but the names.
#
# **The shapes.** The query is (B, T, I); value and key are (B, S, J). Query, key and value kernels are (H, I, O), (H, J,
# O) and (H, J, O), each with a bias (H, O). The output kernel is (H, O, I), with a bias (I,): the output is as wide as
# the query. Kernels begin with random numbers, as `add_weight` makes them if you ask for nothing else. Biases may begin
# with zeros. The mask is boolean, True where a query may attend, and broadcasts to (B, T, S).
#
# **Worked example.** Take one head, I = J = O = 1, one query 2, two values 1 and 3, no key, and all kernels 1 but the
# query's, which is 0. All biases are 0 but the output's, which is 10. The logits are 0 and 0, so each value gets a half:
# the mix is 2 and the output 12. With the mask [[[True, False]]] the second value is hidden. The output is 11.

# %%
import keras
from keras import ops


class OwnAttention(keras.layers.Layer):
    """Multi-head attention that can stand in for the built-in layer in a trained model.

    Args:
        num_heads: Number of heads (H).
        key_dim: Head size (O) of query, key and value.
        **kwargs: Arguments of `keras.layers.Layer`.

    Attributes:
        query_kernel, key_kernel, value_kernel: Weights (H, I, O), (H, J, O) and (H, J, O), made in `build`.
        query_bias, key_bias, value_bias: Weights (H, O).
        output_kernel: Weight (H, O, I).
        output_bias: Weight (I,).

    Call arguments:
        query: Query (B, T, I).
        value: Value (B, S, J).
        key: Key (B, S, J); `None` means the value.
        attention_mask: Boolean, True where a query may attend, with three axes that broadcast to (B, T, S). Every query
            may attend to something.
        use_causal_mask: Whether t attends only to s ≤ t, in addition to the mask.

    Returns:
        The output (B, T, I), right even if logits lie below -100,000.
    """

    def __init__(self, num_heads, key_dim, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim

    def build(self, query_shape, value_shape, key_shape=None):
        ### BEGIN SOLUTION
        heads, size, width = self.num_heads, self.key_dim, query_shape[-1]
        key_shape = value_shape if key_shape is None else key_shape
        for role, shape in (("query", query_shape), ("key", key_shape), ("value", value_shape)):
            setattr(self, f"{role}_kernel", self.add_weight(shape=(heads, shape[-1], size), name=f"{role}_kernel"))
            setattr(
                self, f"{role}_bias", self.add_weight(shape=(heads, size), initializer="zeros", name=f"{role}_bias")
            )
        self.output_kernel = self.add_weight(shape=(heads, size, width), name="output_kernel")
        self.output_bias = self.add_weight(shape=(width,), initializer="zeros", name="output_bias")
        ### END SOLUTION

    def call(self, query, value, key=None, attention_mask=None, use_causal_mask=False):
        ### BEGIN SOLUTION
        key = value if key is None else key
        query = ops.einsum("BTI,HIO->BTHO", query, self.query_kernel) + self.query_bias
        key = ops.einsum("BSI,HIO->BSHO", key, self.key_kernel) + self.key_bias
        value = ops.einsum("BSI,HIO->BSHO", value, self.value_kernel) + self.value_bias
        logits = ops.einsum("BTHO,BSHO->BHTS", query / self.key_dim**0.5, key)
        if attention_mask is not None:
            mask = ops.expand_dims(ops.cast(attention_mask, "bool"), 1)  # (B, 1, T, S)
            logits = ops.where(mask, logits, -1e30)
        if use_causal_mask:
            rows, columns = ops.arange(ops.shape(query)[1]), ops.arange(ops.shape(key)[1])
            causal = ops.expand_dims(columns, 0) <= ops.expand_dims(rows, 1)  # (T, S)
            logits = ops.where(causal, logits, -1e30)
        scores = ops.softmax(logits, axis=-1)
        mixed = ops.einsum("BHTS,BSHO->BTHO", scores, value)
        return ops.einsum("BTHO,HOE->BTE", mixed, self.output_kernel) + self.output_bias
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# `build` makes eight weights with `self.add_weight(shape=…, name=…)`. Only the sizes of the last axes of the three
# shapes matter. The last kernel brings all heads back to the query's width.

# %% [markdown] tags=["hint"]
# `call` is six products: three projections, the logits, the mix, and the output. Between the logits and the mix stand
# the scale, the masks and the softmax. Hide a position by a large negative logit.

# %% [markdown] tags=["hint"]
# Divide the query before the product: in half precision, large logits are infinite before they are divided.
#
# The mask (B, T, S) has no head axis, and the logits (B, H, T, S) have it second: `ops.expand_dims(mask, 1)`. The causal
# mask compares the key positions, as a row, with the query positions, as a column. Get their numbers from `ops.shape`,
# because sizes may be unknown.
