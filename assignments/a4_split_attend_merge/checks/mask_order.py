"""What is checked of `mask_order`."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

HIDDEN = "hidden = ~mask[:, None]"
FIRST = "(logits - taken_off) / np.sqrt(size)"
THEN = "logits / np.sqrt(size) - taken_off"
POWERS = "np.exp(logits - logits.max(axis=-1, keepdims=True))"
RETURN = "return np.sum(mask_first * hidden, axis=-1), np.sum(scale_first * hidden, axis=-1)"


def masks(rng, batch, queries, keys):
    """Boolean (B, T, S), with something to attend to in every row, and something hidden."""
    mask = rng.random((batch, queries, keys)) < 0.5
    open_ = rng.integers(keys, size=(batch, queries, 1))
    np.put_along_axis(mask, (open_ + 1) % keys, False, axis=-1)
    np.put_along_axis(mask, open_, True, axis=-1)
    return mask


def draw(rng):
    """A small penalty, so that something leaks in both orders."""
    batch, heads, queries, keys, size = sizes(rng, 5, least=3)
    return {
        "logits": rng.normal(size=(batch, heads, queries, keys)) * np.sqrt(size),
        "mask": masks(rng, batch, queries, keys),
        "size": size,
        "penalty": float(rng.uniform(2, 4)),
    }


def draw_large(rng):
    """Logits of thousands, and a penalty of 10,000 that is enough in one order only."""
    inputs = draw(rng)
    return inputs | {"logits": inputs["logits"] * 1000, "size": 64, "penalty": 10_000.0}


def leaks(inputs, result, expected):
    """Shares of a row: where 0 is expected, one minus the rest of the row may differ from it by rounding."""
    for order, one, other in zip(("before", "after"), result, expected, strict=True):
        if np.shape(one) != other.shape:
            return f"the leaks have the shape {np.shape(one)}, expected {other.shape}."
        wrong = ~np.isclose(one, other, rtol=0, atol=1e-6)
        if wrong.any():
            first = tuple(int(index) for index in np.argwhere(wrong)[0])
            yours = np.asarray(one)[first]
            return (
                f"{wrong.sum():,} of {wrong.size:,} leaks differ where the penalty is taken off {order} the scaling, "
                f"the first at {list(first)}: yours is {'NaN' if np.isnan(yours) else f'{yours:.4g}'}."
            )
    return None


EXERCISE = Exercise(
    title="Mask first, or scale first?",
    question="The mask is added and the result then scaled: is the other order the same? (seed 003)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=5),
        Check("edge", "logits of thousands, and a penalty of 10,000", 2, draw_large, judge=leaks),
        *standard(draw, unchanged=1),
    ),
    wrong=(
        Wrong(
            "orders-exchanged",
            "The two orders are exchanged: the first result is the one in which the penalty is divided as well.",
            {
                # the blank keeps the two edits apart
                f"mask_first = softmax({FIRST})": f"mask_first = softmax({THEN} )",
                f"scale_first = softmax({THEN})": f"scale_first = softmax({FIRST})",
            },
        ),
        Wrong(
            "order-does-not-matter",
            "Both results are of the same order: the penalty is divided by √O in one of them, and not in the other.",
            {FIRST: THEN},
            "seed 003",
        ),
        Wrong(
            "scale-after-mask",
            "Both results are of the same order, the one that shrinks the penalty by √O.",
            {THEN: FIRST},
            "seed 003; awf/functional-transformer#8",
        ),
        Wrong(
            "mask-inverted",
            "The mask is inverted: True means that t may attend to s.",
            {HIDDEN: "hidden = mask[:, None]"},
            "PyTorch's attention modules, where True means hidden",
        ),
        Wrong(
            "share-kept",
            "What the rows keep is given in place of what leaks: the sum is to go over the hidden positions.",
            {RETURN: RETURN.replace("* hidden", "* ~hidden")},
        ),
        Wrong(
            "scale-without-root",
            "The logits are divided by O in place of √O.",
            {FIRST: FIRST.replace("np.sqrt(size)", "size"), THEN: THEN.replace("np.sqrt(size)", "size")},
            "delzac/cntkx#10",
        ),
        Wrong(
            "mask-filled",
            "The penalty stands in the place of hidden logits: it is to be taken off them.",
            {
                FIRST: "np.where(hidden, -penalty, logits) / np.sqrt(size)",
                THEN: "np.where(hidden, -penalty, logits / np.sqrt(size))",
            },
        ),
        Wrong(
            "softmax-over-queries",
            "The softmax runs over the queries in place of the keys: columns sum to one.",
            {
                "logits.max(axis=-1, keepdims=True)": "logits.max(axis=-2, keepdims=True)",
                "powers.sum(axis=-1, keepdims=True)": "powers.sum(axis=-2, keepdims=True)",
            },
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "softmax-overflow",
            "The exponentials overflow: the row's largest logit is not taken off before.",
            {POWERS: "np.exp(logits)"},
            "NVIDIA/FasterTransformer#43",
        ),
        Wrong(
            "leak-averaged",
            "The leak is averaged over the row: it is the sum, the share of the row's whole score.",
            {RETURN: RETURN.replace("np.sum", "np.mean")},
        ),
    ),
)
