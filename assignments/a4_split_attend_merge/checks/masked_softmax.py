"""Checks of `masked_softmax`, with empty rows and with hidden logits that are not finite."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard

MASKED = "masked = np.where(mask[:, None], logits, -np.inf)"
LARGEST = "largest = masked.max(axis=-1, keepdims=True)"
GUARD = "np.where(np.isfinite(largest), largest, 0.0)"
SCORES = "scores = powers / np.where(total == 0, 1.0, total)"
GRADIENT = "gradient = scores * (upstream - np.sum(scores * upstream, axis=-1, keepdims=True))"
RETURN = "return scores, gradient"


def draw(rng):
    """Draw an allowed and a hidden position in every row."""
    batch, heads, queries, keys = sizes(rng, 4, least=3)
    mask = rng.random((batch, queries, keys)) < 0.5
    place = rng.integers(keys, size=(batch, queries, 1))
    np.put_along_axis(mask, (place + 1) % keys, False, axis=-1)
    np.put_along_axis(mask, place, True, axis=-1)
    logits, upstream = rng.normal(size=(2, batch, heads, queries, keys))
    return {"logits": logits, "mask": mask, "upstream": upstream}


def draw_empty(rng):
    """Draw some rows that may attend to nothing."""
    inputs = draw(rng)
    batch, queries, _ = inputs["mask"].shape
    empty = rng.random((batch, queries)) < 0.3
    empty[rng.integers(batch), rng.integers(queries)] = True
    return inputs | {"mask": inputs["mask"] & ~empty[..., None]}


def draw_far(rng):
    """Draw logits of hundreds of thousands, below 0 in every other row. The hidden ones are far larger than the others."""
    inputs = draw(rng)
    shape = inputs["logits"].shape
    rows = 2e5 * (1 + rng.random((*shape[:3], 1))) * (-1.0) ** np.arange(shape[2])[:, None]
    return inputs | {"logits": inputs["logits"] + rows + np.where(inputs["mask"][:, None], 0.0, 2000.0)}


def draw_any(rng):
    """Draw hidden logits that are infinite or NaN, in rows that may attend to nothing too."""
    inputs = draw_empty(rng)
    rubbish = rng.choice([np.inf, -np.inf, np.nan], size=inputs["logits"].shape)
    return inputs | {"logits": np.where(inputs["mask"][:, None], inputs["logits"], rubbish)}


def ask_without_nan(answer, inputs):
    """Call it so that whatever makes a NaN from other numbers raises an error, whether or not the NaN is mended later."""
    import contextlib
    import sys

    class Ignored(contextlib.ContextDecorator, contextlib.nullcontext):
        def __init__(self, **kinds):
            super().__init__()

    class Fixed:
        def set(self, state):
            return None

        def reset(self, token):
            return None

    np.seterr(invalid="raise")
    # The answer may have imported `errstate` and `seterr` by name: NumPy 2 keeps what they set in this variable.
    np.errstate.__enter__.__globals__["_extobj_contextvar"] = Fixed()
    np.errstate = Ignored

    own, left = sys._getframe(), []
    says = "your code computes in another context or thread. Here, it must not."

    def watch(frame, event, called):
        """NumPy keeps in each context what it does with a NaN: another context, or a thread, has the defaults."""
        name, owner = getattr(called, "__name__", ""), type(getattr(called, "__self__", None)).__name__
        leaves = owner in ("Context", "ContextVar") or name == "setprofile" or name.startswith("start_")
        if event == "c_call" and leaves and frame is not own:
            left.append(name)  # Python no longer calls what has raised an error
            raise RuntimeError(says)

    sys.setprofile(watch)
    result = answer.masked_softmax(**inputs)
    watched = sys.getprofile() is watch
    sys.setprofile(None)
    if left or not watched:
        raise RuntimeError(says)
    return result


EXERCISE = Exercise(
    title="Rows with nothing to attend to",
    question="Where does the NaN come from, if all inputs are finite? (pytorch/pytorch#143287; seed 003 on masks)",
    difficulty=3,
    minutes=25,
    checks=(
        *standard(draw, signature=1, shape=1),
        Check("values", "every element of scores and gradient is right, if no row is empty", 4, draw, tolerance=EXACT),
        Check("edge", "rows with nothing to attend to get zeros, and no gradient", 2, draw_empty),
        Check("edge", "logits of hundreds of thousands, the hidden ones far larger than the others", 2, draw_far),
        *standard(draw_empty, unchanged=1),
        # These come last, in this order: what the first does to NumPy lasts, so that NaN raises an error in both.
        Check(
            "edge",
            "no NaN arises in rows with nothing to attend to, neither on the way there nor on the way back",
            2,
            draw_empty,
            ask_without_nan,
        ),
        Check("edge", "hidden logits that are infinite or NaN, in empty rows too", 2, draw_any),
    ),
    wrong=(
        Wrong(
            "mask-empty-row-nan",
            "A row with nothing to attend to becomes NaN, because all its logits are -∞. Subtract 0 there instead of "
            "its largest logit, and divide by 1 instead of its sum.",
            {GUARD: "largest"},
            "pytorch/pytorch#143287, patrick-kidger/equinox#274, tracel-ai/burn#4697",
        ),
        Wrong(
            "gradient-without-the-sum",
            "You left the sum out of the gradient. A larger logit takes from the other scores of its row, too: subtract the "
            "row's sum of scores times upstream.",
            {GRADIENT: "gradient = scores * upstream"},
        ),
        Wrong(
            "gradient-summed-over-queries",
            "The sum in your gradient goes over the queries. Each row of scores has a softmax of its own: sum over its keys, "
            "the last axis.",
            {GRADIENT: GRADIENT.replace("axis=-1", "axis=-2")},
        ),
        Wrong(
            "softmax-overflow",
            "Your exponentials overflow where logits are large: subtract the largest logit of each row first.",
            {f"np.exp(masked - {GUARD})": "np.exp(masked)"},
        ),
        Wrong(
            "softmax-one-largest",
            "You subtract the largest of all logits. Rows whose own logits are far smaller then become 0: subtract each "
            "row's own largest logit.",
            {LARGEST: "largest = masked.max()"},
        ),
        Wrong(
            "nan-mended-at-the-end",
            "You set NaN to 0 in the finished scores. The gradient still goes through the NaN: do not let it arise.",
            {GUARD: "largest", RETURN: "return np.nan_to_num(scores), gradient"},
            "pytorch/pytorch#41508",
        ),
        Wrong(
            "nan-mended-twice",
            "You set NaN to 0 in the finished scores, or in scores and gradient. The NaN arose all the same, and in a "
            "framework that computes the gradient itself, it would be in all weights after one step. Do not let it arise.",
            {GUARD: "largest", RETURN: "return np.nan_to_num(scores), np.nan_to_num(gradient)"},
            "pytorch/pytorch#41508",
        ),
        Wrong(
            "empty-row-uniform",
            "A row with nothing to attend to attends to everything equally, because all its logits are the same "
            "finite number. Its scores must be 0.",
            {MASKED: MASKED.replace("-np.inf", "-1e9")},
            "code that fills masks with -1e9",
        ),
        Wrong(
            "empty-row-as-unmasked",
            "A row with nothing to attend to attends as if there were no mask, because you added the same number to "
            "all its logits. Its scores must be 0.",
            {MASKED: "masked = logits + np.where(mask[:, None], 0.0, -1e9)"},
            "code that adds -1e9",
        ),
        Wrong(
            "fill-too-small",
            "You fill hidden logits with a number that visible ones can be below, or you subtract a number that is no "
            "logit of the row, such as 0. It is then larger than all visible ones, and nothing is left of them. Only -∞ "
            "is below every logit.",
            {MASKED: MASKED.replace("-np.inf", "-1e4"), SCORES: SCORES + " * mask[:, None]"},
        ),
        Wrong(
            "mask-after-softmax",
            "You applied the mask after the softmax, so rows sum to less than one. Apply it to the logits.",
            {MASKED: "masked = logits", SCORES: SCORES + " * mask[:, None]"},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "softmax-largest-of-hidden",
            "You subtracted the largest of all logits of the row, hidden ones included. If a hidden one is far "
            "larger, every exponential that counts becomes 0. Hide first, then take the largest.",
            {LARGEST: "largest = logits.max(axis=-1, keepdims=True)"},
        ),
        Wrong(
            "gradient-diagonal",
            "Your gradient is s · (1 - s) · g, as if each score depended only on its own logit. The scores of a row "
            "share their sum, so each depends on all logits of the row.",
            {GRADIENT: "gradient = scores * (1 - scores) * upstream"},
            "the derivative of a sigmoid, or the diagonal of the softmax's",
        ),
        Wrong(
            "gradient-without-scores",
            "You subtracted the average, but did not multiply by the scores. A position of weight 0 has no gradient.",
            {GRADIENT: GRADIENT.replace("scores * (upstream", "(upstream")},
        ),
        Wrong(
            "gradient-unweighted-sum",
            "In the gradient, you summed g alone. Weight each element of g by its score.",
            {GRADIENT: GRADIENT.replace("np.sum(scores * upstream", "np.sum(upstream")},
        ),
        Wrong(
            "gradient-mean",
            "In the gradient, you subtracted the mean of g. Weight each element of g by its score.",
            {GRADIENT: GRADIENT.replace("np.sum(scores * upstream", "np.mean(upstream")},
        ),
        Wrong(
            "gradient-past-softmax",
            "You passed the gradient on as if there were no softmax. Use the formula of the text.",
            {GRADIENT: "gradient = upstream * mask[:, None]"},
        ),
        Wrong(
            "empty-row-opened",
            "You let a row with nothing to attend to attend to everything, and set its scores to 0 afterwards. If its logits "
            "are infinite or NaN, so are its scores. Do not compute with hidden logits.",
            {
                MASKED: "opened = mask | ~mask.any(axis=-1, keepdims=True)\n    "
                "masked = np.where(opened[:, None], logits, -np.inf)",
                SCORES: SCORES + " * mask[:, None]",
            },
        ),
        Wrong(
            "mask-changed",
            "You wrote into the mask that you were given. Whoever uses it next finds rows that attend to everything.",
            {
                MASKED: "empty = ~mask.any(axis=-1)\n    mask[empty] = True\n    " + MASKED,
                RETURN: "shown = ~empty[:, None, :, None]\n"
                "    return np.where(shown, scores, 0), np.where(shown, gradient, 0)",
            },
        ),
        Wrong(
            "mask-inverted",
            "You hide where the mask is True. True means that t may attend to s.",
            {MASKED: "masked = np.where(mask[:, None], -np.inf, logits)"},
            "PyTorch's attention modules, where True means hidden",
        ),
        Wrong(
            "gradient-sum-over-all",
            "In the gradient, you summed s · g over the whole array. Each row has a sum of its own: sum over the keys.",
            {GRADIENT: "gradient = scores * (upstream - np.sum(scores * upstream))"},
        ),
        Wrong(
            "logits-clipped",
            "You cut large logits off at a bound. Beyond it they are all equal, and their scores too. Large logits stay "
            "apart if you subtract the largest one of each row.",
            {
                f"np.exp(masked - {GUARD})": "np.exp(np.clip(np.where(mask[:, None], logits, 0.0), -500, 500)) "
                "* mask[:, None]"
            },
        ),
    ),
)
