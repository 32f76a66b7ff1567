# %% [markdown]
# # Folded once, not twice
#
# **The question.** The paper projects Q with W_i^Q. But many drawings show Q itself as x W^Q, so there are two
# projections in a row. Does a layer learn both? And an answer on a forum writes, with W_i^{Q*} = W^Q W_i^Q:
#
# `Q_i(x) = x W_i^{Q*} = x W^Q W_i^{Q*} = Q W_i^Q`
#
# Can all of these be equal? Put in numbers and see.
#
# **The idea.** Two linear maps in a row are one: x W^Q W_i^Q = x (W^Q W_i^Q). So one matrix for each head does the work
# of both, if you multiply the two beforehand. That is *folding*. But the expression in the middle of the forum's line
# contains W^Q twice: once written out, and once inside W_i^{Q*}. It equals the others only where a second W^Q changes
# nothing: if W^Q is the identity, for example, or for a head that W^Q leaves as it is. The eye skips over such a slip.
# Numbers find it at once.
#
# **The shapes.** W^Q is (I, I); otherwise the slip would not even be possible. W_i^Q is (I, O), and (H, I, O) for all
# heads. So is W_i^{Q*}. x and Q = x W^Q are (B, T, I). Q_i(x) is (B, T, O) for each head.
#
# **Worked example.** Take I = O = 1, x = 5, W^Q = 2 and W_i^Q = 3. Then W_i^{Q*} = 6 and x W_i^{Q*} = 30. But x W^Q
# W_i^{Q*} = 5 · 2 · 6 = 60. And Q W_i^Q = 10 · 3 = 30.

# %%
import numpy as np


def fold_kernels(x, kernel, head_kernels):
    """Return the folded kernels, and which of the forum's equalities hold.

    Args:
        x: Input of the layer, (B, T, I).
        kernel: First projection (W^Q), (I, I).
        head_kernels: Second projection (W_i^Q) of every head, (H, I, O).

    Returns:
        Two arrays. The first holds the folded kernels W_i^{Q*}, (H, I, O). The second holds booleans, (H, 3): for every
        head, whether

        0. x W_i^{Q*} equals x W^Q W_i^{Q*};
        1. x W^Q W_i^{Q*} equals Q W_i^Q, where Q = x W^Q;
        2. x W_i^{Q*} equals Q W_i^Q.

        Two expressions are equal for a head if all of its elements (B, T, O) are equal up to rounding, as `np.allclose`
        compares them.
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
# x stands to the left of everything. It is multiplied first by W^Q, then by W_i^Q. So W^Q also stands on the left in
# the folded kernel. `@` multiplies an (I, I) matrix with every matrix of a stack (H, I, O).

# %% [markdown] tags=["hint"]
# Compute the three expressions for one head, exactly as they are printed: with the folded kernel, with W^Q and the
# folded kernel, and with Q and the unfolded one. Do not simplify any of them: the comparison is the point.

# %% [markdown] tags=["hint"]
# Loop over the heads. Each head gives a list of three booleans, one for each pair in the order of the docstring.
# Collect the lists and make them an array at the end. If the third boolean is ever False, your folding is wrong.
