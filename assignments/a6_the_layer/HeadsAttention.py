# %% [markdown]
# # The whole layer
#
# **The question.** `keras.layers.MultiHeadAttention` is a black box whose call has ten arguments. What does it do
# with them, and can your own layer give the same numbers?
#
# **The idea.** You have its parts: three projections, the scores, and the merge. Between the scores and the merge,
# dropout acts on the scores (in training only), and the scores mix the values: `BHTS,BSHO->BTHO`. The rest is about
# arguments. The call's order is query, *value*, key, and without a key the value is also the key. With
# `use_causal_mask`, position t attends only to s ≤ t, *and* only to what `attention_mask` allows. The returned scores
# are those before dropout.
#
# **The shapes.** The query is (B, T, I), and value and key are (B, S, J). The output is (B, T, I), as wide as the
# query.
#
# **Worked example.** Take T = S = 3, a causal mask, and a padding mask that hides position 0. Query 0 has nothing to
# attend to, query 1 to position 1, and query 2 to positions 1 and 2. The mix is zeros for query 0, so its output is
# the merge's bias. (The built-in layer does this only if it returns scores or has dropout. Otherwise it averages all
# values there.)
#
# When you are done, try your layer in the folder of `HeadsAttention.py`: `kmha diagnose
# HeadsAttention:HeadsAttention` tells you whether it is right and, if not, what is wrong. `kmha compare --layer
# HeadsAttention:HeadsAttention` goes through every argument of the built-in layer. Yours has only some of them, so most
# of its cases differ, even if it is right. In a notebook, use `from kmha.verify import compare, diagnose`, then
# `diagnose(HeadsAttention)` and `compare(HeadsAttention)`.

# %%
import keras
from attention_scores import attention_scores  # you wrote these three in the previous exercises
from HeadMerge import HeadMerge
from HeadProjection import HeadProjection
from keras import ops


class HeadsAttention(keras.layers.Layer):
    """Multi-head attention: the same numbers as Keras' own layer, with kernels (heads, in, head size).

    Args:
        num_heads: Number of heads (H).
        key_dim: Head size (O) of query, key and value.
        dropout: Dropout rate of the scores. In training, every call drops others.
        use_bias: Whether the four projections have a bias.
        **kwargs: Arguments of `keras.layers.Layer`.

    Attributes:
        query_dense, key_dense, value_dense: A `HeadProjection` each, made and built in `build` with the layer's own
            dtype: `dtype=self.dtype_policy`.
        output_dense: A `HeadMerge`, likewise.

    Call arguments:
        query: Query (B, T, I).
        value: Value (B, S, J).
        key: Key (B, S, J); `None` means the value.
        attention_mask: Boolean, True where a query may attend; three axes broadcast to (B, T, S), four to (B, H, T, S).
        return_attention_scores: Whether to return the scores too.
        training: Whether dropout is active; `None` lets Keras decide.
        use_causal_mask: Whether t attends only to s ≤ t, in addition to the mask.

    Returns:
        The output (B, T, I). With `return_attention_scores`, also the scores before dropout, (B, H, T, S).
    """

    def __init__(self, num_heads, key_dim, dropout=0.0, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.dropout = dropout
        self.use_bias = use_bias

    def build(self, query_shape, value_shape, key_shape=None):
        ### BEGIN SOLUTION
        key_shape = value_shape if key_shape is None else key_shape
        options = {"use_bias": self.use_bias, "dtype": self.dtype_policy}
        self.query_dense = HeadProjection(self.num_heads, self.key_dim, **options, name="query")
        self.key_dense = HeadProjection(self.num_heads, self.key_dim, **options, name="key")
        self.value_dense = HeadProjection(self.num_heads, self.key_dim, **options, name="value")
        self.output_dense = HeadMerge(query_shape[-1], **options, name="output")
        self.dropout_layer = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
        self.query_dense.build(query_shape)
        self.key_dense.build(key_shape)
        self.value_dense.build(value_shape)
        self.output_dense.build((None, None, self.num_heads, self.key_dim))
        ### END SOLUTION

    def call(
        self,
        query,
        value,
        key=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        ### BEGIN SOLUTION
        key = value if key is None else key
        mask = None if attention_mask is None else ops.cast(attention_mask, "bool")
        if use_causal_mask:
            rows, columns = ops.arange(ops.shape(query)[1]), ops.arange(ops.shape(key)[1])
            causal = ops.expand_dims(columns, (0, 1)) <= ops.expand_dims(rows, (0, 2))  # (1, T, S)
            mask = causal if mask is None else ops.logical_and(mask, causal)
        query, key, value = self.query_dense(query), self.key_dense(key), self.value_dense(value)
        scores = attention_scores(query, key, mask)
        mixed = ops.einsum("BHTS,BSHO->BTHO", self.dropout_layer(scores, training=training), value)
        output = self.output_dense(mixed)
        return (output, scores) if return_attention_scores else output
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# In `build`, make one `HeadProjection` for each of query, key and value, a `HeadMerge` whose `output_dim` is the
# query's width, and a `keras.layers.Dropout`. Build each with the shape of its input. Pass `dtype=self.dtype_policy`
# to each, so that they all compute in your layer's dtype.

# %% [markdown] tags=["hint"]
# In `call`: fill in the key, and combine the two masks into one with `ops.logical_and`. Make the causal mask from two
# `ops.arange`, and get their lengths from `ops.shape`, because sizes may be unknown. Then project, compute the
# scores, apply dropout, mix, and merge. Keep the scores before dropout to return them.

# %% [markdown] tags=["hint"]
# The causal mask compares the key positions, (1, 1, S), with the query positions, (1, T, 1), which gives (1, T, S).
# That broadcasts against masks with three or four axes. Pass `training` to the dropout layer.
