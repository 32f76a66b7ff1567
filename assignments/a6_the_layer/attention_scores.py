# %% [markdown]
# # The scores: scaled, masked, and safe in half precision
#
# **The question.** A softmax that is right on paper gives NaN in two places: where a whole row is masked, and in
# float16, where products grow beyond 65,504. How does a layer handle both?
#
# **The idea.** The scores are softmax(query · key / √O) over the keys. In float16 the product itself may overflow, so
# convert query and key to float32 *before* it. If they are float64, leave them so: float32 would lose half of their
# digits. The scores lie between 0 and 1, so they may be float16 again. Hidden keys get exactly 0. A row in which
# everything is hidden is all zeros, because it has nothing to attend to. The softmax does not do that by itself: with
# -∞ for hidden logits such a row is 0/0, NaN, and with a very negative number it is uniform. So set the hidden scores
# to 0 once more after the softmax. As before, compute with `keras.ops` alone: while a model is made, query, key and
# mask hold no numbers yet.
#
# **The shapes.** Query (B, T, H, O) and key (B, S, H, O) are the outputs of the projections. Logits and scores are
# (B, H, T, S): `BTHO,BSHO->BHTS`. A mask of three axes broadcasts to (B, T, S) and needs an axis for the heads, (B,
# 1, T, S). A mask of four axes broadcasts to (B, H, T, S) as it is.
#
# **Worked example.** O = 4, one head, query [2, 0, 0, 0], keys [1, 0, 0, 0] and [0, 1, 0, 0]: the logits are 2 and
# 0, divided by √4 they are 1 and 0, and the scores are 0.731 and 0.269. With the second key hidden they are 1 and 0.
# With both hidden they are 0 and 0.

# %%
import keras
from keras import ops


def attention_scores(query, key, mask=None):
    """Return softmax(query · key / √O) over the keys; 0 where the mask is False.

    It computes in float64 if the query is float64, and in float32 otherwise.

    Args:
        query: Query (B, T, H, O), a tensor of float16, bfloat16, float32 or float64.
        key: Key (B, S, H, O), of the same dtype.
        mask: Boolean, True where a query may attend; three axes broadcast to (B, T, S), four to (B, H, T, S). `None`
            hides nothing.

    Returns:
        The scores (B, H, T, S), of the query's dtype. A row with nothing to attend to is zeros, with a finite gradient.
    """
    ### BEGIN SOLUTION
    wide = keras.backend.result_type(query.dtype, "float32")  # float32, or float64 if the query has it
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
# Work in this order: widen, multiply, divide by the root of O, hide, softmax over the last axis, zeros where hidden,
# back to the query's dtype. `keras.backend.result_type(dtype, "float32")` tells you the dtype to widen to, so that
# float64 stays.

# %% [markdown] tags=["hint"]
# Use `ops.where(mask, logits, …)` with a number such as -1e30, which float32 can hold. After the softmax it is
# exactly 0 if anything in its row is visible. If everything is hidden, the row is uniform until a second `ops.where`
# sets it to 0.

# %% [markdown] tags=["hint"]
# `len(mask.shape)` is the mask's number of axes. With three, `ops.expand_dims(mask, 1)` adds the heads. O is
# `query.shape[-1]`, a plain number, so take its root with `** 0.5`; `ops.sqrt` would make a float32 tensor of it.
# Cast both query and key before the einsum, and the scores at the end.
