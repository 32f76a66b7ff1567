# %% [markdown]
# # What each head looks at
#
# **The question.** An exercise of the textbook asks to show the weights of several heads. Is it enough to reshape the
# scores to batch, heads, queries and keys and to draw them, and are these then the weights of each head? Yes, both:
# each head has a softmax of its own, and so its own weights; only W_o mixes the heads.
#
# **The idea.** A picture of one sentence has a panel for each head, a row for each query, a column for each key.
# Pictures are read by comparing colours, so one colour must mean one number in all panels: the same limits for every
# head. If each panel chooses its own limits, a head that spreads its weights evenly looks as decided as one that looks
# at a single word.
#
# **The shapes.** The scores are (B·H, T, S), item b's head h at b·H + h. One item's panels are H images of (T, S).
#
# **One line, worked.** With B = 2, H = 3 the scores are (6, T, S); the panels of item 1 show numbers 3, 4 and 5 of
# them.

# %%
import matplotlib.pyplot as plt
import numpy as np


def draw_heads(scores, num_heads, item):
    """A picture of all heads of one item.

    Args:
        scores: (B·H, T, S); item b's head h is at b·H + h.
        num_heads: H; there may be only one.
        item: which item of the batch, from 0.

    Returns:
        A matplotlib figure with one axes for each head, in their order. Each shows that head's (T, S) as an image
        (`imshow`, `pcolormesh` or `matshow`), queries from top to bottom; its title is "Head 1" for the first, "Head 2"
        for the next; its labels are "Keys" (x) and "Queries" (y). All have the same limits of colour, from 0 to the
        largest score of the item or to 1. A colour bar may be there or not.
    """
    ### BEGIN SOLUTION
    heads = np.reshape(scores, (-1, num_heads, *scores.shape[1:]))[item]
    figure, axes = plt.subplots(1, num_heads, squeeze=False, figsize=(3 * num_heads, 3))
    for number, (panel, head) in enumerate(zip(axes[0], heads, strict=True), 1):
        panel.imshow(head, vmin=0, vmax=heads.max())
        panel.set_title(f"Head {number}")
        panel.set_xlabel("Keys")
        panel.set_ylabel("Queries")
    return figure
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# Take batch and heads apart first, and pick the item. What is left is (H, T, S). `plt.subplots` gives a figure and as
# many axes as you ask for.

# %% [markdown] tags=["hint"]
# `imshow` takes `vmin` and `vmax`, the numbers that get the first and the last colour. If you do not say them, each
# image takes its own least and largest number. `imshow` puts row 0 at the top; `pcolormesh` puts it at the bottom.

# %% [markdown] tags=["hint"]
# With one head `plt.subplots` returns a single axes and not an array of them, unless it is told `squeeze=False`: then
# it is always (rows, columns). Loop over its first row, draw, set title and labels, and return the figure.
