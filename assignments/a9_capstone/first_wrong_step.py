# %% [markdown]
# # Which step is the first to go wrong?
#
# **The question.** Somebody put another attention layer into the trained model. The numbers are different now, often so
# little that the words are still right. Where is the mistake?
#
# **The idea.** Attention is seven steps, each made from those before. After a wrong step all later ones are wrong too,
# so the *first* step that differs is the one with the mistake. Compute the seven arrays yourself, from the trained
# weights, and compare each with that of the suspect. Four things can spoil the comparison:
#
# - *Rounding.* Two correct programs differ in the seventh digit. Allow for that, but for no more: compare with the
#   largest number of the array, not with 1.
# - *Shapes.* NumPy broadcasts. An array (B, 1, T, S) that should be (B, H, T, S) can be subtracted without an error.
# - *NaN.* Every comparison with NaN is False. So is "the difference is larger than the tolerance".
# - *Averages.* Exchanged heads, or a softmax over the wrong axis, keep the mean of all scores. Compare elements.
#
# And do not look at the output alone. A key with another bias is wrong, and yet the output is right: the softmax takes
# away what is the same for all keys.
#
# **The shapes.** The kernels are (H, I, O) and (H, O, E), the biases (H, O) and (E,). The steps, in order: "query" (B, T,
# H, O), "key" and "value" (B, S, H, O), "logits" (B, H, T, S), "scores" (B, H, T, S), "mixed" (B, T, H, O) and "output"
# (B, T, E). The logits are scaled, and not yet masked. They may reach several thousand. The scores of hidden positions
# are 0.
#
# **Worked example.** A suspect divides by O instead of √O. Its query, key and value are right. Its logits differ, and so
# do its scores, its mix and its output. The answer is "logits". If the suspect is right everywhere, the answer is "".

# %%
import numpy as np


def first_wrong_step(weights, query, value, mask, steps):
    """Return the name of the first step that is wrong.

    Args:
        weights: A dict of arrays: "query_kernel", "key_kernel" and "value_kernel", (H, I, O); "query_bias", "key_bias"
            and "value_bias", (H, O); "output_kernel", (H, O, E), and "output_bias", (E,).
        query: Query, (B, T, I).
        value: Value, (B, S, I), which is also the key.
        mask: Boolean, True where a query may attend, (B, 1, S). Every query may attend to something.
        steps: The suspect's arrays in float32: a dict with the keys "query", "key", "value", "logits", "scores", "mixed"
            and "output".

    Returns:
        The first of these names, in this order, whose array has another shape than it should have, or an element that
        differs from the right one by more than 1/10,000 of the right array's largest element (whatever its sign), or is
        not finite. "" if there is none.
    """
    ### BEGIN SOLUTION
    right = {
        role: np.einsum("BTI,HIO->BTHO", given, weights[f"{role}_kernel"]) + weights[f"{role}_bias"]
        for role, given in (("query", query), ("key", value), ("value", value))
    }
    size = right["query"].shape[-1]
    right["logits"] = np.einsum("BTHO,BSHO->BHTS", right["query"], right["key"]) / np.sqrt(size)
    masked = np.where(mask[:, None], right["logits"], -np.inf)
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    right["scores"] = powers / powers.sum(axis=-1, keepdims=True)
    right["mixed"] = np.einsum("BHTS,BSHO->BTHO", right["scores"], right["value"])
    right["output"] = np.einsum("BTHO,HOE->BTE", right["mixed"], weights["output_kernel"]) + weights["output_bias"]
    for name, array in right.items():
        if steps[name].shape != array.shape:
            return name
        if not np.all(np.abs(steps[name] - array) <= 1e-4 * np.abs(array).max()):
            return name
    return ""
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# First compute the seven arrays, and keep them in a dict in the order of the text. Hide positions with -inf in a copy of
# the logits, before the softmax.

# %% [markdown] tags=["hint"]
# Then go through the names in order, and return the first that is wrong. For each, ask about the shape first. Only arrays
# of the same shape may be subtracted.

# %% [markdown] tags=["hint"]
# Ask whether all differences are *small enough*, and negate that. With NaN, "all are small enough" is False, as it should
# be. The limit is 1e-4 times the largest absolute value of the right array.
