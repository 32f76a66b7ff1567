"""Checks of `draw_heads`: the contents of the figure, not its style."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes

WORDS = tuple(f"{letter}{number}" for letter in "abcd" for number in range(4))
GRID = "panels = figure.subplots(rows, columns, squeeze=False)"
IMAGE = 'image = panel.imshow(scores[head], vmin=0, vmax=1, cmap="bone")'
COLUMNS = "columns = int(np.ceil(np.sqrt(heads)))"
ROWS = "rows = int(np.ceil(heads / columns))"
X_TICKS = "panel.set_xticks(range(len(keys)), keys, rotation=90)"
Y_TICKS = "panel.set_yticks(range(len(queries)), queries)"
LEFT_OVER = "if head >= heads:\n            panel.remove()\n            continue"


def inputs_of(rng, heads, most=6):
    """Draw scores in which no two heads have the same largest and smallest score.

    The tokens of queries and keys differ, and one of each occurs twice.
    """
    rows, columns = sizes(rng, 2, least=3, most=most)
    logits = rng.normal(size=(heads, rows, columns)) * np.arange(1, heads + 1)[:, None, None]
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    words = [str(word) for word in rng.permutation(WORDS)[: rows + columns]]
    words[rows - 1], words[-1] = words[0], words[rows]
    return {
        "scores": powers / powers.sum(axis=-1, keepdims=True),
        "queries": words[:rows],
        "keys": words[rows:],
    }


def draw(rng):
    """Draw a number of heads that leaves over panels."""
    return inputs_of(rng, int(rng.choice([3, 5, 7])))


def draw_layouts(rng):
    """Draw numbers of heads that need one, two, three and five columns, and leave over no panel or some."""
    numbers = [1, 2, 3, int(rng.choice([5, 7])), int(rng.integers(17, 21))]
    return {"calls": [inputs_of(rng, heads, most=4) for heads in numbers]}


def draw_single(rng):
    return inputs_of(rng, 1)


def describe(answer, inputs):
    """Describe every panel with an image, with the places of the ticks counted in its columns and rows.

    Place 0 is the middle of the first one, wherever the image lies.
    """
    figure = answer.draw_heads(**inputs)
    panels = worker_api.figure(figure)["panels"]
    drawn = []
    for axes in figure.axes:
        meshes = [*axes.images, *(each for each in axes.collections if hasattr(each, "get_coordinates"))]
        drawn += meshes[:1] if getattr(axes, "_colorbar", None) is None else []
    for panel, mesh in zip(panels, drawn, strict=False) if len(panels) == len(drawn) else ():
        if hasattr(mesh, "get_extent"):
            left, right, bottom, top = mesh.get_extent()
            first, last = (top, bottom) if mesh.origin == "upper" else (bottom, top)
        else:
            left, right = mesh.get_coordinates()[0, [0, -1], 0]
            first, last = mesh.get_coordinates()[[0, -1], 0, 1]
        rows, columns = np.shape(panel["image"])
        panel["x_places"] = [(place - left) / (right - left) * columns - 0.5 for place in panel["x_places"]]
        panel["y_places"] = [(place - first) / (last - first) * rows - 0.5 for place in panel["y_places"]]
    return panels


def places(answer, inputs):
    """Return, for every panel in each figure, how many rows and columns there are, its place and whether it is empty.

    Panels are in one column if their middles are less than half a panel apart, however they were placed.
    """

    def lines(begins, ends):
        middles, width = (begins + ends) / 2, np.max(ends - begins, initial=0)
        ordered = np.sort(middles)
        starts = ordered[np.diff(ordered, prepend=-np.inf) > width / 2]
        return np.searchsorted(starts, middles, side="right") - 1, len(starts)

    figures = []
    for call in inputs["calls"]:
        boxes, empty = [], []
        for axes in answer.draw_heads(**call).axes:
            free = not axes.images and not axes.collections
            if getattr(axes, "_colorbar", None) is None and axes.get_visible() and (axes.axison or not free):
                box = axes.get_position(original=True).get_points()
                boxes.append(axes.figure.transSubfigure.transform(box))
                empty.append(free)
        (left, bottom), (right, top) = np.array(boxes).reshape(-1, 2, 2).transpose(1, 2, 0)
        (column, columns), (row, rows) = lines(left, right), lines(-top, -bottom)
        figures.append(
            [
                (rows, columns, int(at) * columns + int(on), free)
                for at, on, free in zip(row, column, empty, strict=True)
            ]
        )
    return figures


def judge_images(inputs, result, expected):
    if len(result) != len(expected):
        return f"it has {len(result)} panels with an image, expected one for each of the {len(expected)} heads."
    for head, (panel, right) in enumerate(zip(result, expected, strict=True)):
        if np.shape(panel["image"]) != np.shape(right["image"]):
            rows, columns = np.shape(right["image"])
            return f"the image of head {head} is {np.shape(panel['image'])}, expected a row for each of {rows} queries and a column for each of {columns} keys."
        if not np.allclose(panel["image"], right["image"]) or not panel["down"]:
            return f"the image of head {head} does not show that head's scores, with the queries from top to bottom."
        if not panel["whole"]:
            return f"the image of head {head} cannot be seen as a whole, with the keys from left to right."
    return None


def judge_labels(inputs, result, expected):
    if len(result) != len(expected):
        return f"it has {len(result)} panels with an image, expected one for each of the {len(expected)} heads."
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
        for axis in "xy":
            if np.shape(panel[f"{axis}_places"]) != np.shape(right[f"{axis}_places"]) or not np.allclose(
                panel[f"{axis}_places"], right[f"{axis}_places"], atol=0.01
            ):
                return f"in the panel of head {head} the tick labels of the {axis} axis are not at the middle of their {'columns' if axis == 'x' else 'rows'}."
    return None


def judge_limits(inputs, result, expected):
    if not result:
        return "no axes shows an image."
    if len({panel["colors"] for panel in result}) > 1 or not result[0]["colors"].endswith("Normalize"):
        return "the panels have different colours, or colours that do not grow evenly with the numbers."
    limits = {tuple(round(float(limit), 6) for limit in panel["limits"]) for panel in result}
    if len(limits) > 1:
        return "the panels have different colour limits: the same grey means another number in each."
    return None if limits == {(0.0, 1.0)} else "the colours do not run from 0 to 1."


def judge_places(inputs, result, expected):
    for panels, right in zip(result, expected, strict=True):
        heads = f"{len(right)} head{'s' if len(right) > 1 else ''}"
        if any(panel[3] for panel in panels):
            return f"with {heads} it has panels without a head."
        if [tuple(panel[:2]) for panel in panels] != [tuple(panel[:2]) for panel in right]:
            rows, columns = panels[0][:2] if panels else (0, 0)
            return f"it lays out {heads} in {rows} rows and {columns} columns, not as described."
        if [panel[2] for panel in panels] != [panel[2] for panel in right]:
            return f"with {heads}, the panels are not in order, row by row."
    return None


def judge_all(inputs, result, expected):
    """Compare images, colour limits, titles, labels and ticks."""
    judges = (judge_images, judge_limits, judge_labels)
    return next(filter(None, (judge(inputs, result, expected) for judge in judges)), None)


EXERCISE = Exercise(
    title="Draw the heads",
    question="How do you draw the scores of any number of heads so that they can be compared? (seed 004, "
    "display_attention)",
    difficulty=2,
    minutes=20,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "every head has a panel with its scores", 2, draw, describe, judge_images, times=2),
        Check("edge", "titles, axes and ticks are labelled", 2, draw, describe, judge_labels, times=2),
        Check("invariants", "all panels have the same colour limits, 0 to 1", 2, draw, describe, judge_limits, times=2),
        Check(
            "edge",
            "as many panels as heads, in the right rows and columns",
            2,
            draw_layouts,
            places,
            judge_places,
            times=1,
        ),
        Check("edge", "a single head", 1, draw_single, describe, judge_all, times=1),
    ),
    wrong=(
        Wrong(
            "own-colours",
            "You gave every panel its own colour limits: `imshow` stretches each from its smallest to its largest "
            "number. Set the same limits for all, 0 to 1.",
            {IMAGE: IMAGE.replace(" vmin=0, vmax=1,", "")},
            "seed 004, display_attention",
        ),
        Wrong(
            "limits-of-data",
            "Your colours run from the smallest to the largest score of all heads. All panels share that scale, but "
            "it changes from figure to figure. Probabilities lie between 0 and 1: use these limits.",
            {IMAGE: IMAGE.replace("vmin=0, vmax=1", "vmin=np.min(scores), vmax=np.max(scores)")},
        ),
        Wrong(
            "scores-transposed",
            "You transposed the scores. Queries are the rows, keys the columns.",
            {IMAGE: IMAGE.replace("scores[head]", "scores[head].T")},
        ),
        Wrong(
            "first-head-everywhere",
            "You drew the first head in every panel. Draw each head in its own.",
            {IMAGE: IMAGE.replace("scores[head]", "scores[0]")},
        ),
        Wrong(
            "upside-down",
            "You drew the first query at the bottom. It belongs at the top.",
            {IMAGE: IMAGE.replace("scores[head]", "scores[head], origin='lower'")},
        ),
        Wrong(
            "tokens-exchanged",
            "You exchanged the tokens of queries and keys. The keys stand along the x axis.",
            {
                X_TICKS: "panel.set_xticks(range(len(keys)), list(queries)[: len(keys)] + [''] * (len(keys) - len(queries)))",
                Y_TICKS: "panel.set_yticks(range(len(queries)), list(keys)[: len(queries)] + [''] * (len(queries) - len(keys)))",
            },
        ),
        Wrong(
            "ticks-missing",
            "You put no tokens on the axes. The numbers that matplotlib writes there say nothing.",
            {X_TICKS: "pass", Y_TICKS: "pass"},
        ),
        Wrong(
            "tick-labels-without-positions",
            "You set the labels but not the positions. The labels go to the ticks that matplotlib chose, and some "
            "tokens are lost.",
            {
                X_TICKS: "panel.set_xticklabels(keys, rotation=90)",
                Y_TICKS: "panel.set_yticklabels(queries)",
            },
        ),
        Wrong(
            "ticks-beside-the-image",
            "You set `extent`, so the image lies elsewhere, but your ticks are still at 0, 1, 2, … The tokens must stand "
            "at the middle of their rows and columns.",
            {IMAGE: IMAGE.replace("scores[head]", "scores[head], extent=(0, 1, 1, 0)")},
        ),
        Wrong(
            "ticks-between-cells",
            "Your ticks are half a cell beside the middle. `imshow` draws the first cell around 0, not from 0 to 1.",
            {
                X_TICKS: X_TICKS.replace("range(len(keys))", "np.arange(len(keys)) + 0.5"),
                Y_TICKS: Y_TICKS.replace("range(len(queries))", "np.arange(len(queries)) + 0.5"),
            },
        ),
        Wrong(
            "axes-shared",
            "You let the panels share their axes. matplotlib then writes the tokens only at the panels on the edge.",
            {GRID: GRID.replace("squeeze=False", "squeeze=False, sharex=True, sharey=True")},
        ),
        Wrong(
            "keys-without-ticks",
            "You labelled only the queries. The keys differ in number and in words: label them too.",
            {X_TICKS: "pass"},
        ),
        Wrong(
            "empty-panels",
            "You left empty panels in the figure. Remove those that are left over.",
            {LEFT_OVER: "if head >= heads:\n            continue"},
        ),
        Wrong(
            "grid-must-be-full",
            "Your function stops if the heads do not fill the grid, as the article's does. Leave panels over and "
            "remove them.",
            {ROWS: ROWS + "\n    if rows * columns != heads:\n        raise ValueError('heads do not fill the grid')"},
            "seed 004, display_attention",
        ),
        Wrong(
            "always-three-columns",
            "You always drew three columns. Their number follows from that of the heads, and so do the rows.",
            {COLUMNS: "columns = 3"},
        ),
        Wrong(
            "rows-for-columns",
            "You have rows and columns exchanged. The number of columns is the root of the number of heads, always rounded "
            "up, and the rows follow from it. If you round the root to the nearest whole number, the figure looks the "
            "same.",
            {
                COLUMNS: "rows = int(np.ceil(np.sqrt(heads)))",
                ROWS: "columns = int(np.ceil(heads / rows))",
            },
        ),
        Wrong(
            "columns-rounded-down",
            "You rounded the root of the number of heads down. Then there are too few columns: round up.",
            {COLUMNS: "columns = int(np.sqrt(heads))"},
        ),
        Wrong(
            "rows-rounded-down",
            "You rounded the number of rows down, so the heads of an incomplete last row are not drawn. Round up.",
            {ROWS: "rows = heads // columns"},
        ),
        Wrong(
            "heads-counted-from-one",
            "You counted the titles from 1. The first head is “head 0”.",
            {'f"head {head}"': 'f"head {head + 1}"'},
        ),
        Wrong(
            "axes-off",
            "You switched the axes off after labelling them, so neither labels nor tokens can be seen.",
            {'panel.set_ylabel("query")': 'panel.set_ylabel("query")\n        panel.axis("off")'},
        ),
        Wrong(
            "one-head-unlabelled",
            "If there is one head, you return before you set limits, title, labels and ticks. They belong to its "
            "panel too.",
            {
                COLUMNS: "if heads == 1:\n        figure = Figure()\n        figure.subplots().imshow(scores[0])\n"
                "        return figure\n    " + COLUMNS
            },
        ),
        Wrong(
            "tokens-looked-up",
            "You look up the place of each token. A token can occur twice in a sentence: number the positions instead.",
            {
                X_TICKS: "panel.set_xticks([keys.index(key) for key in keys], keys, rotation=90)",
                Y_TICKS: "panel.set_yticks([queries.index(query) for query in queries], queries)",
            },
        ),
        Wrong(
            "at-most-four-columns",
            "You never make more than four columns. More than 16 heads need five or more.",
            {COLUMNS: "columns = min(4, int(np.ceil(np.sqrt(heads))))"},
        ),
    ),
    uses=("numpy", "matplotlib"),
    seconds=20.0,
)
