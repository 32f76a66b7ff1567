# %% [markdown]
# # What each head looks at
#
# **The question.** An exercise of the textbook asks you to show the weights of several heads. Can you just reshape the
# scores to batch, heads, queries and keys, and draw them? And are these really the weights of each head? Yes to both:
# each head has a softmax of its own, and so its own weights. Only W_o mixes the heads. Draw them so that the heads can
# be compared.
#
# **The idea.** A picture of one sentence has a panel for each head, with a row for each query and a column for each
# key. You read it by comparing colours. So one colour must mean one number in all panels: every head needs the same
# limits. If each panel chooses its own limits, a head that spreads its weights evenly looks as decided as one that
# looks at a single word.
#
# **The shapes.** The scores are (B·H, T, S), with head h of item b at b·H + h. The panels of one item are H images of
# (T, S).
#
# **Worked example.** With B = 2 and H = 3 the scores are (6, T, S). The panels of item 1 show entries 3, 4 and 5.

# %%
import matplotlib.pyplot as plt
import numpy as np


def draw_heads(scores, num_heads, item):
    """Draw all heads of one item.

    Args:
        scores: Scores, (B·H, T, S). Head h of item b is at b·H + h.
        num_heads: Number of heads (H). There may be only one.
        item: Index of the item in the batch, from 0.

    Returns:
        A new matplotlib figure with one axes for each head, in their order. Each axes shows the (T, S) scores of its
        head as an image (`imshow`, `pcolormesh` or `matshow`), with the queries from top to bottom: turn the axis, not
        the array, if row 0 would be at the bottom. The title is "Head 1" for the first head, "Head 2" for the next. The
        labels are "Keys" (x) and "Queries" (y). All images have the same colour limits: from 0 to the largest score of
        the item, or from 0 to 1. A colour bar is optional.
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
# First separate batch and heads, and pick the item. What is left is (H, T, S). `plt.subplots` gives you a figure and as
# many axes as you ask for.

# %% [markdown] tags=["hint"]
# `imshow` takes `vmin` and `vmax`, the numbers of the first and the last colour. If you do not set them, each image
# uses its own smallest and largest number. `imshow` puts row 0 at the top; `pcolormesh` puts it at the bottom.

# %% [markdown] tags=["hint"]
# With one head, `plt.subplots` returns a single axes instead of an array. With `squeeze=False` it always returns an
# array (rows, columns). Loop over its first row, draw, set title and labels, and return the figure.
