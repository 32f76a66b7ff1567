# %% [markdown]
# # In what order does the built-in layer take its arguments?
#
# **The question.** Papers and lectures say query, key, value. Code calls `mha(x, enc_output, enc_output)`, and nobody
# can tell which of the two is the key. Does it matter? Here you call the layer so that every array plays its own role.
#
# **The idea.** The arguments of `keras.layers.MultiHeadAttention` are `(query, value, key=None, query_mask=None,
# value_mask=None, key_mask=None, attention_mask=None, return_attention_scores=False, …)`. The *value comes before the
# key*, unlike in the paper, in `torch.nn.MultiheadAttention` and in the input list of the old TensorFlow Addons
# layer. If key and value are the same array, as in the decoder's second attention, their order does not matter. If
# they differ, the wrong order raises no error as long as the shapes fit. The layer then compares the queries with the
# values, and mixes the keys.
#
# The fourth argument is another trap: in Keras 2 it was `attention_mask`, but in Keras 3 it is the query's padding
# mask. A Transformer tutorial defined its own layer, called with `(v, k, q, mask)`. Code that switched from that
# layer to the built-in one broke silently.
#
# **The shapes.** The query is (B, T, I); key and value are (B, S, I). The mask is boolean, (B, T, S), and True where t
# may attend to s. The output is (B, T, E), and the scores are (B, H, T, S).
#
# **Worked example.** In `layer(a, b, c)`, `a` is the query, `b` is the *value* and `c` is the *key*. In `layer(a, b)`,
# `b` is both value and key.

# %%


def call_builtin(layer, query, key, value, mask):
    """Call a layer as you would call `keras.layers.MultiHeadAttention`.

    Args:
        layer: Layer with the arguments of the built-in layer of Keras 3, in the same order and with the same names.
            (The one here is simple: one head, no weights.)
        query: Query, (B, T, I).
        key: Key, with which the queries are compared, (B, S, I).
        value: Value, which is mixed, (B, S, I).
        mask: Boolean mask, (B, T, S), True where t may attend to s.

    Returns:
        The output and the scores, as the layer returns them when you ask for its scores.
    """
    ### BEGIN SOLUTION
    return layer(query, value, key=key, attention_mask=mask, return_attention_scores=True)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# You can pass any argument by its name. Then its position no longer matters.

# %% [markdown] tags=["hint"]
# Two arguments are better passed by name: the mask, which is the seventh argument and not the fourth, and the flag that
# asks for the scores.

# %% [markdown] tags=["hint"]
# You find the names in the text. Both the mask that says who may attend to whom and the flag have “attention” in their
# names. Set the flag to True. The layer then returns two things; return them as they are.
