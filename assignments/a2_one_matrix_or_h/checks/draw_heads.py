"""Checks of `draw_heads`: the contents of the figure."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes

SHOW = "panel.imshow(head, vmin=0, vmax=heads.max())"
PICK = "heads = np.reshape(scores, (-1, num_heads, *scores.shape[1:]))[item]"
SUBPLOTS = "plt.subplots(1, num_heads, squeeze=False, figsize=(3 * num_heads, 3))"


def inputs_of(rng, heads, batch, rows, columns):
    """Draw heads that differ in sharpness, so that each would choose its own colours.

    No score of the item is the largest of the batch, and none is near 1.
    """
    logits = rng.normal(size=(batch, heads, rows, columns)) * (1 + 2 * np.arange(heads))[:, None, None]
    scores = np.exp(logits)
    scores = 0.9 * scores / scores.sum(axis=-1, keepdims=True) + 0.1 / columns
    item = int(rng.integers(1, batch)) if batch > 1 else 0
    scores[item] = (scores[item] + 1 / columns) / 2
    return {"scores": scores.reshape(batch * heads, rows, columns), "num_heads": heads, "item": item}


def draw(rng):
    return inputs_of(rng, *sizes(rng, 4, least=3, most=6))


def draw_one(rng):
    """Draw a single head, for which there is no list of axes."""
    return inputs_of(rng, 1, *sizes(rng, 3, least=3, most=6))


def describe(answer, inputs):
    """Describe every panel with an image, but for its ticks, and count the axes without one."""
    names = ("image", "limits", "title", "x", "y", "colors", "whole", "down")
    figure = answer.draw_heads(**inputs)
    panels = worker_api.figure(figure)["panels"]
    others = [axes for axes in figure.axes if getattr(axes, "_colorbar", None) is None and axes.get_visible()]
    empty = sum(axes.axison and not axes.images and not axes.collections for axes in others)
    # Limits from 0 to 1 are allowed too. The same mistakes must be named with them.
    if panels and all(np.allclose(panel["limits"], [0, 1]) for panel in panels):
        largest = max(float(np.max(panel["image"])) for panel in panels)
        panels = [{**panel, "limits": [0.0, largest]} for panel in panels]
    return {"panels": [{name: panel[name] for name in names} for panel in panels], "empty": empty}


def judge_images(inputs, result, expected):
    empty, result, expected = result["empty"], result["panels"], expected["panels"]
    if len(result) != len(expected):
        return f"it has {len(result)} axes with an image, expected one for each of the {len(expected)} heads."
    for number, (panel, right) in enumerate(zip(result, expected, strict=True), 1):
        if np.shape(panel["image"]) != np.shape(right["image"]):
            shape = np.shape(panel["image"])
            return f"panel {number} shows an image of shape {shape}, expected {np.shape(right['image'])}."
        if not np.allclose(panel["image"], right["image"], atol=1e-6):
            return f"panel {number} does not show the scores of head {number} of this item."
        if not panel["down"]:
            return f"panel {number} shows the first query at the bottom."
        if not panel["whole"]:
            return f"panel {number} does not show the whole image, with the keys from left to right."
    return f"it has {empty} axes without an image." if empty else None


def judge_limits(inputs, result, expected):
    result, expected = result["panels"], expected["panels"]
    limits = np.array([panel["limits"] for panel in result])
    if not len(limits):
        return "no axes shows an image."
    if not np.allclose(limits, limits[0]):
        return "the panels have different colour limits."
    if len({panel["colors"] for panel in result}) > 1 or not result[0]["colors"].endswith("Normalize"):
        return "the panels have different colours, or colours that do not grow evenly with the numbers."
    least, largest = limits[0]
    # Which heads are drawn is judged by another check.
    allowed = [max(np.max(panel["image"]) for panel in each) for each in (result, expected)]
    if abs(least) > 1e-9 or not np.isclose(largest, [1.0, *allowed], rtol=1e-4).any():
        return f"the colour limits are {least:.3g} and {largest:.3g}."
    return None


def judge_labels(inputs, result, expected):
    result, expected = result["panels"], expected["panels"]
    for number, (panel, right) in enumerate(zip(result, expected, strict=True), 1):
        for name, called in (("title", "title"), ("x", "x label"), ("y", "y label")):
            if panel[name].strip() != right[name]:
                return f"panel {number} has the {called} {panel[name]!r}, expected {right[name]!r}."
    return None


def judge_all(inputs, result, expected):
    """Compare images, colour limits, titles and labels."""
    judges = (judge_images, judge_limits, judge_labels)
    return next(filter(None, (judge(inputs, result, expected) for judge in judges)), None)


EXERCISE = Exercise(
    title="What each head looks at",
    question="How do you draw the attention weights of each head? (seed 001, a textbook forum: exercise 1)",
    difficulty=2,
    minutes=20,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "every panel shows the scores of its head", 3, draw, describe, judge_images, times=2),
        Check("invariants", "one colour means one number in all panels", 3, draw, describe, judge_limits, times=2),
        Check("edge", "titles and labels", 2, draw, describe, judge_labels, times=2),
        Check("edge", "one head", 1, draw_one, describe, judge_all, times=1),
    ),
    wrong=(
        Wrong(
            "own-colours",
            "You let each panel choose its own colour limits, so the same colour means another number in every head. "
            "Set the same limits for all.",
            {SHOW: "panel.imshow(head)"},
        ),
        Wrong(
            "colours-up-to-own-largest",
            "You ended each panel's colours at its own head's largest score, so the heads cannot be compared. Use the "
            "largest score of the item, or 1.",
            {SHOW: "panel.imshow(head, vmin=0, vmax=head.max())"},
        ),
        Wrong(
            "scores-transposed",
            "You transposed the images. Rows are queries, columns are keys.",
            {SHOW: SHOW.replace("(head,", "(head.T,")},
        ),
        Wrong(
            "upside-down",
            "You drew the first query at the bottom. Queries run from top to bottom; `pcolormesh` draws row 0 lowest, "
            "so turn its axis around.",
            {SHOW: SHOW.replace("imshow", "pcolormesh")},
        ),
        Wrong(
            "labels-exchanged",
            "You exchanged the labels. The columns are the keys.",
            {
                'panel.set_xlabel("Keys")': 'panel.set_xlabel("Queries")',
                'panel.set_ylabel("Queries")': 'panel.set_ylabel("Keys")',
            },
        ),
        Wrong(
            "heads-before-batch",
            "You split the first axis as (H, B), so the panels show heads of several sentences. Split it as (B, H).",
            {PICK: "heads = np.reshape(scores, (num_heads, -1, *scores.shape[1:]))[:, item]"},
        ),
        Wrong(
            "items-without-heads",
            "You began with entry b. The heads of item b begin at b·H.",
            {PICK: "heads = scores[item : item + num_heads]"},
        ),
        Wrong(
            "always-the-first-item",
            "You always drew the first item. Draw the one that is asked for.",
            {PICK: PICK.replace("[item]", "[0]")},
        ),
        Wrong(
            "heads-averaged",
            "You drew the average of the heads in every panel. Then nobody can see any single head.",
            {SHOW: SHOW.replace("(head,", "(heads.mean(axis=0),")},
            "pytorch/pytorch#34537",
        ),
        Wrong(
            "one-head-has-no-list",
            "With one head, `plt.subplots` returned a single axes, which you cannot loop over or index. Ask it not to "
            "squeeze.",
            {SUBPLOTS: SUBPLOTS.replace("squeeze=False, ", ""), "zip(axes[0], heads": "zip(axes, heads"},
        ),
        Wrong(
            "titles-from-zero",
            "You counted the titles from 0. The first head is “Head 1”.",
            {"strict=True), 1)": "strict=True), 0)"},
        ),
        Wrong(
            "colours-up-to-largest-of-all",
            "You ended the colours at the largest score of all sentences. Use the largest score of the item, or 1.",
            {SHOW: SHOW.replace("heads.max()", "np.max(scores)")},
        ),
        Wrong(
            "axes-off",
            "You switched the axes off after labelling them, so the labels cannot be seen.",
            {'panel.set_ylabel("Queries")': 'panel.set_ylabel("Queries")\n        panel.axis("off")'},
        ),
        Wrong(
            "colours-cyclic",
            "Your colours end with the one that they begin with, so it means two numbers.",
            {SHOW: SHOW.replace("vmin=0", 'cmap="twilight", vmin=0')},
        ),
        Wrong(
            "one-head-unlabelled",
            "If there is one head, you return before you set limits, title and labels. They belong to its panel too.",
            {
                PICK: PICK + "\n    if num_heads == 1:\n        figure, axes = plt.subplots()\n"
                "        axes.imshow(heads[0])\n        return figure"
            },
        ),
        Wrong(
            "axes-without-a-head",
            "You make more axes than there are heads, and leave one empty.",
            {
                SUBPLOTS: SUBPLOTS.replace("1, num_heads,", "1, num_heads + 1,"),
                "zip(axes[0], heads, strict=True)": "zip(axes[0], heads, strict=False)",
            },
        ),
    ),
    uses=("numpy", "matplotlib"),
    seconds=30.0,
)
