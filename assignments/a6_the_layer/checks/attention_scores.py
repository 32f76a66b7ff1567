"""The checks of `attention_scores`: masks, rows with nothing to attend to, float16."""

import numpy as np

from kmha.course.exercises import EXACT, Check, Exercise, Wrong, sizes, standard

WIDE = 'wide = keras.backend.result_type(query.dtype, "float32")'
LOGITS = 'logits = ops.einsum("BTHO,BSHO->BHTS", ops.cast(query, wide), ops.cast(key, wide))'
SCALED = "logits = logits / query.shape[-1] ** 0.5"
SOFTMAX = "scores = ops.softmax(ops.where(mask, logits, -1e30), axis=-1)"
ADDED = "scores = ops.softmax(logits + (1 - ops.cast(mask, logits.dtype)) * -1e9, axis=-1)"
ZEROS = "scores = ops.where(mask, scores, 0.0)"
PLAIN = "return ops.cast(ops.softmax(logits, axis=-1), query.dtype)"
AXIS = "mask = ops.expand_dims(mask, 1)"
DIGITS = 1e-11  # tolerance in float64, which rounds to 1e-16; float32 rounds to 1e-7


def draw(rng):
    """Return a mask (B, T, S) that hides something from every query, and never everything."""
    batch, rows, columns, heads, size = sizes(rng, 5)
    mask = rng.random((batch, rows, columns)) < 0.6
    np.put_along_axis(mask, rng.integers(0, columns, (batch, rows, 1)), False, axis=-1)
    np.put_along_axis(mask, rng.integers(0, columns, (batch, rows, 1)), True, axis=-1)
    return {
        "query": 1.5 * rng.normal(size=(batch, rows, heads, size)),
        "key": 1.5 * rng.normal(size=(batch, columns, heads, size)),
        "mask": mask,
    }


def draw_plain(rng):
    """Return inputs without a mask."""
    return {**draw(rng), "mask": None}


def draw_heads(rng):
    """Return a mask for each head, with one head in which a query has nothing to attend to."""
    found = draw(rng)
    batch, rows, heads, _ = found["query"].shape
    mask = rng.random((batch, heads, rows, found["key"].shape[1])) < 0.6
    mask[..., 0] = True
    mask[-1, -1, 0] = False
    return {**found, "mask": mask}


def draw_empty(rng):
    """Return a mask that hides everything from some queries."""
    found = draw(rng)
    found["mask"][:, 0] = False
    return found


def draw_single(rng):
    """Return a mask that shows a single key to every query, so that its score is 1, in any precision."""
    found = draw(rng)
    places = rng.integers(0, found["mask"].shape[-1], (*found["mask"].shape[:2], 1))
    return {**found, "mask": np.arange(found["mask"].shape[-1]) == places}


def draw_half(rng):
    """Return float16 inputs whose products overflow in either direction, with a row in which everything is hidden.

    Multiples of 8 make sums that float32 holds exactly: logits are equal, or so far apart that no rounding matters. The
    first key is hidden from all queries. Half of them would give it a logit that is larger than all others by more than
    65,504.
    """
    found = draw_empty(rng)
    batch, rows = found["query"].shape[:2]
    direction = rng.choice([-1.0, 1.0], found["query"].shape[-1:])
    signs = (-1.0) ** np.add.outer(np.arange(batch), np.arange(rows))[..., None, None]
    query = 8 * signs * direction * rng.integers(27, 34, found["query"].shape)
    key = 8 * direction * rng.integers(27, 34, found["key"].shape)
    key[:, 0] *= 2
    found["mask"][:, 1:, 1] = True
    found["mask"][:, :, 0] = False
    return {"query": query.astype(np.float16), "key": key.astype(np.float16), "mask": found["mask"]}


def draw_sharp(rng):
    """Return logits of about 5 in either direction, which half precision rounds, and a mask (B, 1, S)."""
    found = draw(rng)
    query, key = (np.round(2 * found[name]) / 2 for name in ("query", "key"))  # exact in every dtype
    return {"query": 2 * query, "key": key, "mask": found["mask"][:, :1]}


