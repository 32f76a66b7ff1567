# %% [markdown]
# # The key kernel learns
#
# **The question.** If `enc_output` is not K, then a trained matrix makes K from it. But the keys are only compared with
# the queries. They are never mixed into the output. So where does the gradient of that matrix come from? Follow it from
# the loss back to the key kernel.
#
# **The idea.** The output depends on the keys through the scores. If you change the key kernel, K changes, then the
# logits, the scores, the mix and the loss. The gradient comes back along the same path, one step at a time. Let A be
# one row of scores, and let G be the gradient of the loss with respect to A. The softmax passes back A · (G − Σₛ A·G),
# element by element. So the gradient of each score counts only as far as it differs from the row's weighted average.
# The gradient vanishes where there is nothing to choose: with a single source position, or with equal values. And it
# fades where one score is nearly 1 (see `a5.saturation`).
#
# **The shapes.** The query heads are (B, T, H, O), the value heads (B, S, H, O), `enc_output` (B, S, I) and the key
# kernel (H, I, O). K is (B, S, H, O), logits and scores are (B, H, T, S), and the mixed values are (B, T, H, O). The
# gradient has the shape of the kernel, (H, I, O).
#
# **Worked example.** Take one head, one query, and two source positions with scores 0.25 and 0.75. Let G be 4 at the
# first position and 0 at the second. The average is 0.25·4 = 1. The gradients of the logits are 0.25·(4 − 1) = 0.75 and
# 0.75·(0 − 1) = −0.75.

# %%
import numpy as np


def key_gradient(enc_output, query, value, key_kernel, upstream):
    """Return the gradient of a loss with respect to the key kernel of the decoder's second attention.

    The key kernel makes K from `enc_output`. The logits are query · K / √O. The scores are their softmax over the
    source positions. The scores mix the values, which gives `mixed`, (B, T, H, O). There is no mask. The loss is the
    sum over all elements of upstream · mixed, so `upstream` is its gradient with respect to `mixed`.

    Args:
        enc_output: Output of the encoder, (B, S, I).
        query: Query, already projected into heads, (B, T, H, O).
        value: Value, already projected into heads, (B, S, H, O).
        key_kernel: Key kernel, (H, I, O).
        upstream: Gradient of the loss with respect to `mixed`, (B, T, H, O).

    Returns:
        The gradient, (H, I, O).
    """
    ### BEGIN SOLUTION
    scale = 1 / np.sqrt(query.shape[-1])
    key = np.einsum("BSI,HIO->BSHO", enc_output, key_kernel)
    logits = np.einsum("BTHO,BSHO->BHTS", query, key) * scale
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    of_scores = np.einsum("BTHO,BSHO->BHTS", upstream, value)
    average = np.sum(scores * of_scores, axis=-1, keepdims=True)
    of_logits = scores * (of_scores - average)
    of_key = np.einsum("BHTS,BTHO->BSHO", of_logits, query) * scale
    return np.einsum("BSHO,BSI->HIO", of_key, enc_output)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Go forward first: K, logits, scores. Then go backward and find the gradient of each: the scores, the logits, K, the
# kernel. The backward step of a product is again a product: multiply the incoming gradient by the other factor.

# %% [markdown] tags=["hint"]
# The gradient of the scores is the dot product of `upstream` and the value over O. It has the axes of the scores. Then
# comes the softmax, with the formula of the text. The sum in that formula goes over the source positions.

# %% [markdown] tags=["hint"]
# For the gradient of K, multiply the gradient of the logits by the query, sum over the query positions, and apply the
# scale once. For the gradient of the kernel, multiply the gradient of K by `enc_output` and sum over batch and source
# positions. The letters of the result are HIO.
