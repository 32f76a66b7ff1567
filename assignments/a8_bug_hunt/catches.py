# %% [markdown]
# # The test that catches it
#
# **The question.** The programs of this assignment run, give the right shape, and train. How could you have noticed the
# mistakes? A falling loss did not show them. What does a test look like that does?
#
# **The idea.** A test of attention compares every element with something simpler that cannot contain the same mistake:
# loops over one head and one query at a time. It also chooses inputs on which mistakes show:
#
# - all sizes are different, because a swapped axis hides behind equal ones;
# - the mask hides something in every sentence, but not the same;
# - the numbers are large enough for the softmax to matter;
# - the values differ between heads and between sentences.
#
# **What you write.** A function that takes an implementation and raises an `AssertionError`, or any other error, if it
# is wrong. The check calls your function with more than a hundred implementations. Most of them make a mistake from the
# bank of `kmha diagnose`, each another one. Some are right and must pass, float32 rounding included. You cannot read
# the implementations, only call them, and each call of your function knows nothing of the others. The check says how
# many mistakes your test finds, and names one that it misses. Keep the arrays small: at most 20,000 elements each, and
# at most 100,000 for B·H times the square of the largest other size.
#
# **The shapes.** `attention(query, key, value, mask)` takes query (B, H, T, O), key (B, H, S, O), value (B, H, S, O)
# and a boolean mask (B, T, S), in which True means *attend*, or `None`. It returns the output (B, H, T, O) and the
# scores (B, H, T, S). The logits are divided by √O. A row with nothing to attend to gives zeros.
#
# **Worked example.** With `T = S = O = 4` and no mask, an implementation that exchanges T and S passes every test that
# checks only shapes.

# %%
import numpy as np


def catches(attention):
    """Raise an `AssertionError` or any other error if an implementation of attention is wrong.

    Args:
        attention: The implementation. It takes query (B, H, T, O), key (B, H, S, O), value (B, H, S, O) and mask
            (B, T, S) or `None`, and returns output (B, H, T, O) and scores (B, H, T, S). It raises a `ValueError` if its
            mistake makes the computation impossible.
    """
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    batch, heads, rows, columns, size = 3, 2, 4, 5, 7
    query = 2 * rng.normal(size=(batch, heads, rows, size))
    key, value = (2 * rng.normal(size=(batch, heads, columns, size)) for _ in "kv")
    ragged = rng.random((batch, rows, columns)) < 0.6
    ragged[:, 0], ragged[1, 2] = True, False
    for mask in (None, ragged):
        output, scores = attention(query, key, value, mask)
        assert np.shape(output) == query.shape
        assert np.shape(scores) == (batch, heads, rows, columns)
        for b, h, t in np.ndindex(batch, heads, rows):
            allowed = np.ones(columns, bool) if mask is None else mask[b, t]
            powers = np.exp([query[b, h, t] @ key[b, h, s] / np.sqrt(size) for s in range(columns)]) * allowed
            expected = powers / powers.sum() if allowed.any() else powers
            assert np.allclose(scores[b, h, t], expected, atol=1e-5)
            assert np.allclose(output[b, h, t], expected @ value[b, h], atol=1e-5)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Write the right computation inside the test, with loops over sentence, head and query. Then each step is a dot product
# or a sum that you can check by eye. Compare every element with it.

# %% [markdown] tags=["hint"]
# Call it at least twice: without a mask, and with a mask that differs from sentence to sentence and from row to row,
# and hides everything in one row. Choose five different sizes for B, H, T, S and O.

# %% [markdown] tags=["hint"]
# `np.allclose(received, expected, atol=1e-5)` compares every element, and leaves room for float32. Compare the shapes
# first, because `allclose` broadcasts. Compare both the scores and the output: each shows mistakes that the other
# hides.