def draw_double(rng):
    """Return inputs whose scores need the digits of float64."""
    return draw(rng)


def called(answer, inputs):
    """Return the scores in float64."""
    return answer.attention_scores(**worker_api.tensors(inputs, "float64"))


def shapes(answer, inputs):
    """Return the scores for a mask of each head, and for masks with sizes of 1."""
    mask = inputs["mask"]
    masks = {
        "(B, H, T, S)": mask,
        "(B, 1, T, S)": mask[:, :1],
        "(B, 1, 1, S)": mask[:, :1, :1],
        "(1, T, S)": mask[:1, 0],
    }
    return {
        shape: answer.attention_scores(**worker_api.tensors({**inputs, "mask": each}, "float64"))
        for shape, each in masks.items()
    }


def half(answer, inputs):
    """Return the scores in float16, and their dtypes, with a mask and without."""
    import keras

    made = [
        answer.attention_scores(**worker_api.tensors({**inputs, "mask": mask}, "float16"))
        for mask in (inputs["mask"], None)
    ]
    dtypes = [keras.backend.standardize_dtype(scores.dtype) for scores in made]
    return {"scores": [np.asarray(scores, "float32") for scores in made], "dtypes": dtypes}


def rounded(answer, inputs):
    """Return the scores in float32, and the dtype that they had, for each dtype, with a mask and without."""
    import keras

    made = {}
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for when, mask in (("with", inputs["mask"]), ("without", None)):
            scores = answer.attention_scores(**worker_api.tensors({**inputs, "mask": mask}, dtype))
            name = keras.backend.standardize_dtype(scores.dtype)
            made[f"{dtype}, {when} a mask"] = [np.asarray(keras.ops.cast(scores, "float32")), name]
    return made


def gradients(answer, inputs):
    """Return the gradients with respect to query and key of a call that is traced for any batch and any length."""
    import tensorflow as tf

    signature = [tf.TensorSpec((None, None, *inputs[name].shape[2:]), "float64") for name in ("query", "key")]
    traced = tf.function(
        lambda query, key, mask: answer.attention_scores(query, key, mask),
        input_signature=[*signature, tf.TensorSpec((None, None, None), "bool")],
    )
    found = worker_api.gradients(traced, inputs, ["query", "key"])
    return [found["query"], found["key"]]


def right_half(inputs, result, expected):
    """Check that the scores are finite, zeros where hidden, and near the solution's."""
    for dtype, when in zip(result["dtypes"], ("with", "without"), strict=True):
        if dtype != "float16":
            return f"{when} a mask, the scores are {dtype}, expected float16, the query's dtype."
    for scores, wanted, when in zip(result["scores"], expected["scores"], ("with", "without"), strict=True):
        if not np.isfinite(scores).all():
            return f"{when} a mask, {(~np.isfinite(scores)).sum()} of {np.size(scores)} scores are NaN or infinite."
        # Right answers round such logits differently. `rounded` finds a softmax in half precision.
        if np.shape(scores) != np.shape(wanted) or not np.allclose(scores, wanted, atol=2e-2):
            return f"{when} a mask, the scores are not those of a softmax in float32."
    return None


def right_rounded(inputs, result, expected):
    """Check that the scores have the query's dtype, and that they are as near as this dtype allows."""
    digits = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 1e-5, "float64": 1e-5}
    for call, (wanted, name) in expected.items():
        scores, dtype = result[call]
        if dtype != name:
            return f"for a query of {call}, the scores are {dtype}, expected the query's dtype."
        if np.shape(scores) != wanted.shape or not np.allclose(scores, wanted, rtol=1.01 * digits[name], atol=1e-7):
            return f"for a query of {call}, the scores are not as exact as {name} allows."
    return None


