"""What is checked of `draw_heads`: what the figure shows."""

import numpy as np

from kmha.course.exercise import Check, Exercise, Wrong, sizes

SHOW = "panel.imshow(head, vmin=0, vmax=heads.max())"
PICK = "heads = scores.reshape(-1, num_heads, *scores.shape[1:])[item]"
SUBPLOTS = "plt.subplots(1, num_heads, squeeze=False, figsize=(3 * num_heads, 3))"


def some(rng, heads, batch, rows, columns):
    """Heads that are sharp to a different degree, so that each would choose other colours."""
    logits = rng.normal(size=(batch, heads, rows, columns)) * (1 + 2 * np.arange(heads))[:, None, None]
    scores = np.exp(logits)
    scores = (scores / scores.sum(axis=-1, keepdims=True)).reshape(batch * heads, rows, columns)
    return {"scores": scores, "num_heads": heads, "item": int(rng.integers(1, batch)) if batch > 1 else 0}


def draw(rng):
    return some(rng, *sizes(rng, 4, least=3, most=6))


def draw_one(rng):
    """One head: there is no list of axes."""
    return some(rng, 1, *sizes(rng, 3, least=3, most=6))


def shown(answer, inputs):
    panels = asks.figure(answer.draw_heads(**inputs))["panels"]
    return [{name: panel[name] for name in ("image", "limits", "title", "x", "y")} for panel in panels]


def images(inputs, result, expected):
    if len(result) != len(expected):
        return f"it has {len(result)} axes with an image, and there are {len(expected)} heads."
    for number, (panel, right) in enumerate(zip(result, expected, strict=True), 1):
        if np.shape(panel["image"]) != np.shape(right["image"]):
            shape = np.shape(panel["image"])
            return f"panel {number} shows an image of shape {shape}, and the scores are {np.shape(right['image'])}."
        if not np.allclose(panel["image"], right["image"], atol=1e-6):
            return f"panel {number} does not show the scores of head {number} of this item."
    return None


def colours(inputs, result, expected):
    limits = np.array([panel["limits"] for panel in result])
    if not len(limits):
        return "no axes has an image."
    if not np.allclose(limits, limits[0]):
        return "the panels have different limits of colour."
    least, largest = limits[0]
    if abs(least) > 1e-9 or largest < max(panel["image"].max() for panel in expected) - 1e-9 or largest > 1 + 1e-9:
        return f"the colours go from {least:.3g} to {largest:.3g}."
    return None


def words(inputs, result, expected):
    for number, (panel, right) in enumerate(zip(result, expected, strict=True), 1):
        for name, called in (("title", "title"), ("x", "label of x"), ("y", "label of y")):
            if panel[name].strip() != right[name]:
                return f"panel {number} has the {called} {panel[name]!r}."
    return None


EXERCISE = Exercise(
    title="What each head looks at",
    question="How are the attention weights of each head drawn? (seed 001, a textbook's forum: exercise 1)",
    difficulty=2,
    minutes=20,
    checks=(
        Check("signature", "it has the arguments of the starter", 1),
        Check("values", "every panel shows its head's scores", 3, draw, shown, images, times=2),
        Check("invariants", "one colour means one number in all panels", 3, draw, shown, colours, times=2),
        Check("values", "titles and labels", 2, draw, shown, words, times=2),
        Check("edge", "one head", 1, draw_one, shown, images, times=1),
    ),
    wrong=(
        Wrong(
            "own-colours",
            "Each panel has limits of colour of its own: the same colour means another number in every head.",
            {SHOW: "panel.imshow(head)"},
        ),
        Wrong(
            "colours-up-to-own-largest",
            "Each panel's colours end at its own head's largest score: the heads cannot be compared.",
            {SHOW: "panel.imshow(head, vmin=0, vmax=head.max())"},
        ),
        Wrong(
            "scores-transposed",
            "The images are transposed: rows are to be queries, columns keys.",
            {SHOW: SHOW.replace("(head,", "(head.T,")},
        ),
        Wrong(
            "labels-exchanged",
            "The labels are exchanged: the columns are the keys.",
            {
                'panel.set_xlabel("Keys")': 'panel.set_xlabel("Queries")',
                'panel.set_ylabel("Queries")': 'panel.set_ylabel("Keys")',
            },
        ),
        Wrong(
            "heads-before-batch",
            "The first axis is taken apart as (H, B): the panels show heads of several sentences.",
            {PICK: "heads = scores.reshape(num_heads, -1, *scores.shape[1:])[:, item]"},
        ),
        Wrong(
            "always-the-first-item",
            "The first item is drawn, whichever is asked for.",
            {PICK: PICK.replace("[item]", "[0]")},
        ),
        Wrong(
            "heads-averaged",
            "Every panel shows the average of the heads: then there is nothing to see of any of them.",
            {SHOW: SHOW.replace("(head,", "(heads.mean(axis=0),")},
            "pytorch/pytorch#34537",
        ),
        Wrong(
            "one-head-has-no-list",
            "With one head the axes are no array, and cannot be looped over or indexed.",
            {SUBPLOTS: SUBPLOTS.replace("squeeze=False, ", ""), "zip(axes[0], heads": "zip(axes, heads"},
        ),
        Wrong(
            "titles-from-zero",
            "The titles count from 0.",
            {"strict=True), 1)": "strict=True), 0)"},
        ),
    ),
    uses=("numpy", "matplotlib"),
    seconds=30.0,
)
