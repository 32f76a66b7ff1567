# %% [markdown]
# # Draw the heads
#
# **The question.** The article's function for drawing scores asks for rows and columns, and stops if their product is
# not the number of heads. How do you draw five heads, or seven? And how can you compare two heads if each picture has
# its own grey scale?
#
# **The idea.** The function can find the layout itself: as many columns as the root of H, rounded up, and as many rows
# as these need. It removes the panels that are left over. And every panel gets the same colour limits, 0 to 1, because
# scores are probabilities. Without limits, `imshow` stretches each panel from its own smallest to its own largest
# number. A head that attends evenly then looks as sharp as one that picks a single token. With equal limits, one colour
# bar serves all panels.
#
# **The shapes.** The scores are (H, T, S): for each of the H heads, T queries as rows and S keys as columns. The tokens
# of the queries are T words, those of the keys S words.
#
# **Worked example.** With H = 7, √7 = 2.65, so there are 3 columns, and 7 heads need 3 rows. Of the 9 panels, 2 are
# removed. With H = 5 there are 3 columns and 2 rows, and 1 panel is left over.

# %%
import numpy as np
from matplotlib.figure import Figure


def draw_heads(scores, queries, keys):
    """Draw the scores of every head in one figure.

    Every panel shows its head with `imshow`, with the queries from top to bottom and the keys from left to right. Every
    position has a tick with its token as the label. The x axis is labelled "key" and the y axis "query". The titles are
    "head 0", "head 1", … in order. The colours run from 0 to 1 in every panel. There is one colour bar for all panels
    (the checks ignore it), and no panel without a head. The layout is as above: ⌈√H⌉ columns, and as many rows as
    needed.

    Args:
        scores: Scores of the heads, (H, T, S), between 0 and 1.
        queries: Tokens of the queries, T words.
        keys: Tokens of the keys, S words.

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
# `Figure().subplots(rows, columns, squeeze=False)` returns an array of panels that always has two axes. Its `.flat`
# goes through them row by row. Rows and columns follow from H alone.

# %% [markdown] tags=["hint"]
# `imshow` takes `vmin` and `vmax`, the numbers of the darkest and the brightest colour. `set_xticks` and `set_yticks`
# take positions and labels. The rows of the array are drawn from top to bottom: they are the queries.

# %% [markdown] tags=["hint"]
# When the loop over the panels has passed the last head, call the panel's `remove()`. For the colour bar, any panel's
# image will do. Place the bar beside all axes of the figure.