EXERCISE = Exercise(
    title="The scores: scaled, masked, and safe in half precision",
    question="Why is the loss NaN with float16, or with a sentence that is all padding? (pytorch/pytorch#143287, "
    "google/flax#982, ultralytics/ultralytics#24990)",
    difficulty=3,
    minutes=30,
    uses=("numpy", "keras", "tensorflow"),
    forbids=(
        "MultiHeadAttention",
        "GroupQueryAttention",
        "Attention",
        "AdditiveAttention",
        "dot_product_attention",
    ),
    checks=(
        *standard(draw, signature=1, shape=1, values=3, ask=called, times=2),
        Check("edge", "without a mask", 1, draw_plain, called, times=1),
        Check("edge", "with a mask for each head, and with sizes of 1 in masks", 1, draw_heads, shapes, times=1),
        Check("edge", "a row with nothing to attend to is zeros", 1, draw_empty, called, times=1),
        Check("edge", "a query that sees a single key gives it the score 1", 1, draw_single, called, tolerance=EXACT),
        Check(
            "gradient",
            "traced for sentences of any length, with its gradient, in rows with nothing to attend to as well",
            2,
            draw_empty,
            gradients,
            times=1,
        ),
        Check("edge", "in float16, products beyond 65,504", 2, draw_half, half, right_half, times=1),
        Check("edge", "in float64, with all its digits", 1, draw_double, called, times=1, tolerance=DIGITS),
        Check("edge", "in every dtype: rounded once, at the end", 1, draw_sharp, rounded, right_rounded, times=1),
    ),
    wrong=(
        Wrong(
            "scale-missing",
            "You do not divide the logits by the root of the head size.",
            {SCALED: ""},
            "PAIR-code/tiny-transformers#71",
        ),
        Wrong(
            "scale-without-root",
            "You divide the logits by the head size: the root is missing.",
            {SCALED: SCALED.replace(" ** 0.5", "")},
            "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
        ),
        Wrong(
            "scale-heads",
            "You take the root of the number of heads. The head size is the last axis.",
            {SCALED: SCALED.replace("shape[-1]", "shape[-2]")},
            "Vaswani et al. 2017, section 3.2.1",
        ),
        Wrong(
            "softmax-over-queries",
            "Your softmax runs over the queries. Each query distributes its scores over the keys, the last axis.",
            {SOFTMAX: SOFTMAX.replace("axis=-1", "axis=-2"), PLAIN: PLAIN.replace("axis=-1", "axis=-2")},
            "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254",
        ),
        Wrong(
            "mask-inverted",
            "You read the mask the other way round. True means *attend*.",
            {'mask = ops.cast(mask, "bool")': "mask = ops.logical_not(mask)"},
            "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        ),
        Wrong(
            "mask-multiplied",
            "You multiplied the logits by the mask. Hidden logits become 0, and exp(0) is 1, so they keep a share.",
            {
                SOFTMAX: "scores = ops.softmax(logits * ops.cast(mask, logits.dtype), axis=-1)",
                ZEROS: "scores = scores + 0",
            },
            "hyunwoongko/transformer#10",
        ),
        Wrong(
            "mask-after-softmax",
            "You apply the mask only after the softmax. Hidden keys have already taken their share, so rows do not sum to 1.",
            {SOFTMAX: "scores = ops.softmax(logits, axis=-1)"},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "empty-row-averaged",
            "Your rows with nothing to attend to are uniform instead of zeros. If all logits of a row are the same very negative number, the softmax is uniform.",
            {ZEROS: ""},
            "keras.layers.MultiHeadAttention, where no scores are returned",
        ),
        Wrong(
            "empty-row-unmasked",
            "Where everything is hidden, your scores look as if nothing were. Adding the same number to all logits of a row, "
            "as -1e9, does not change its softmax. Set such a row to zeros.",
            {SOFTMAX: ADDED, ZEROS: ""},
        ),
        Wrong(
            "added-in-half",
            "You add (1 - mask) · -1e9 in float16, which cannot hold -1e9. It becomes -∞, and 0 · -∞ is NaN where nothing is "
            "hidden. Convert query and key to float32 first, or choose with `ops.where`.",
            {LOGITS: 'logits = ops.einsum("BTHO,BSHO->BHTS", query, key)', SOFTMAX: ADDED},
        ),
        Wrong(
            "mask-empty-row-nan",
            "Your rows with nothing to attend to are NaN: all their logits are -∞, and the softmax divides 0 by 0.",
            {SOFTMAX: SOFTMAX.replace("-1e30", 'float("-inf")'), ZEROS: ""},
            "pytorch/pytorch#143287, patrick-kidger/equinox#274, tracel-ai/burn#4697",
        ),
        Wrong(
            "half-logits-overflow",
            "In float16, query · key overflows before you widen anything. A product that is already ∞ does not come back.",
            {LOGITS: 'logits = ops.cast(ops.einsum("BTHO,BSHO->BHTS", query, key), wide)'},
            "ultralytics/ultralytics#24990, pytorch/pytorch#119131, stanford-crfm/mistral#66",
        ),
        Wrong(
            "softmax-in-half",
            "In half precision your softmax has only the digits of the query's dtype. Take it in float32, and round the "
            "scores once, at the end.",
            {
                SOFTMAX: "scores = ops.softmax(ops.cast(ops.where(mask, logits, -1e30), query.dtype), axis=-1)",
                PLAIN: "return ops.softmax(ops.cast(logits, query.dtype), axis=-1)",
            },
        ),
        Wrong(
            "bfloat16-not-widened",
            "You widen float16 only. bfloat16 does not overflow, but it has even fewer digits.",
            {WIDE: 'wide = "float32" if query.dtype == "float16" else query.dtype'},
        ),
        Wrong(
            "float64-narrowed",
            "You compute in float32 also when the query is float64, and lose half of its digits. Widen float16 and bfloat16 "
            "to float32, and leave float64 as it is.",
            {WIDE: 'wide = "float32"'},
        ),
        Wrong(
            "root-in-float32",
            "Your root of O is a float32 number, as `ops.sqrt` makes it, so float64 scores have only its digits. O is a "
            "plain number: take its root with `** 0.5`.",
            {SCALED: 'logits = logits / ops.cast(ops.sqrt(ops.cast(query.shape[-1], "float32")), wide)'},
        ),
        Wrong(
            "heads-share-axis",
            "Your mask's batch lines up with the heads. A mask of three axes needs one more for the heads, between B and T.",
            {AXIS: "mask = ops.expand_dims(mask, 0)"},
            "seed 001",
        ),
        Wrong(
            "returned-float32",
            "Your scores stay float32 when the query is float16. Cast them back to the query's dtype.",
            {"return ops.cast(scores, query.dtype)": "return scores"},
        ),
        Wrong(
            "empty-row-of-one-head",
            "With a mask of four axes, a row with nothing to attend to gets equal scores. It must get zeros, as with three.",
            {ZEROS: ZEROS + " if mask.shape[1] == 1 else scores"},
        ),
        Wrong(
            "mask-through-numpy",
            "You turn the mask into a NumPy array. While a model is traced, the mask holds no numbers yet.",
            {
                'mask = ops.cast(mask, "bool")': "import numpy as np\n\n"
                "    mask = ops.convert_to_tensor(np.asarray(mask, bool))"
            },
        ),
        Wrong(
            "fill-too-small",
            "Your number for hidden logits is not negative enough. Visible logits can be below it, and then the hidden "
            "key takes their share.",
            {SOFTMAX: SOFTMAX.replace("-1e30", "-65504.0")},
        ),
        Wrong(
            "too-little-added",
            "You add a negative number to the hidden logits, and a hidden logit can be larger than the visible ones by more "
            "than that. Replace the hidden logits by a very negative number, or add one that no logit outweighs.",
            {SOFTMAX: "scores = ops.softmax(logits - 1e4 * (1 - ops.cast(mask, logits.dtype)), axis=-1)"},
        ),
        Wrong(
            "hidden-share-left",
            "Your hidden keys get a small share, because you set only whole rows to 0. A hidden key gets exactly 0.",
            {
                SOFTMAX: SOFTMAX.replace("-1e30", "-30.0"),
                ZEROS: "scores = ops.where(ops.any(mask, axis=-1, keepdims=True), scores, 0.0)",
            },
        ),
        Wrong(
            "half-overflow-without-mask",
            "Without a mask, you do not widen before the product, so it overflows in float16.",
            {
                PLAIN: 'logits = ops.cast(ops.einsum("BTHO,BSHO->BHTS", query, key), wide) / query.shape[-1] ** 0.5\n'
                "        " + PLAIN
            },
        ),
        Wrong(
            "mask-for-each-item",
            "You take a mask for each item of the batch. A mask whose first size is 1 is one for all items.",
            {AXIS: AXIS + "\n    mask = ops.stack([mask[item] for item in range(ops.shape(query)[0])])"},
        ),
        Wrong(
            "sizes-from-shape",
            "You read sizes of batch and sentences from `shape`, which holds `None` while a model is traced.",
            {
                ZEROS: "batch, rows, heads, _ = query.shape\n"
                "    mask = ops.broadcast_to(mask, (batch, heads, rows, key.shape[1]))\n    " + ZEROS
            },
        ),
        Wrong(
            "softmax-over-heads",
            "Your softmax runs over the heads. Each head has scores of its own, which sum to one over the keys, the last axis.",
            {SOFTMAX: SOFTMAX.replace("axis=-1", "axis=1"), PLAIN: PLAIN.replace("axis=-1", "axis=1")},
        ),
        Wrong(
            "sigmoid-for-softmax",
            "You use a sigmoid instead of a softmax, so a query's scores do not sum to one.",
            {
                SOFTMAX: "scores = ops.sigmoid(ops.where(mask, logits, -1e30))",
                PLAIN: PLAIN.replace("softmax(logits, axis=-1)", "sigmoid(logits)"),
            },
        ),
        Wrong(
            "mask-added-to-allowed",
            "You add the large negative number where the mask is True. True means *attend*, so you hide what should be seen.",
            {SOFTMAX: "scores = ops.softmax(logits + ops.cast(mask, logits.dtype) * -1e30, axis=-1)"},
        ),
        Wrong(
            "logits-returned",
            "With a mask, you return the logits. Return the scores, after the softmax.",
            {"return ops.cast(scores, query.dtype)": "return ops.cast(logits, query.dtype)"},
        ),
        Wrong(
            "added-to-sum",
            "You add a small number to the sum of the exponentials, so the scores of a row sum to less than 1. Divide "
            "by the sum itself. Where a row has nothing to attend to, write the zeros afterwards, with `ops.where`.",
            {
                SOFTMAX: "logits = ops.where(mask, logits, -1e30)\n"
                "    powers = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))\n"
                "    scores = powers / (ops.sum(powers, axis=-1, keepdims=True) + 1e-6)",
                PLAIN: "powers = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))\n"
                "        return ops.cast(powers / (ops.sum(powers, axis=-1, keepdims=True) + 1e-6), query.dtype)",
            },
            "the 1e-6 or 1e-9 of many own softmaxes",
        ),
        Wrong(
            "heads-axis-always",
            "You add an axis for the heads to every mask. A mask of four axes already has it: look at the number of axes.",
            {"    if len(mask.shape) == 3:\n        " + AXIS: "    " + AXIS},
        ),
        Wrong(
            "returned-float32-always",
            "Your scores stay float32 when the query is float16, with a mask and without. Cast them back to the query's "
            "dtype.",
            {"return ops.cast(scores, query.dtype)": "return scores", PLAIN: "return ops.softmax(logits, axis=-1)"},
        ),
    ),
)
