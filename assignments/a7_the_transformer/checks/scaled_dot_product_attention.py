"""What is checked of `scaled_dot_product_attention`; besides what stands here, the whole bank of mistakes is compared."""

import numpy as np

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard
from kmha.verify.chains import Trial

LOGITS = "logits = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(k.shape[-1])"
HIDDEN = "logits = np.where(allowed, logits, -np.inf)"
LARGEST = "largest = np.max(logits, axis=-1, keepdims=True)"
POWERS = "powers = np.exp(logits - np.where(np.isfinite(largest), largest, 0.0))"
TOTAL = "total = np.sum(powers, axis=-1, keepdims=True)"
WEIGHTS = "weights = powers / np.where(total == 0.0, 1.0, total)"
LAST = "return np.matmul(weights, v), weights"


def draw(rng):
    """A mask that hides something from every query but one, and never everything."""
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
    """No mask."""
    batch, rows, columns, features, values = sizes(rng, 5)
    return {
        "q": rng.normal(size=(batch, rows, features)),
        "k": rng.normal(size=(batch, columns, features)),
        "v": rng.normal(size=(batch, columns, values)),
        "mask": None,
    }


def draw_padding(rng):
    """A padding mask (B, 1, S), of sentences one of which is nothing but padding."""
    batch, rows, columns, features, values = sizes(rng, 5)
    mask = np.arange(columns) < rng.integers(1, columns + 1, batch)[:, None]
    mask[-1] = False
    return {
        "q": rng.normal(size=(batch, rows, features)),
        "k": rng.normal(size=(batch, columns, features)),
        "v": rng.normal(size=(batch, columns, values)),
        "mask": mask[:, None],
    }


def draw_large(rng):
    """Logits of thousands: weights that are 0 or 1, nearly."""
    found = draw(rng)
    return {**found, "q": 60.0 * found["q"], "k": 60.0 * found["k"]}


def shares(inputs, result, expected):
    """Rows of weights sum to 1, and nothing goes to what is hidden."""
    weights = np.asarray(result[1])
    if not (weights >= 0).all():
        return "there are weights that are negative, or no numbers."
    if np.any(weights[~np.broadcast_to(inputs["mask"], weights.shape)]):
        return "what is hidden has a weight that is not 0."
    if not np.allclose(weights.sum(axis=-1), 1.0):
        return "a query's weights do not sum to 1."
    return None


EXERCISE = Exercise(
    title="Scaled dot-product attention",
    question="Over which axis does the softmax go, which size is under the root, and is the mask applied before the "
    "softmax or after? (seed 003; lucidrains/vit-pytorch#65; labmlai/annotated_deep_learning_paper_implementations#146)",
    difficulty=2,
    minutes=20,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        Check("invariants", "weights sum to 1, and nothing goes to what is hidden", 2, draw, judge=shares),
        Check("edge", "without a mask", 1, draw_plain),
        Check("edge", "a query with nothing to attend to gets zeros, not NaN and not an average", 2, draw_padding),
        Check("edge", "logits of thousands do not overflow", 2, draw_large),
    ),
    wrong=(
        Wrong(
            "scale-missing",
            "The logits are not divided by the root of the number of a key's features: the more features, the sharper "
            "the softmax.",
            {LOGITS: LOGITS.replace(" / np.sqrt(k.shape[-1])", "")},
            "PAIR-code/tiny-transformers#71",
        ),
        Wrong(
            "scale-without-root",
            "The logits are divided by the number of a key's features: the root is missing.",
            {LOGITS: LOGITS.replace("np.sqrt(k.shape[-1])", "k.shape[-1]")},
            "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
        ),
        Wrong(
            "scale-keys",
            "Under the root is the number of keys: it is the number of features of one key.",
            {LOGITS: LOGITS.replace("k.shape[-1]", "k.shape[-2]")},
            "asked in phlippe/uvadlc_notebooks#72",
        ),
        Wrong(
            "softmax-over-queries",
            "The softmax goes over the queries, so that columns sum to 1: each query shares out over the keys.",
            {LARGEST: LARGEST.replace("-1", "-2"), TOTAL: TOTAL.replace("-1", "-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254",
        ),
        Wrong(
            "mask-inverted",
            "The mask is read the other way round: True means that a query may attend, and this hides just that.",
            {HIDDEN: "logits = np.where(allowed, -np.inf, logits) if mask is not None else logits"},
            "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        ),
        Wrong(
            "mask-after-softmax",
            "The mask is applied after the softmax, and the rows no longer sum to 1: what is hidden has taken its share.",
            {HIDDEN: "", LAST: "weights = weights * allowed\n    " + LAST},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "mask-zeroes-logits",
            "Hidden logits become 0: exp(0) is 1, so they keep a share, often a large one.",
            {HIDDEN: HIDDEN.replace("-np.inf", "0.0")},
            "georg-wolflein/good-features#1, awslabs/gluonts#1401, hyunwoongko/transformer#10",
        ),
        Wrong(
            "mask-missing",
            "The mask has no effect: everybody attends to everybody.",
            {HIDDEN: ""},
            "tensorflow/tensorflow#43941, yg211/bert_nli#3, tensorflow/addons#133",
        ),
        Wrong(
            "empty-row-averaged",
            "Where everything is hidden the weights are uniform: a large negative number in the place of -∞ leaves the "
            "softmax nothing else. The query has nothing to attend to, and is to get zeros.",
            {HIDDEN: HIDDEN.replace("-np.inf", "-1e9")},
            "keras.layers.MultiHeadAttention, where no scores are returned",
        ),
        Wrong(
            "empty-row-unmasked",
            "Where everything is hidden the weights are as if nothing were: -1e9 added to all logits of a row changes "
            "nothing in its softmax. The query has nothing to attend to, and is to get zeros.",
            {HIDDEN: "logits = logits + np.where(allowed, 0.0, -1e9)"},
        ),
        Wrong(
            "largest-of-hidden",
            "The largest logit that is taken off before exp is one that is hidden: where it is far above the others, "
            "nothing is left of them, and their sum is 0. Take off the largest of those that may be attended.",
            {HIDDEN: "", POWERS: "powers = np.exp(logits - largest) * allowed"},
        ),
        Wrong(
            "mask-empty-row-nan",
            "Where everything is hidden the weights are NaN: 0 is divided by 0 there.",
            {WEIGHTS: "weights = powers / total"},
            "pytorch/pytorch#143287, patrick-kidger/equinox#274, tracel-ai/burn#4697",
        ),
        Wrong(
            "softmax-overflow",
            "Large logits overflow: the row's largest is to be taken off before exp, which changes no weight.",
            {POWERS: "powers = np.exp(logits)"},
            "pytorch/executorch#18407, NVIDIA/FasterTransformer#43, mila-iqia/blocks#727",
        ),
        Wrong(
            "weights-not-returned",
            "The logits are returned with the output: the weights, after the softmax, are asked for.",
            {LAST: "return np.matmul(weights, v), logits"},
        ),
    ),
    bank=lambda inputs: Trial(
        "attention", inputs["q"][:, None], inputs["k"][:, None], inputs["v"][:, None], mask=inputs["mask"]
    ),
    bank_result=lambda state: (state["output"][:, 0], state["returned"][:, 0]),
)
