"""Checks of `half_precision`: overflow, rounding, and rows with nothing to attend to."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard

CAST = "query, key, value = (array.astype(np.float32) for array in (query, key, value))"
LOGITS = "logits = (query / query.shape[-1] ** 0.5) @ np.swapaxes(key, -1, -2)"
MASKED = "masked = np.where(mask[:, None], logits, -np.inf)"
LARGEST = "np.where(np.isfinite(largest), largest, 0.0)"
POWERS = f"powers = np.exp(masked - {LARGEST})"
RETURN = "return (scores @ value).astype(np.float16)"
# A right answer may round once more than the solution does: float16 has 11 bits.
TOLERANCE = 2e-3


def draw_inputs(rng, query_scale, key_scale, size, empty=0.0):
    """Return float16 inputs with masks that hide something. A share of the rows is empty."""
    batch, heads, queries, keys = sizes(rng, 4, least=3)
    mask = rng.random((batch, queries, keys)) < 0.6
    place = rng.integers(keys, size=(batch, queries, 1))
    np.put_along_axis(mask, (place + 1) % keys, False, axis=-1)
    np.put_along_axis(mask, place, True, axis=-1)
    if empty:
        mask &= rng.random((batch, queries, 1)) >= empty
        mask[rng.integers(batch), rng.integers(queries)] = False
    return {
        "query": (query_scale * rng.normal(size=(batch, heads, queries, size))).astype(np.float16),
        "key": (key_scale * rng.normal(size=(batch, heads, keys, size))).astype(np.float16),
        "value": rng.normal(size=(batch, heads, keys, size)).astype(np.float16),
        "mask": mask,
    }


def draw(rng):
    """Draw numbers of ordinary size."""
    return draw_inputs(rng, 1.0, 1.0, int(rng.integers(10, 20)))


def draw_empty(rng):
    """Draw some rows that may attend to nothing."""
    return draw_inputs(rng, 1.0, 1.0, int(rng.integers(10, 20)), empty=0.3)


def draw_overflow(rng):
    """Draw products beyond 65,504 before they are scaled and after. In every other row they are below -65,504."""
    inputs = draw_inputs(rng, 1.0, 1.0, 64)
    signs = np.sign(rng.normal(size=(*inputs["query"].shape[:2], 1, 64)))
    turned = (-1.0) ** np.arange(inputs["query"].shape[2])[:, None]
    # Whole numbers, so that float32 sums them exactly in any order.
    query = np.round(turned * signs * 120 + inputs["query"] * 3)
    key = np.round(signs * 120 + inputs["key"] * 3)
    return inputs | {"query": query.astype(np.float16), "key": key.astype(np.float16)}


def draw_rounding(rng):
    """Draw scaled logits of some hundreds that differ by one or two. The steps of float16 are 0.25 or 0.5 there.

    The keys are far apart, so that rounding of the scaled query shows too, and √48 is no power of two.
    """
    inputs = draw_inputs(rng, 0.1, 1.0, 48)
    base = rng.uniform(7, 11, size=(*inputs["query"].shape[:2], 1, 48)) * rng.choice([-1, 1], size=48)
    apart = rng.normal(scale=20, size=inputs["key"].shape)
    apart -= base * np.sum(apart * base, axis=-1, keepdims=True) / np.sum(base**2, axis=-1, keepdims=True)
    # Multiples of 1/16, so that float32 sums their products exactly.
    query = np.round(16 * (base + inputs["query"])) / 16
    key = np.round(16 * (9.5 * np.sign(base) + apart)) / 16
    return inputs | {"query": query.astype(np.float16), "key": key.astype(np.float16)}


def draw_small_scores(rng):
    """Draw one key with nearly all the weight and a value of zeros. float16 holds few digits of the other scores."""
    inputs = draw_inputs(rng, 1.0, 0.1, 64)
    query, key, value, mask = (array.copy() for array in inputs.values())
    signs = np.sign(rng.normal(size=(*query.shape[:2], 64)))
    place = int(rng.integers(key.shape[2]))
    query = signs[:, :, None] * rng.uniform(1.3, 1.4, size=(*query.shape[:3], 1))
    key[:, :, place] = 1.35 * signs
    value *= 1000
    value[:, :, place] = 0
    mask[..., place] = True
    return {"query": query.astype(np.float16), "key": key, "value": value, "mask": mask}


def judge_dtype(inputs, result, expected):
    result = np.asarray(result)
    if result.shape != expected.shape:
        return f"it has the shape {result.shape}, expected {expected.shape}."
    return None if result.dtype == np.float16 else f"it is {result.dtype}, expected float16."


EXERCISE = Exercise(
    title="Half precision",
    question="Why is there a NaN in float16 and none in float32? (pytorch/pytorch#119131, google/flax#982)",
    difficulty=3,
    minutes=25,
    checks=(
        *standard(draw, signature=1),
        Check("shape", "the result is float16 and has the right shape", 2, draw, judge=judge_dtype),
        Check("values", "every element is right, for numbers of ordinary size", 3, draw, tolerance=TOLERANCE),
        Check(
            "edge", "products of query and key beyond 65,504 and below -65,504", 3, draw_overflow, tolerance=TOLERANCE
        ),
        Check("edge", "large logits that lie close together", 2, draw_rounding, tolerance=TOLERANCE),
        Check("edge", "scores of which float16 holds few digits", 1, draw_small_scores, tolerance=TOLERANCE),
        Check("edge", "rows with nothing to attend to", 2, draw_empty, tolerance=TOLERANCE),
        *standard(draw_empty, unchanged=1),
    ),
    wrong=(
        Wrong(
            "half-logits-overflow",
            "You multiplied query and key in float16, where the product overflows before it is scaled, and rows "
            "become NaN. Casting the product afterwards is too late: it is ∞ already. Cast query and key first.",
            {CAST: "", LOGITS: "logits = (query @ np.swapaxes(key, -1, -2)) / query.shape[-1] ** 0.5"},
            "ultralytics/ultralytics#24990, pytorch/pytorch#119131, stanford-crfm/mistral#66",
        ),
        Wrong(
            "half-product-cast",
            "You multiply query and key in float16. Where the product exceeds 65,504, it is ∞, and it is too late to cast it. "
            "Cast query and key first.",
            {
                CAST: "",
                LOGITS: "logits = (query @ np.swapaxes(key, -1, -2)).astype(np.float32) / query.shape[-1] ** 0.5",
            },
        ),
        Wrong(
            "half-logits-rounded",
            "You scaled the query before the product, so it overflows later, if at all. But the product is still in "
            "float16, which rounds large logits to steps of 0.5 and more. Cast query and key first.",
            {CAST: "", LOGITS: LOGITS.replace("key, -1, -2)", "key, -1, -2)\n    logits = logits.astype(np.float32)")},
        ),
        Wrong(
            "half-softmax",
            "You took the exponentials in float16. It holds few digits of small numbers, so small scores are wrong. Stay "
            "in float32 until the very end.",
            {POWERS: f"powers = np.exp((masked - {LARGEST}).astype(np.float16))"},
        ),
        Wrong(
            "half-mix",
            "You cast the scores to float16 before you mixed the values. It holds few digits of small scores. Cast the "
            "output, and nothing before it.",
            {RETURN: "return scores.astype(np.float16) @ value.astype(np.float16)"},
        ),
        Wrong(
            "half-mask-times-infinity",
            "You multiplied the mask by -1e9, which is -∞ in float16. (1 - mask) · -∞ is NaN wherever nothing is "
            "hidden. Choose between the numbers instead.",
            {MASKED: "masked = logits + (1.0 - mask[:, None]) * np.float16(-1e9)"},
            "google/flax#982, openai/gpt-2#122",
        ),
        Wrong(
            "half-mask-infinite",
            "A row with nothing to attend to becomes NaN: all its logits are -∞, as is -1e9 in float16. Guard the "
            "largest logit of such a row.",
            {LARGEST: "largest"},
            "facebookresearch/fairseq#3575, tatp22/linformer-pytorch#19",
        ),
        Wrong(
            "half-mask-least",
            "You filled hidden logits with a finite number, such as -1e9 or the lowest number of float16. A row with "
            "nothing to attend to then attends to everything equally; it must give zeros.",
            {MASKED: MASKED.replace("-np.inf", "np.finfo(np.float16).min")},
        ),
        Wrong(
            "half-fill-finite",
            "You filled hidden logits with a finite number, such as the lowest one of float16. Visible logits can be below "
            "it in float32, and then the hidden keys take their share. Fill with -∞.",
            {
                MASKED: MASKED.replace("-np.inf", "-65504.0"),
                RETURN: "output = np.where(mask.any(axis=-1)[:, None, :, None], scores @ value, 0)\n"
                "    return output.astype(np.float16)",
            },
        ),
        Wrong(
            "result-not-half",
            "You did not cast the result back. Someone who passes float16 gets wider numbers, and everything that follows "
            "takes more memory.",
            {RETURN: "return scores @ value"},
        ),
        Wrong(
            "softmax-overflow",
            "Your exponentials overflow, even in float32. Subtract the largest logit of each row first.",
            {LARGEST: "0.0"},
            "NVIDIA/FasterTransformer#43",
        ),
        Wrong(
            "scale-missing",
            "You did not divide the logits by √O.",
            {LOGITS: LOGITS.replace("(query / query.shape[-1] ** 0.5)", "query")},
        ),
        Wrong(
            "mask-missing",
            "Your mask has no effect: every position attends to every other. Hide the logits where the mask is False.",
            {MASKED: "masked = logits"},
        ),
        Wrong(
            "query-scaled-in-half",
            "You scaled the query in float16, which rounds every element. Cast query and key first.",
            {
                CAST: "query = query / query.shape[-1] ** 0.5\n    " + CAST,
                LOGITS: LOGITS.replace("(query / query.shape[-1] ** 0.5)", "query"),
            },
        ),
        Wrong(
            "mask-changed",
            "You wrote into the mask that you were given. Whoever uses it next finds rows that attend to everything.",
            {
                MASKED: "empty = ~mask.any(axis=-1)\n    mask[empty] = True\n    " + MASKED,
                RETURN: "output = np.where(empty[:, None, :, None], 0, scores @ value)\n    return output.astype(np.float16)",
            },
        ),
        Wrong(
            "empty-row-averaged",
            "A row with nothing to attend to is averaged over all values, because all its logits are the same very "
            "negative number. It must give zeros.",
            {MASKED: MASKED.replace("-np.inf", "-1e30")},
        ),
        Wrong(
            "fill-too-small",
            "You fill hidden logits with a number that visible ones can be below in float32. It is then the largest of its "
            "row, and nothing is left of the visible ones. Nothing is below -∞.",
            {
                MASKED: MASKED.replace("-np.inf", "-65504.0"),
                RETURN: "scores = np.where(mask[:, None], scores, 0)\n    " + RETURN,
            },
        ),
        Wrong(
            "mask-inverted",
            "You hide where the mask is True. True means that t may attend to s.",
            {MASKED: "masked = np.where(mask[:, None], -np.inf, logits)"},
            "PyTorch's attention modules, where True means hidden",
        ),
        Wrong(
            "softmax-over-queries",
            "You took the softmax over the queries. Each query distributes its scores over the keys, the last axis.",
            {
                "masked.max(axis=-1, keepdims=True)": "masked.max(axis=-2, keepdims=True)",
                "powers.sum(axis=-1, keepdims=True)": "powers.sum(axis=-2, keepdims=True)",
            },
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Wrong(
            "scale-without-root",
            "You divided the logits by O instead of √O.",
            {LOGITS: LOGITS.replace(" ** 0.5", "")},
            "delzac/cntkx#10",
        ),
        Wrong(
            "logits-clipped",
            "You cut large logits off at a bound. Beyond it they are all equal, and their scores too. In float32 they need "
            "no bound, if you subtract the largest one of each row.",
            {MASKED: "logits = np.clip(logits, -80, 80)\n    " + MASKED},
        ),
    ),
)
