# %% [markdown]
# # Program 12: what is kept is given
#
# **The question.** "The weights are loaded, the seed is the only thing that is not fixed, and the translation changes
# from call to call." In training everything is as it should be.
#
# **The idea.** Dropout has two modes. In training it drops some scores and divides those that are left by the share
# that is kept, so that their expected sum stays one. Otherwise it does nothing at all: because of that division there
# is nothing to make up for. Test both modes.
#
# **The shapes.** The query is (B, H, T, O), key and value are (B, H, S, O), what is kept is (B, H, T, S): B sentences,
# H heads, T and S positions, O features a head. The rate is a number from 0 up to, not including, 1.
#
# **One line, worked.** A case that it gets right: in training, with the rate 0.5, the scores 0.5, 0.5 of which the
# first is kept become 1, 0.
#
# **Name it, mend it.** The program below runs and gives the right shape, and one thing in it is wrong. Mend it, and set
# `MISTAKE` to the id of what was wrong, one of these:
#
# - `dropout-at-inference`: Dropout is on when not training.
# - `dropout-never`: Dropout is off in training: `training` is not handed on, or the scores are used as they were.
# - `dropout-on-logits`: Dropout is on the logits in place of the scores: those that are dropped become 0 and keep a
#   share of exp(0).
# - `dropout-rescaled-at-inference`: The scores are multiplied by 1 - rate when not training, in place of divided by it
#   in training.
# - `dropout-rescaled-by-rate`: The scores that are kept are divided by the rate in place of by 1 - rate: it is read as
#   the share to keep.
# - `dropout-then-normalised`: After dropout the scores are divided by their row's sum: rows sum to one again.
# - `dropout-times-share`: The scores that are kept are multiplied by 1 - rate in place of divided by it.
# - `dropout-without-rescaling`: The scores that are kept are not divided by 1 - rate.
# - `scale-without-root`: The logits are divided by O in place of √O: the root is missing, or they are scaled twice.
# - `softmax-twice`: The softmax is taken twice: the scores go through a second one.

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
        rate: the share that is dropped, 0 ≤ rate < 1.
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
# Call it four times: in training and not, with the rate 0 and 0.5. Which of the four is wrong?

# %% [markdown] tags=["hint"]
# One argument of the function is never read. The condition in the program asks for something else.

# %% [markdown] tags=["hint"]
# With the rate 0 nothing is dropped and the division is by 1: that needs no condition of its own. What does need one?
