# %% [markdown]
# # In which order the built-in layer takes its arguments
#
# **The question.** Papers and lectures say query, key, value. Code calls `mha(x, enc_output, enc_output)`, and nobody
# can tell which of the two is the key. Does it matter?
#
# **The idea.** `keras.layers.MultiHeadAttention` is called with `(query, value, key=None, query_mask=None,
# value_mask=None, key_mask=None, attention_mask=None, return_attention_scores=False, …)`: *value before key*, unlike
# the paper, unlike `torch.nn.MultiheadAttention`, and unlike the list of the old Addons layer. Where key and value are
# one array, as in the decoder's second attention, no order is wrong. Where they are not, the wrong order raises no
# error as long as the shapes fit: queries are then compared with the values, and the keys are mixed. What comes fourth
# has changed too: in Keras 2 it was `attention_mask`, in Keras 3 it is the padding mask of the query. A Transformer
# tutorial had a layer of its own, with `(v, k, q, mask)`, and code that was moved from one to the other broke without
# a word.
#
# **The shapes.** Query (B, T, I), key and value (B, S, I), mask (B, T, S), boolean, True where t may attend to s; the
# output (B, T, E), the scores (B, H, T, S).
#
# **One line, worked.** `layer(a, b, c)`: `a` is the query, `b` is the *value*, `c` is the *key*. And `layer(a, b)`:
# `b` is both.

# %%


def call_builtin(layer, query, key, value, mask):
    """Calls a layer as `keras.layers.MultiHeadAttention` is called.

    Args:
        layer: takes what the built-in layer of Keras 3 takes, in the same order, by the same names. (The one here
            is plain: one head, no weights.)
        query: (B, T, I).
        key: what the queries are compared with, (B, S, I).
        value: what is mixed, (B, S, I).
        mask: boolean (B, T, S), True where t may attend to s.

    Returns:
        What the layer returns when it is asked for its scores too: the output and the scores.
    """
    ### BEGIN SOLUTION
    return layer(query, value, key=key, attention_mask=mask, return_attention_scores=True)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Any argument can be given by its name, and then its place no longer matters.

# %% [markdown] tags=["hint"]
# Two arguments are better given by their names: the mask, which is the seventh and not the fourth, and the flag that
# asks for the scores.

# %% [markdown] tags=["hint"]
# The names are in the text: the mask of who may attend to whom has the name with "attention" in it, and so has the
# flag, which is to be True. With it the layer returns two things, and these are to be returned as they are.
