# %% [markdown]
# # The scores: scaled, masked, and safe in half precision
#
# **The question.** A softmax that is right on paper gives NaN in two places: where a whole row is masked, and in
# float16, where products grow beyond 65,504. How does a layer get through both?
#
# **The idea.** The scores are softmax(query · key / √O) over the keys. In float16 the product itself may overflow, so
# query and key are turned into float32 *before* it; the scores, which are between 0 and 1, may be float16 again. What
# the mask hides gets exactly 0. A row in which everything is hidden is all zeros: it has nothing to attend to. The
# softmax does not give that by itself: with -∞ for hidden logits such a row is 0/0, NaN, and with a very negative
# number it is uniform. So what is hidden is set to 0 once more, after the softmax.
#
# **The shapes.** Query (B, T, H, O) and key (B, S, H, O), as they come out of the projections; logits and scores are
# (B, H, T, S): `BTHO,BSHO->BHTS`. A mask of three axes broadcasts to (B, T, S) and needs an axis for the heads, (B,
# 1, T, S). One of four axes broadcasts to (B, H, T, S) as it is.
#
# **One line, worked.** O = 4, one head; query [2, 0, 0, 0], keys [1, 0, 0, 0] and [0, 1, 0, 0]: logits 2 and 0, over
# √4 they are 1 and 0, scores 0.731 and 0.269. With the second key hidden: 1 and 0. With both hidden: 0 and 0.

# %%
import keras
from keras import ops


def attention_scores(query, key, mask=None):
    """softmax(query · key / √O) over the keys, in float32 at least; 0 where the mask is False.

    Args:
        query: (B, T, H, O), a tensor of float16, bfloat16, float32 or float64.
        key: (B, S, H, O), of the same dtype.
        mask: boolean, True where a query may attend; three axes broadcast to (B, T, S), four to (B, H, T, S). `None`
            hides nothing.

    Returns:
        (B, H, T, S), of the query's dtype. A row with nothing to attend to is zeros, with a finite gradient.
    """
    ### BEGIN SOLUTION
    wide = keras.backend.result_type(query.dtype, "float32")  # float32, or float64 if the query is
    logits = ops.einsum("BTHO,BSHO->BHTS", ops.cast(query, wide), ops.cast(key, wide))
    logits = logits / query.shape[-1] ** 0.5
    if mask is None:
        return ops.cast(ops.softmax(logits, axis=-1), query.dtype)
    mask = ops.cast(mask, "bool")
    if len(mask.shape) == 3:
        mask = ops.expand_dims(mask, 1)
    scores = ops.softmax(ops.where(mask, logits, -1e30), axis=-1)
    scores = ops.where(mask, scores, 0.0)
    return ops.cast(scores, query.dtype)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# In this order: widen, multiply, divide by the root of O, hide, softmax over the last axis, zeros where hidden, back
# to the query's dtype. `keras.backend.result_type(dtype, "float32")` says what to widen to, so that float64 stays.

# %% [markdown] tags=["hint"]
# `ops.where(mask, logits, …)` with a number such as -1e30, which float32 can hold: after the softmax it is exactly 0 if
# anything in its row is not hidden. Where all is hidden the row is uniform, until a second `ops.where` sets it to 0.

# %% [markdown] tags=["hint"]
# The number of axes of the mask is `len(mask.shape)`; with three, `ops.expand_dims(mask, 1)` puts the heads in. O is
# `query.shape[-1]`, a plain number: its root is `** 0.5`, while `ops.sqrt` would make a float32 tensor of it. Cast
# both query and key before the einsum, and the scores at the end.
