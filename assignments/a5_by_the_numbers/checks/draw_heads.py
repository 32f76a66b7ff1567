"""What is checked of `draw_heads`: what the figure shows, not how it looks."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes

WORDS = tuple(f"{letter}{number}" for letter in "abcd" for number in range(4))
GRID = "panels = figure.subplots(rows, columns, squeeze=False)"
IMAGE = 'image = panel.imshow(scores[head], vmin=0, vmax=1, cmap="bone")'
ROWS = "rows = int(np.ceil(heads / columns))"
X_TICKS = "panel.set_xticks(range(len(keys)), keys, rotation=90)"
Y_TICKS = "panel.set_yticks(range(len(queries)), queries)"
LEFT_OVER = "if head >= heads:\n            panel.remove()\n            continue"


def heads_of(rng, heads):
    """Scores of which no two heads have the same largest and smallest; the tokens of queries and keys differ."""
    rows, columns = sizes(rng, 2, least=3, most=6)
    logits = rng.normal(size=(heads, rows, columns)) * np.arange(1, heads + 1)[:, None, None]
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    words = [str(word) for word in rng.permutation(WORDS)[: rows + columns]]
    return {
        "scores": powers / powers.sum(axis=-1, keepdims=True),
        "queries": words[:rows],
        "keys": words[rows:],
    }


def draw(rng):
    """As many heads as fill their rows."""
    return heads_of(rng, int(rng.choice([4, 6])))


def uneven(rng):
    """A panel or more is left over."""
    return heads_of(rng, int(rng.choice([5, 7])))


def single(rng):
    return heads_of(rng, 1)


def shown(answer, inputs):
    """Every panel with an image; `down` where its y axis runs from top to bottom."""
    figure = answer.draw_heads(**inputs)
    for image in [image for axes in figure.axes for image in axes.images if image.colorbar]:
        image.colorbar.ax.set_label("<colorbar>")  # one that was placed by hand has no label
    panels = worker_api.figure(figure)["panels"]
    drawn = [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and (axes.images or axes.collections)]
    return [{**panel, "down": bool(axes.yaxis_inverted())} for panel, axes in zip(panels, drawn, strict=True)]


def placed(answer, inputs):
    """Of every panel in the figure: whether it has an image, and its place in the grid."""
    found = []
    figure = answer.draw_heads(**inputs)
    for image in [image for axes in figure.axes for image in axes.images if image.colorbar]:
        image.colorbar.ax.set_label("<colorbar>")
    for axes in figure.axes:
        grid = axes.get_subplotspec()
        if axes.get_label() == "<colorbar>" or grid is None or not axes.get_visible():
            continue
        rows, columns = grid.get_gridspec().get_geometry()
        empty = not axes.images and not axes.collections
        if axes.axison or not empty:
            found.append((rows, columns, grid.num1, empty))
    return found


def judge_images(inputs, result, expected):
    if len(result) != len(expected):
        return f"panels with an image: {len(result)}, heads: {len(expected)}."
    for head, (panel, right) in enumerate(zip(result, expected, strict=True)):
        if np.shape(panel["image"]) != np.shape(right["image"]):
            rows, columns = np.shape(right["image"])
            return f"the image of head {head} is {np.shape(panel['image'])}, expected a row for each of {rows} queries and a column for each of {columns} keys."
        if not np.allclose(panel["image"], right["image"]) or not panel["down"]:
            return f"the image of head {head} does not show that head's scores, queries from top to bottom."
    return None


def judge_labels(inputs, result, expected):
    if len(result) != len(expected):
        return f"panels with an image: {len(result)}, heads: {len(expected)}."
    for head, (panel, right) in enumerate(zip(result, expected, strict=True)):
        for what, called in (
            ("title", "title"),
            ("x", "label of the x axis"),
            ("y", "label of the y axis"),
            ("x_ticks", "tick labels of the x axis"),
            ("y_ticks", "tick labels of the y axis"),
        ):
            if list(panel[what]) != list(right[what]):
                return f"in the panel of head {head} the {called} {'are' if what.endswith('ticks') else 'is'} not as described: {panel[what]!r}."
    return None


def judge_limits(inputs, result, expected):
    limits = {tuple(round(float(limit), 6) for limit in panel["limits"]) for panel in result}
    if len(limits) > 1:
        return "the panels have different limits of colour: the same grey means another number in each."
    return None if limits == {(0.0, 1.0)} else "the colours do not run from 0 to 1."


def judge_places(inputs, result, expected):
    if any(panel[3] for panel in result):
        return "there are panels without a head."
    if [tuple(panel[:2]) for panel in result] != [tuple(panel[:2]) for panel in expected]:
        rows, columns = result[0][:2] if result else (0, 0)
        return f"{len(expected)} heads are laid out in {rows} rows and {columns} columns: that is not as described."
    same = [panel[2] for panel in result] == [panel[2] for panel in expected]
    return None if same else "the heads do not follow each other row by row."


EXERCISE = Exercise(
    title="Draw the heads",
    question="How are the scores of any number of heads drawn, so that they can be compared? (seed 004, display_attention)",
    difficulty=2,
    minutes=20,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "every head has a panel with its scores", 2, draw, shown, judge_images, times=2),
        Check("values", "titles, axes and ticks are labelled", 2, draw, shown, judge_labels, times=2),
        Check("invariants", "all panels have the same limits of colour, 0 to 1", 2, draw, shown, judge_limits, times=2),
        Check(
            "edge",
            "as many panels as heads, where these do not fill the rows",
            2,
            uneven,
            placed,
            judge_places,
            times=2,
        ),
        Check("edge", "one head alone", 1, single, shown, judge_images, times=1),
    ),
    wrong=(
        Wrong(
            "own-colours",
            "Every panel has its own limits of colour: `imshow` stretches each from its smallest to its largest number.",
            {IMAGE: IMAGE.replace(" vmin=0, vmax=1,", "")},
            "seed 004, display_attention",
        ),
        Wrong(
            "limits-of-data",
            "The colours run from the smallest to the largest score of all heads. That is one scale, but another for each "
            "figure: probabilities lie between 0 and 1.",
            {IMAGE: IMAGE.replace("vmin=0, vmax=1", "vmin=np.min(scores), vmax=np.max(scores)")},
        ),
        Wrong(
            "scores-transposed",
            "The scores are transposed: queries are the rows, keys the columns.",
            {IMAGE: IMAGE.replace("scores[head]", "scores[head].T")},
        ),
        Wrong(
            "first-head-everywhere",
            "Every panel shows the first head.",
            {IMAGE: IMAGE.replace("scores[head]", "scores[0]")},
        ),
        Wrong(
            "upside-down",
            "The first query is drawn at the bottom: its row is the first, at the top.",
            {IMAGE: IMAGE.replace("scores[head]", "scores[head], origin='lower'")},
        ),
        Wrong(
            "tokens-exchanged",
            "The tokens of queries and keys are exchanged: keys stand along the x axis.",
            {
                X_TICKS: "panel.set_xticks(range(len(keys)), list(queries)[: len(keys)] + [''] * (len(keys) - len(queries)))",
                Y_TICKS: "panel.set_yticks(range(len(queries)), list(keys)[: len(queries)] + [''] * (len(queries) - len(keys)))",
            },
        ),
        Wrong(
            "ticks-missing",
            "There are no tokens on the axes: the numbers that matplotlib puts there say nothing.",
            {X_TICKS: "pass", Y_TICKS: "pass"},
        ),
        Wrong(
            "tick-labels-without-positions",
            "The labels are set, but not the positions: they go to the ticks that matplotlib chose, and some tokens are lost.",
            {
                X_TICKS: "panel.set_xticklabels(keys, rotation=90)",
                Y_TICKS: "panel.set_yticklabels(queries)",
            },
        ),
        Wrong(
            "axes-shared",
            "The panels share their axes: matplotlib then leaves the tokens away at all panels but those of the margin.",
            {GRID: GRID.replace("squeeze=False", "squeeze=False, sharex=True, sharey=True")},
        ),
        Wrong(
            "keys-without-ticks",
            "Only the queries have their tokens: keys have another number and other words.",
            {X_TICKS: "pass"},
        ),
        Wrong(
            "empty-panels",
            "Panels are left over and stay there, empty.",
            {LEFT_OVER: "if head >= heads:\n            continue"},
        ),
        Wrong(
            "grid-must-be-full",
            "It stops where the heads do not fill the grid, as the article's function does.",
            {ROWS: ROWS + "\n    if rows * columns != heads:\n        raise ValueError('heads do not fill the grid')"},
            "seed 004, display_attention",
        ),
        Wrong(
            "rows-rounded-down",
            "The number of rows is rounded down: where the last row is not full, its heads are not drawn.",
            {ROWS: "rows = heads // columns"},
        ),
        Wrong(
            "heads-counted-from-one",
            "The titles count from 1: the first head is head 0.",
            {'f"head {head}"': 'f"head {head + 1}"'},
        ),
    ),
    uses=("numpy", "matplotlib"),
    seconds=20.0,
)
