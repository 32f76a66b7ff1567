# %% [markdown]
# # Draw the heads
#
# **The question.** The article's function for drawing scores wants to be told rows and columns, and stops if their product
# is not the number of heads. How does one draw five heads, or seven, and how can two heads be compared if each picture
# has its own scale of greys?
#
# **The idea.** The function can lay them out itself: take as many columns as the root of H, rounded up, and as many rows as
# these need; panels that are left over are taken away. And every panel gets the same limits of colour, 0 to 1, for these are
# probabilities: without limits `imshow` stretches each panel from its own smallest to its own largest number, so that a head
# that attends evenly looks as sharp as one that picks a single token. One colour bar then does for all.
#
# **The shapes.** The scores are (H, T, S): for each of H heads T queries, which are the rows, and S keys, the columns. The
# tokens of the queries are T words, those of the keys S words.
#
# **One line, worked.** H = 7: √7 = 2.65, so 3 columns, and 7 heads need 3 rows; of the 9 panels 2 are taken away. H = 5: 3
# columns, 2 rows, 1 panel is left over.

# %%
import numpy as np
from matplotlib.figure import Figure


def draw_heads(scores, queries, keys):
    """A figure with the scores of every head.

    Every panel shows its head with `imshow`, queries from top to bottom, keys from left to right, with a tick at every
    position that is labelled with its token; the x axis is labelled "key", the y axis "query"; the titles are "head 0",
    "head 1", … in order. Colours run from 0 to 1 in every panel. There is one colour bar for all (the checks do not look at
    it), and no panel without a head. The layout is as above: ⌈√H⌉ columns, and as many rows as needed.

    Args:
        scores: (H, T, S), between 0 and 1.
        queries: T words.
        keys: S words.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    ### BEGIN SOLUTION
    heads = len(scores)
    columns = int(np.ceil(np.sqrt(heads)))
    rows = int(np.ceil(heads / columns))
    figure = Figure(figsize=(3 * columns, 3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for head, panel in enumerate(panels.flat):
        if head >= heads:
            panel.remove()
            continue
        image = panel.imshow(scores[head], vmin=0, vmax=1, cmap="bone")
        panel.set_title(f"head {head}")
        panel.set_xticks(range(len(keys)), keys, rotation=90)
        panel.set_yticks(range(len(queries)), queries)
        panel.set_xlabel("key")
        panel.set_ylabel("query")
    figure.colorbar(image, ax=figure.axes)
    return figure
    ### END SOLUTION


# %% [markdown] tags=["hint"]
# `Figure().subplots(rows, columns, squeeze=False)` gives an array of panels, always with two axes; its `.flat` goes through
# them row by row. Rows and columns follow from H alone.

# %% [markdown] tags=["hint"]
# `imshow` takes `vmin` and `vmax`: the numbers that are drawn as the darkest and the brightest colour. `set_xticks` and
# `set_yticks` take positions and labels. Rows of the array are drawn from top to bottom: they are the queries.

# %% [markdown] tags=["hint"]
# Where the loop over the panels has passed the last head, call the panel's `remove()`. Any panel's image will do for the
# colour bar, which is to stand beside all axes of the figure.
