# %% [markdown]
# # The key kernel learns
#
# **The question.** If `enc_output` is not K, then K comes from a matrix that is trained. But the keys are only
# compared, they are never mixed into the output. Where does the gradient of that matrix come from?
#
# **The idea.** The output depends on the keys through the weights of the mix. A change of the key kernel changes K,
# then the logits, then the scores, then what is mixed, then the loss: the gradient comes back along the same path, one
# step at a time. With A the scores of a row, and G the gradient of the loss with respect to A, the softmax passes back
# A · (G − Σₛ A·G), element by element: each score's gradient counts only as far as it differs from the row's weighted
# average. So the gradient vanishes where there is nothing to choose, as with a single source position or with equal
# values, and it fades where one score is nearly 1 (`a5.saturation`).
#
# **The shapes.** Query heads (B, T, H, O), value heads (B, S, H, O), `enc_output` (B, S, I), key kernel (H, I, O). K
# is (B, S, H, O), logits and scores are (B, H, T, S), mixed is (B, T, H, O), and the gradient has the kernel's shape,
# (H, I, O).
#
# **One line, worked.** One head, one query, two source positions with scores 0.25 and 0.75. If G is 4 at the first and
# 0 at the second, the average is 0.25·4 = 1, and the logits' gradients are 0.25·(4 − 1) = 0.75 and 0.75·(0 − 1) =
# −0.75.

# %%
import numpy as np


def key_gradient(enc_output, query, value, key_kernel, upstream):
    """The gradient of a loss with respect to the key kernel of the decoder's second attention.

    K is made of `enc_output` by the key kernel; the logits are query · K / √O; the scores are their softmax over the
    source positions; mixed is what the scores make of the value, (B, T, H, O). There is no mask. The loss is the sum
    over all elements of upstream · mixed, so that `upstream` is its gradient with respect to mixed.

    Args:
        enc_output: (B, S, I).
        query: already projected into heads, (B, T, H, O).
        value: already projected into heads, (B, S, H, O).
        key_kernel: (H, I, O).
        upstream: (B, T, H, O).

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
# Go forward first: K, logits, scores. Then backward, with the gradient of each: of the scores, of the logits, of K, of
# the kernel. Every backward step of a product is a product again: the gradient that came, times the other factor.

# %% [markdown] tags=["hint"]
# The scores' gradient is the dot product of `upstream` and the value over O, with the axes of the scores. Then comes
# the softmax, with the formula of the text; the sum in it is over the source positions.

# %% [markdown] tags=["hint"]
# K's gradient sums the logits' gradient times the query over the query positions, and has the scale once. The kernel's
# sums K's gradient times `enc_output` over batch and source positions: the letters of the result are HIO.
