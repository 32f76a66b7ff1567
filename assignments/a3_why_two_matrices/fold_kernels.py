# %% [markdown]
# # Folded once, not twice
#
# **The question.** The paper projects Q with W_i^Q. Yet many drawings show Q itself as x W^Q, so that there are two
# projections in a row. Does one learn both? And an answer on a forum writes, with W_i^{Q*} = W^Q W_i^Q:
#
# `Q_i(x) = x W_i^{Q*} = x W^Q W_i^{Q*} = Q W_i^Q`
#
# Can all of these be equal?
#
# **The idea.** Two linear maps in a row are one: x W^Q W_i^Q = x (W^Q W_i^Q), so one matrix per head, with the two
# multiplied once beforehand, does the work of both. That is *folding*. But the expression in the middle has W^Q in it
# twice: once written out, and once inside W_i^{Q*}. It equals the others only where a second W^Q changes nothing, as
# with the identity, or with a head that W^Q leaves as it is. Numbers find such a slip at once, where the eye reads over
# it.
#
# **The shapes.** W^Q is (I, I), so that the slip is possible at all. W_i^Q is (I, O), for all heads (H, I, O), and so
# is W_i^{Q*}. x is (B, T, I), Q = x W^Q too; Q_i(x) is (B, T, O) for each head.
#
# **One line, worked.** I = O = 1, x = 5, W^Q = 2, W_i^Q = 3. Then W_i^{Q*} = 6 and x W_i^{Q*} = 30; x W^Q W_i^{Q*} = 5
# · 2 · 6 = 60; Q W_i^Q = 10 · 3 = 30.

# %%
import numpy as np


def fold_kernels(x, kernel, head_kernels):
    """The folded kernels, and which of the printed equalities hold.

    Args:
        x: (B, T, I).
        kernel: W^Q, (I, I).
        head_kernels: W_i^Q of every head, (H, I, O).

    Returns:
        Two arrays. First the folded kernels W_i^{Q*}, (H, I, O). Then booleans (H, 3): for every head, whether

        0. x W_i^{Q*} equals x W^Q W_i^{Q*};
        1. x W^Q W_i^{Q*} equals Q W_i^Q, where Q = x W^Q;
        2. x W_i^{Q*} equals Q W_i^Q.

        Two of them are equal where all of the head's elements (B, T, O) are, up to rounding: what `np.allclose` says.
    """
    ### BEGIN SOLUTION
    folded = kernel @ head_kernels
    queries = x @ kernel
    holds = []
    for folded_head, head in zip(folded, head_kernels, strict=True):
        once, printed, unfolded = x @ folded_head, x @ kernel @ folded_head, queries @ head
        pairs = ((once, printed), (printed, unfolded), (once, unfolded))
        holds.append([np.allclose(one, other) for one, other in pairs])
    return folded, np.array(holds)
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# x stands on the left of everything: x is multiplied by W^Q first, and the result by W_i^Q. So in the folded kernel W^Q
# stands on the left too. `@` multiplies an (I, I) matrix with every matrix of a stack (H, I, O).

# %% [markdown] tags=["hint"]
# Compute the three expressions exactly as they are printed, for one head: with the folded kernel, with W^Q and the
# folded kernel, and with Q and the unfolded one. Do not simplify any of them: the comparison is the point.

# %% [markdown] tags=["hint"]
# Loop over the heads. Each gives a list of three truth values, one for each pair in the order of the docstring; collect
# the lists, and make an array of them at the end. If the third of them is ever False, the folding itself is wrong.
