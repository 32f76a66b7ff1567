"""The checks of `program_04`. The mistake in it is `mask-after-softmax`."""

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "mask-after-softmax"
MASKED = "logits = np.where(mask[b], logits, -np.inf)"
MIXED = "output[b, h] = scores @ value[b, h]"


def draw(rng):
    """Return inputs in which every query may attend to some key, and most not to all."""
    batch, heads, rows, columns, size = sizes(rng, 5)
    mask = rng.random((batch, rows, columns)) < 0.5
    mask[..., 0] |= ~mask.any(axis=-1)
    query = rng.normal(size=(batch, heads, rows, size))
    query[::2] *= 100  # so that no finite number but a very negative one hides a logit
    key, value = (rng.normal(size=(batch, heads, columns, size)) for _ in range(2))
    return {"query": query, "key": key, "value": value, "mask": mask}


def trial(inputs):
    """Return the call for the bank."""
    return Trial("asked", inputs["query"], inputs["key"], inputs["value"], mask=inputs["mask"])


EXERCISE = Exercise(
    title="Program 4: one head of one sentence at a time",
    question="The masked scores are zero, so what is wrong with them? (huggingface/pytorch-image-models#2236)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "mask-after-softmax",
            NOT_FIXED,
            {MASKED: "pass", MIXED: "output[b, h] = np.where(mask[b], scores, 0.0) @ value[b, h]"},
            "huggingface/pytorch-image-models#2236",
        ),
        Wrong(
            "mask-zeroes-logits",
            "You set hidden logits to 0. The exponential of 0 is 1, so they keep a share.",
            {MASKED: MASKED.replace("-np.inf", "0.0")},
            "georg-wolflein/good-features#1, awslabs/gluonts#1401, hyunwoongko/transformer#10",
        ),
        Wrong(
            "mask-added-ones",
            "You add the mask to the logits as 1 and 0. A hidden logit then loses 1, not everything.",
            {MASKED: "logits = logits + mask[b]"},
            "huggingface/transformers#41443",
        ),
        Wrong(
            "mask-zeroed-before-and-after",
            "You set hidden logits to 0 before the softmax and hidden scores to 0 after it. The rows still sum to less than one.",
            {
                MASKED: MASKED.replace("-np.inf", "0.0"),
                MIXED: MIXED.replace("scores", "np.where(mask[b], scores, 0.0)"),
            },
        ),
        Wrong(
            "mask-missing",
            "Your program no longer hides anything.",
            {MASKED: "pass"},
            "tensorflow/tensorflow#43941, yg211/bert_nli#3, tensorflow/addons#133",
        ),
        Wrong(
            "mask-inverted",
            "You hide what may be attended to. In this mask, True means attend.",
            {MASKED: MASKED.replace("mask[b]", "~mask[b]")},
            "nyu-mll/jiant#465, InseeFrLab/torchTextClassifiers#92",
        ),
        Wrong(
            "mask-inverted-finite",
            "You hide what may be attended to, with a finite number. In this mask, True means attend.",
            {MASKED: "logits = np.where(mask[b], -1e9, logits)"},
        ),
        Wrong(
            "mask-items-as-heads",
            "You take the masks by head. Each sentence has its own mask, which all its heads share.",
            {MASKED: MASKED.replace("mask[b]", "mask[h % len(mask)]")},
        ),
        Wrong(
            "mask-of-first-item",
            "You use the first sentence's mask for all sentences. Each has its own.",
            {MASKED: MASKED.replace("mask[b]", "mask[0]")},
        ),
        Wrong(
            "fill-too-small",
            "Your number for hidden logits is not negative enough: visible logits can be far below zero too.",
            {MASKED: MASKED.replace("-np.inf", "-30.0")},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
