# %% [markdown]
# # A layer that is saved, and that hands masks on
#
# **The question.** My layer trains, and then `load_model` cannot make it again, or makes it with other sizes. And the
# padding mask of the embedding does not arrive in it. What does Keras want of a layer?
#
# **The idea.** *Saving.* A file holds weights and, for each layer, a dict: its config. Loading calls the constructor
# with that dict. So `get_config` returns what the constructor takes: the base class's part (`super().get_config()`:
# name, dtype) and your own arguments, each by its name. *Masks.* An `Embedding(mask_zero=True)` hangs a padding mask
# (B, S) on its output. A layer whose `call` has arguments `query_mask`, `value_mask` and `key_mask` gets the masks
# that hang on query, value and key. And only if `self.supports_masking` is true does the query's mask hang on the
# output again, for the layers that follow. (Keras warns that `HeadProjection` is passed a mask and does not support
# it: harmless here, and gone if that layer sets `supports_masking` too.)
#
# **The shapes.** `value_mask` and `key_mask` are (B, S), True at words. As a mask of keys that is (B, 1, S), which
# `attention_mask`, (B, T, S) or (B, H, T, S), is combined with; for the latter it must be (B, 1, 1, S).
#
# **One line, worked.** Value ids [[4, 9, 0]] give the value mask [[True, True, False]]: no query attends to the third
# position, whatever `attention_mask` says. Query ids [[7, 0]] give the output the mask [[True, False]].

# %%
from HeadsAttention import HeadsAttention  # yours, of the exercise before
from keras import ops


class SavedAttention(HeadsAttention):
    """`HeadsAttention` that can be saved and loaded, and that takes padding masks and hands them on.

    Args:
        num_heads, key_dim, dropout, use_bias, **kwargs: those of `HeadsAttention`.

    Call arguments:
        query, value, key, attention_mask, return_attention_scores, training, use_causal_mask: as before.
        query_mask: (B, T), or `None`; hides nothing here, and hangs on the output.
        value_mask: (B, S), True at words, or `None`: where it is False no query attends.
        key_mask: (B, S), likewise: a position is attended only if neither hides it.
    """

    def __init__(self, num_heads, key_dim, dropout=0.0, use_bias=True, **kwargs):
        super().__init__(num_heads, key_dim, dropout=dropout, use_bias=use_bias, **kwargs)
        ### BEGIN SOLUTION
        self.supports_masking = True
        ### END SOLUTION

    def get_config(self):
        ### BEGIN SOLUTION
        config = super().get_config()
        config["num_heads"] = self.num_heads
        config["key_dim"] = self.key_dim
        config["dropout"] = self.dropout
        config["use_bias"] = self.use_bias
        return config
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
        query_mask=None,
        value_mask=None,
        key_mask=None,
    ):
        ### BEGIN SOLUTION
        mask = None if attention_mask is None else ops.cast(attention_mask, "bool")
        for padding in (value_mask, key_mask):
            if padding is not None:
                axes = 1 if mask is None or len(mask.shape) == 3 else (1, 2)
                padding = ops.expand_dims(ops.cast(padding, "bool"), axes)
                mask = padding if mask is None else ops.logical_and(mask, padding)
        return super().call(
            query,
            value,
            key,
            attention_mask=mask,
            return_attention_scores=return_attention_scores,
            training=training,
            use_causal_mask=use_causal_mask,
        )
        ### END SOLUTION


# %% [markdown] tags=["hint"]
# `get_config` starts from the dict of the base class, and adds an entry for each of the four arguments. In `__init__` one
# attribute is missing that Keras asks every layer for.

# %% [markdown] tags=["hint"]
# In `call`: of value mask and key mask, each that is not `None` becomes (B, 1, S) and is combined with the mask so
# far, by `ops.logical_and`. If there is no mask so far, it is the mask. With a mask of four axes it needs two axes in
# the middle.

# %% [markdown] tags=["hint"]
# Then hand everything to the `call` of `HeadsAttention`, with the combined mask as `attention_mask`. Its code is not
# written again: `super()` has it. The query's mask needs nothing but the attribute in `__init__`.
