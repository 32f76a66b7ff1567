"""The checks of `scaled_dot_product_attention`; the whole bank of mistakes is compared too."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard
from kmha.verify.chains import Trial

LOGITS = "logits = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(k.shape[-1])"
ALLOWED = "np.broadcast_to(mask, logits.shape)"
HIDDEN = "logits = np.where(allowed, logits, -np.inf)"
LARGEST = "largest = np.max(logits, axis=-1, keepdims=True)"
POWERS = "powers = np.exp(logits - np.where(np.isfinite(largest), largest, 0.0))"
TOTAL = "total = np.sum(powers, axis=-1, keepdims=True)"
WEIGHTS = "weights = powers / np.where(total == 0.0, 1.0, total)"
LAST = "return np.matmul(weights, v), weights"


def draw(rng):
    """Return a mask that hides something from every query but one, and never everything."""
    batch, rows, columns, features, values = sizes(rng, 5)
    mask = rng.random((batch, rows, columns)) < 0.6
    np.put_along_axis(mask, rng.integers(0, columns, (batch, rows, 1)), False, axis=-1)
    np.put_along_axis(mask, rng.integers(0, columns, (batch, rows, 1)), True, axis=-1)
    mask[0, 0] = True
    return {
        "q": 1.5 * rng.normal(size=(batch, rows, features)),
        "k": 1.5 * rng.normal(size=(batch, columns, features)),
        "v": rng.normal(size=(batch, columns, values)),
        "mask": mask,
    }


def draw_plain(rng):
    """Return inputs without a mask, with values that are integers."""
    batch, rows, columns, features, values = sizes(rng, 5)
    return {
        "q": rng.normal(size=(batch, rows, features)),
        "k": rng.normal(size=(batch, columns, features)),
        "v": rng.integers(-9, 10, (batch, columns, values)),
        "mask": None,
    }


def draw_padding(rng):
    """Return a padding mask (B, 1, S) with one sentence that is only padding."""
    batch, rows, columns, features, values = sizes(rng, 5)
    mask = np.arange(columns) < rng.integers(1, columns + 1, batch)[:, None]
    mask[-1] = False
    return {
        "q": rng.normal(size=(batch, rows, features)),
        "k": rng.normal(size=(batch, columns, features)),
        "v": rng.normal(size=(batch, columns, values)),
        "mask": mask[:, None],
    }


def draw_common(rng):
    """Return one mask (1, T, S) for all items of the batch. `common` passes it without its first axis too."""
    found = draw(rng)
    return {**found, "mask": found["mask"][-1:]}


def draw_large(rng):
    """Return logits of hundreds of thousands, below 0 in every other row, with weights that are nearly 0 or 1."""
    found = draw(rng)
    q, k = 60.0 * found["q"], 60.0 * found["k"]
    q[..., 0], k[..., 0] = 1000.0 * (-1.0) ** np.arange(q.shape[1]), 1000.0  # the same for all keys of a query
    return {**found, "q": q, "k": k}


def common(answer, inputs):
    """Return the result for a mask (1, T, S), and that for a mask (T, S)."""
    masks = {"(1, T, S)": inputs["mask"], "(T, S)": inputs["mask"][0]}
    return {shape: answer.scaled_dot_product_attention(**{**inputs, "mask": mask}) for shape, mask in masks.items()}


def shares(inputs, result, expected):
    """Check that rows of weights sum to 1, and that hidden keys get nothing."""
    weights = np.asarray(result[1])
    if not (weights >= 0).all():
        return "some weights are negative or not numbers."
    if np.any(weights[~np.broadcast_to(inputs["mask"], weights.shape)]):
        return "a hidden key has a weight other than 0."
    if not np.allclose(weights.sum(axis=-1), 1.0):
        return "a query's weights do not sum to 1."
    return None


EXERCISE = Exercise(
    title="Scaled dot-product attention",
    question="Over which axis does the softmax run, which size is under the root, and is the mask applied before the softmax or after it? (seed 003; lucidrains/vit-pytorch#65; labmlai/annotated_deep_learning_paper_implementations#146)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        Check("invariants", "weights sum to 1, and nothing goes to what is hidden", 2, draw, judge=shares),
        Check("edge", "without a mask, and with integers as values", 1, draw_plain),
        Check("edge", "a query with nothing to attend to gets zeros, not NaN and not an average", 2, draw_padding),
        Check("edge", "logits of hundreds of thousands", 1, draw_large),
        Check("edge", "one mask for all items of the batch, (1, T, S) or (T, S)", 1, draw_common, common),
    ),
    wrong=(
        Wrong(
            "scale-missing",
            "You do not divide the logits by the root of the number of a key's features. The more features, the sharper your softmax.",
            {LOGITS: LOGITS.replace(" / np.sqrt(k.shape[-1])", "")},
            "PAIR-code/tiny-transformers#71",
        ),
        Wrong(
            "scale-without-root",
            "You divide the logits by the number of a key's features: the root is missing.",
            {LOGITS: LOGITS.replace("np.sqrt(k.shape[-1])", "k.shape[-1]")},
            "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
        ),
        Wrong(
            "scale-keys",
            "You take the root of the number of keys. Take the root of the number of features of one key.",
            {LOGITS: LOGITS.replace("k.shape[-1]", "k.shape[-2]")},
            "asked in phlippe/uvadlc_notebooks#72",
        ),
        Wrong(
            "scale-values",
            "You take the root of the number of a value's features. Take that of a key's features, which are multiplied "
            "and summed.",
            {LOGITS: LOGITS.replace("k.shape", "v.shape")},
        ),
        Wrong(
            "scale-queries",
            "You take the root of the number of queries. Take the root of the number of features of one key.",
            {LOGITS: LOGITS.replace("k.shape[-1]", "q.shape[-2]")},
        ),
        Wrong(
            "softmax-over-queries",
            "Your softmax runs over the queries, so columns sum to 1. Each query distributes its weights over the keys.",
            {LARGEST: LARGEST.replace("-1", "-2"), TOTAL: TOTAL.replace("-1", "-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254",
        ),
        Wrong(
            "mask-inverted",
            "You read the mask the other way round. True means *attend*, and you hide exactly that.",
            {HIDDEN: "logits = np.where(allowed, -np.inf, logits) if mask is not None else logits"},
            "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        ),
        Wrong(
            "mask-after-softmax",
            "You apply the mask after the softmax. Hidden keys have already taken their share, so the rows no longer sum to 1.",
            {HIDDEN: "", LAST: "weights = weights * allowed\n    " + LAST},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "mask-zeroes-logits",
            "You set hidden logits to 0. exp(0) is 1, so they keep a share, often a large one.",
            {HIDDEN: HIDDEN.replace("-np.inf", "0.0")},
            "georg-wolflein/good-features#1, awslabs/gluonts#1401, hyunwoongko/transformer#10",
        ),
        Wrong(
            "mask-missing",
            "Your mask has no effect: every query attends to every key.",
            {HIDDEN: ""},
            "tensorflow/tensorflow#43941, yg211/bert_nli#3, tensorflow/addons#133",
        ),
        Wrong(
            "empty-row-averaged",
            "Where everything is hidden, your weights are uniform. A large negative number instead of -∞ does that, and so does 1 as each hidden exponential of such a row. The query has nothing to attend to and must get zeros.",
            {HIDDEN: HIDDEN.replace("-np.inf", "-1e9")},
            "keras.layers.MultiHeadAttention, where no scores are returned",
        ),
        Wrong(
            "empty-row-unmasked",
            "Where everything is hidden, your weights look as if nothing were. Adding the same number to all logits of a row, as -1e9, does not change its softmax. Such a query has nothing to attend to and must get zeros.",
            {HIDDEN: "logits = logits + np.where(allowed, 0.0, -1e9)"},
        ),
        Wrong(
            "fill-too-small",
            "You fill hidden logits with a number that visible ones can be below. It is then the largest of its row, and "
            "nothing is left of the visible ones. Nothing is below -∞.",
            {HIDDEN: HIDDEN.replace("-np.inf", "-1e4"), POWERS: POWERS + " * allowed"},
        ),
        Wrong(
            "fill-too-small-in-empty-rows-too",
            "You fill hidden logits with a number that is not negative enough: visible ones can be far below it, as they are below -100 or -1e4. It is then the largest of its row, and takes everything. And where everything is hidden, the weights are uniform instead of 0. Nothing is below -∞.",
            {HIDDEN: HIDDEN.replace("-np.inf", "-1e4")},
        ),
        Wrong(
            "softmax-sum-larger",
            "You add a small number to the sum of the exponentials, so rows do not quite sum to 1. A sum is 0 only where everything is hidden; treat that case by itself.",
            {WEIGHTS: "weights = powers / (total + 1e-6)"},
        ),
        Wrong(
            "largest-of-hidden",
            "You subtract the largest logit before exp, but it may be a hidden one. If it is far above the others, nothing is left of them, and their sum is 0. Subtract the largest visible logit.",
            {HIDDEN: "", POWERS: "powers = np.exp(logits - largest) * allowed"},
        ),
        Wrong(
            "mask-empty-row-nan",
            "Where everything is hidden, your weights are NaN: by 0 / 0, where a sum of no exponentials divides, or by -∞ - (-∞), where the largest logit is subtracted.",
            {WEIGHTS: "weights = powers / total"},
            "pytorch/pytorch#143287, patrick-kidger/equinox#274, tracel-ai/burn#4697",
        ),
        Wrong(
            "softmax-overflow",
            "Large logits overflow. Subtract the row's largest before exp, which changes no weight.",
            {POWERS: "powers = np.exp(logits)"},
            "pytorch/executorch#18407, NVIDIA/FasterTransformer#43, mila-iqia/blocks#727",
        ),
        Wrong(
            "mask-for-each-item",
            "You take a mask for each item of the batch. A mask whose first size is 1, as the look-ahead mask, is one for "
            "all items.",
            {ALLOWED: "np.stack([np.broadcast_to(mask[item], logits.shape[1:]) for item in range(len(q))])"},
        ),
        Wrong(
            "weights-not-returned",
            "You return the logits with the output. Return the weights after the softmax.",
            {LAST: "return np.matmul(weights, v), logits"},
        ),
        Wrong(
            "mask-two-axes-as-padding",
            "You take a mask of two axes for the padding of each item. It broadcasts to (B, T, S), so it is (T, S), one "
            "for all items.",
            {ALLOWED: "np.broadcast_to(mask[:, None] if mask.ndim == 2 else mask, logits.shape)"},
        ),
        Wrong(
            "output-in-values-dtype",
            "Your output has the dtype of the values. If these are integers, the fractions of the output are lost.",
            {LAST: "return np.matmul(weights, v).astype(v.dtype), weights"},
        ),
        Wrong(
            "none-hides-all",
            "You use the mask even if it is None, and NumPy takes None for False: everything is hidden. Without a mask, "
            "nothing is.",
            {"np.ones(logits.shape, bool) if mask is None else ": ""},
        ),
    ),
    bank=lambda inputs: Trial(
        "attention", inputs["q"][:, None], inputs["k"][:, None], inputs["v"][:, None], mask=inputs["mask"]
    ),
    bank_result=lambda state: (state["output"][:, 0], state["returned"][:, 0]),
)
