"""Checks of `mask_order`."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard

HIDDEN = "hidden = ~mask[:, None]"
FIRST = "(logits - taken_off) / np.sqrt(size)"
THEN = "logits / np.sqrt(size) - taken_off"
POWERS = "np.exp(logits - logits.max(axis=-1, keepdims=True))"
RETURN = "return np.sum(mask_first * hidden, axis=-1), np.sum(scale_first * hidden, axis=-1)"


def draw_mask(rng, batch, queries, keys):
    """Return a boolean mask, (B, T, S), with an allowed and a hidden position in every row."""
    mask = rng.random((batch, queries, keys)) < 0.5
    open_ = rng.integers(keys, size=(batch, queries, 1))
    np.put_along_axis(mask, (open_ + 1) % keys, False, axis=-1)
    np.put_along_axis(mask, open_, True, axis=-1)
    return mask


def draw(rng):
    """Draw a small penalty, so that something leaks in both orders."""
    batch, heads, queries, keys, size = sizes(rng, 5, least=3)
    return {
        "logits": rng.normal(size=(batch, heads, queries, keys)) * np.sqrt(size),
        "mask": draw_mask(rng, batch, queries, keys),
        "size": size,
        "penalty": float(rng.uniform(2, 4)),
    }


def draw_large(rng):
    """Draw logits of thousands, and a penalty of 10,000 that is enough in only one order.

    A hidden logit of each head is far larger than all others, so that it leaks in the other order.
    """
    inputs = draw(rng)
    logits, mask = np.clip(inputs["logits"] * 1000, -8000, 8000), inputs["mask"]
    for sentence, head in np.ndindex(logits.shape[:2]):
        query = rng.integers(logits.shape[2])
        logits[sentence, head, query, np.argmin(mask[sentence, query])] = 20_000.0
    return inputs | {"logits": logits, "size": 64, "penalty": 10_000.0}


def judge_leaks(inputs, result, expected):
    """Compare shares of a row.

    Where 0 is expected, one minus the rest of the row may differ from it by rounding.
    """
    for order, one, other in zip(("before", "after"), result, expected, strict=True):
        if np.shape(one) != other.shape:
            return f"the leaks have the shape {np.shape(one)}, expected {other.shape}."
        wrong = ~np.isclose(one, other, rtol=0, atol=1e-6)
        if wrong.any():
            first = tuple(int(index) for index in np.argwhere(wrong)[0])
            yours = np.asarray(one)[first]
            return (
                f"{wrong.sum():,} of {wrong.size:,} leaks differ if the penalty is subtracted {order} the scaling, "
                f"the first at {list(first)}: yours is {'NaN' if np.isnan(yours) else f'{yours:.4g}'}."
            )
    return None


EXERCISE = Exercise(
    title="Mask first, or scale first?",
    question="An article adds the mask and then scales: is the other order the same? (seed 003)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, tolerance=EXACT),
        Check("edge", "logits of thousands and a penalty of 10,000", 2, draw_large, judge=judge_leaks),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "orders-exchanged",
            "You exchanged the two orders. The first result is the one that also divides the penalty.",
            {
                # the blank keeps the two edits apart
                f"mask_first = softmax({FIRST})": f"mask_first = softmax({THEN} )",
                f"scale_first = softmax({THEN})": f"scale_first = softmax({FIRST})",
            },
        ),
        Wrong(
            "order-does-not-matter",
            "You used the same order for both results, the one that scales first. In the first result, √O divides the "
            "penalty too.",
            {FIRST: THEN},
            "seed 003",
        ),
        Wrong(
            "scale-after-mask",
            "You used the same order for both results, the one that divides the penalty by √O. The second result "
            "subtracts the whole penalty.",
            {THEN: FIRST},
            "seed 003; awf/functional-transformer#8",
        ),
        Wrong(
            "mask-inverted",
            "You inverted the mask. True means that t may attend to s.",
            {HIDDEN: "hidden = mask[:, None]"},
            "PyTorch's attention modules, where True means hidden",
        ),
        Wrong(
            "share-kept",
            "You returned the share that the allowed positions keep. The leak is the sum over the hidden positions.",
            {RETURN: RETURN.replace("* hidden", "* ~hidden")},
        ),
        Wrong(
            "scale-without-root",
            "You divided the logits by O instead of √O.",
            {FIRST: FIRST.replace("np.sqrt(size)", "size"), THEN: THEN.replace("np.sqrt(size)", "size")},
            "delzac/cntkx#10",
        ),
        Wrong(
            "penalty-times-root",
            "You multiplied the penalty by √O. After the scale, it is taken off as it is.",
            {THEN: THEN + " * np.sqrt(size)"},
        ),
        Wrong(
            "mask-filled",
            "You set hidden logits to minus the penalty. Subtract the penalty from them.",
            {
                FIRST: "np.where(hidden, -penalty, logits) / np.sqrt(size)",
                THEN: "np.where(hidden, -penalty, logits / np.sqrt(size))",
            },
        ),
        Wrong(
            "softmax-over-queries",
            "You took the softmax over the queries, so that columns sum to one. Take it over the keys.",
            {
                "logits.max(axis=-1, keepdims=True)": "logits.max(axis=-2, keepdims=True)",
                "powers.sum(axis=-1, keepdims=True)": "powers.sum(axis=-2, keepdims=True)",
            },
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "softmax-overflow",
            "Your exponentials overflow. Subtract the largest logit of each row first.",
            {POWERS: "np.exp(logits)"},
            "NVIDIA/FasterTransformer#43",
        ),
        Wrong(
            "leak-averaged",
            "You averaged the leak over the row. It is the sum: the share of the row that leaks.",
            {RETURN: RETURN.replace("np.sum", "np.mean")},
        ),
        Wrong(
            "penalty-on-allowed",
            "You subtract the penalty where the mask is True, or you add it where it is False. Either pushes attention to "
            "the hidden positions.",
            {"taken_off = penalty * hidden": "taken_off = -penalty * hidden"},
        ),
        Wrong(
            "second-not-scaled",
            "In the second result, you do not divide the logits by √O. Both orders scale the logits; they differ in the "
            "penalty.",
            {THEN: "logits - taken_off"},
        ),
        Wrong(
            "first-not-scaled",
            "In the first result, you divide only the penalty by √O. The brackets are missing: logits and penalty are "
            "divided together.",
            {FIRST: "logits - taken_off / np.sqrt(size)"},
        ),
        Wrong(
            "scale-from-keys",
            "You divide by the root of the last size of the logits, which is the number of keys. O is the argument `size`.",
            {
                FIRST: FIRST.replace("size", "logits.shape[-1]"),
                THEN: THEN.replace("size", "logits.shape[-1]"),
            },
        ),
        Wrong(
            "penalty-taken-twice",
            "You changed `logits` itself for the first result, and took the penalty off once more for the second. Keep "
            "the argument as it is.",
            {
                "    taken_off = penalty * hidden": "    taken_off = penalty * hidden\n    logits -= taken_off",
                FIRST: "logits / np.sqrt(size)",
            },
        ),
    ),
)
