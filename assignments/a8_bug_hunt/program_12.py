# %% [markdown]
# # Program 12: dropout with a given mask
#
# **The question.** "The weights are loaded, only the seed is not fixed, and the translation changes from call to
# call." In training everything is as it should be.
#
# **The idea.** Dropout has two modes. In training, it drops some scores and divides the others by the share that is
# kept, so that their expected sum stays one. Otherwise it does nothing at all: thanks to that division there is
# nothing to compensate. Test both modes.
#
# **The shapes.** The query is (B, H, T, O), key and value are (B, H, S, O), and `keep` is (B, H, T, S): B sentences,
# H heads, T and S positions, O features per head. The rate is a number from 0 up to, but not including, 1.
#
# **Worked example.** The program gets this case right: in training, with the rate 0.5, the scores 0.5, 0.5, of
# which the first is kept, become 1, 0.
#
# **Name it, then fix it.** The program below runs and returns the right shape, but one thing in it is wrong. Fix it,
# and set `MISTAKE` to the id of the mistake. It is one of these:
#
# - `dropout-at-inference`: Dropout is active outside of training.
# - `dropout-never`: Dropout is off in training: `training` is not passed on, or the scores without dropout are used.
# - `dropout-on-logits`: Dropout is applied to the logits instead of the scores: dropped logits become 0 and keep a
#   share of exp(0).
# - `dropout-rescaled-at-inference`: The scores are multiplied by 1 - rate at inference instead of divided by it in
#   training.
# - `dropout-rescaled-by-rate`: The scores that are kept are divided by the rate instead of by 1 - rate: the rate is
#   read as the share to keep.
# - `dropout-then-normalised`: After dropout the scores are divided by their row's sum: rows sum to one again.
# - `dropout-times-share`: The scores that are kept are multiplied by 1 - rate instead of divided by it.
# - `dropout-without-rescaling`: The scores that are kept are not divided by 1 - rate.
# - `scale-without-root`: The logits are divided by O instead of √O: the root is missing, or the scale is applied
#   twice.
# - `softmax-twice`: The softmax is applied twice.

# %%
import numpy as np

### BEGIN SOLUTION
MISTAKE = "dropout-at-inference"
### STARTER
# MISTAKE = ""
### END SOLUTION


def program_12(query, key, value, keep, rate, training):
    """Scaled dot-product attention with dropout of the scores.

    Args:
        query: (B, H, T, O).
        key, value: (B, H, S, O).
        keep: boolean (B, H, T, S), False at the scores that are dropped in training.
        rate: The share of dropped scores, 0 ≤ rate < 1.
        training: whether the model is being trained.

    Returns:
        The output, (B, H, T, O).
    """

    def softmax(logits):
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)

    def dropout(scores):
        ### BEGIN SOLUTION
        return np.where(keep, scores / (1 - rate), 0.0) if training else scores
        ### STARTER
        # return np.where(keep, scores / (1 - rate), 0.0) if rate > 0 else scores
        ### END SOLUTION

    scores = softmax(query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]))
    return dropout(scores) @ value


# %% [markdown] tags=["hint"]
# Call it four times: in training and not, each with the rates 0 and 0.5. Which of the four is wrong?

# %% [markdown] tags=["hint"]
# The function never reads one of its arguments. The program's condition asks for something else.

# %% [markdown] tags=["hint"]
# With the rate 0, nothing is dropped and the division is by 1, which needs no condition of its own. What does need
# one?
