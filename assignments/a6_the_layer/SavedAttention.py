# %% [markdown]
# # A layer that is saved, and that passes masks on
#
# **The question.** Your layer trains, and then `load_model` cannot make it again, or makes it with other sizes. And
# the embedding's padding mask does not reach it. What does Keras expect of a layer?
#
# **The idea.** *Saving.* A file holds weights and, for each layer, a dict: its config. Loading calls the constructor
# with that dict. So `get_config` returns what the constructor takes: the base class's part (`super().get_config()`:
# name, dtype, trainable) and your own arguments, each under its name. *Masks.* An `Embedding(mask_zero=True)` attaches a padding
# mask (B, S) to its output. If a layer's `call` has the arguments `query_mask`, `value_mask` and `key_mask`, it gets
# the masks attached to query, value and key. And only if `self.supports_masking` is true is the query's mask attached
# to the output, for the layers that follow. (Keras warns that `HeadProjection` is passed a mask and does not support
# it. That is harmless here, and the warning goes away if that layer sets `supports_masking` too.)
#
# **The shapes.** `value_mask` and `key_mask` are (B, S), True at words. As a mask of keys this is (B, 1, S), to be
# combined with `attention_mask`, which is (B, T, S) or (B, H, T, S). For the latter it must be (B, 1, 1, S).
#
# **Worked example.** The value ids [[4, 9, 0]] give the value mask [[True, True, False]]: no query attends to the
# third position, whatever `attention_mask` says. The query ids [[7, 0]] give the output the mask [[True, False]].

# %%
from HeadsAttention import HeadsAttention  # you wrote it in the previous exercise
from keras import ops


class SavedAttention(HeadsAttention):
    """`HeadsAttention` that can be saved and loaded, and that uses padding masks and passes them on.

    Args:
        num_heads, key_dim, dropout, use_bias, **kwargs: Arguments of `HeadsAttention`.

    Call arguments:
        query, value, key, attention_mask, return_attention_scores, training, use_causal_mask: As before.
        query_mask: Mask (B, T) that is attached to the query, or `None`; hides nothing here. Keras attaches it to the
            output.
        value_mask: Mask (B, S), True at words, or `None`; no query attends where it is False.
        key_mask: Mask (B, S), likewise; a position is visible only if neither hides it.
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
# `get_config` starts from the dict of the base class, and adds an entry for each of the four arguments. `__init__`
# lacks one attribute that Keras looks for in every layer.

# %% [markdown] tags=["hint"]
# In `call`, turn each of value mask and key mask that is not `None` into (B, 1, S), and combine it with the mask so
# far by `ops.logical_and`. If there is no mask so far, it becomes the mask. Beside a mask of four axes it needs two
# axes in the middle.

# %% [markdown] tags=["hint"]
# Then pass everything to the `call` of `HeadsAttention`, with the combined mask as `attention_mask`. Do not write its
# code again: `super()` has it. The query's mask needs only the attribute in `__init__`.
