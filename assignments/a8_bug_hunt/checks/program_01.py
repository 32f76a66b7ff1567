"""The checks of `program_01`. The mistake in it is `scale-all-heads`."""

from kmha.course.exercises import EXACT, Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "scale-all-heads"
DIVIDED = "/ np.sqrt(size)"


def draw(rng):
    """Return several heads, so that the mistake shows, and logits that are far from equal."""
    batch, rows, columns, features, heads, size, outputs = sizes(rng, 7)
    kernels = {
        f"{role}_kernel": rng.normal(scale=features**-0.5, size=(heads, features, size))
        for role in ("query", "key", "value")
    }
    return {
        "query": rng.normal(size=(batch, rows, features)),
        "value": rng.normal(size=(batch, columns, features)),
        **kernels,
        "output_kernel": rng.normal(size=(heads, size, outputs)),
    }


def trial(inputs):
    """Return the call for the bank."""
    weights = {f"{role}/kernel": inputs[f"{role}_kernel"] for role in ("query", "key", "value")}
    weights["attention_output/kernel"] = inputs["output_kernel"]
    return Trial("asked", inputs["query"], inputs["value"], inputs["value"], weights)


EXERCISE = Exercise(
    title="Program 1: einsum from end to end",
    question="Why does the model with eight heads attend more evenly than the one with a single head? (lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1, tolerance=EXACT),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "scale-all-heads",
            NOT_FIXED,
            {DIVIDED: "/ np.sqrt(query_kernel.shape[0] * size)"},
            "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
        ),
        Wrong(
            "scale-missing",
            "You removed the division. The logits then grow with the head size, and the softmax saturates.",
            {DIVIDED: ""},
            "PAIR-code/tiny-transformers#71",
        ),
        Wrong(
            "scale-without-root",
            "You divide the logits by O, not by its root. The scores are still too even, now also with one head.",
            {DIVIDED: "/ size"},
            "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
        ),
        Wrong(
            "scale-all-heads-without-root",
            "You divide the logits by H·O. The number is wrong, and its root is missing.",
            {DIVIDED: "/ (query_kernel.shape[0] * size)"},
        ),
        Wrong(
            "scale-features",
            "You divide the logits by √I. A logit sums over the features of a head, not over those of the input.",
            {DIVIDED: "/ np.sqrt(query.shape[-1])"},
            "FareedKhan-dev/train-llm-from-scratch#3, karpathy/ng-video-lecture#6",
        ),
        Wrong(
            "scale-keys",
            "You divide the logits by √S. The number of keys says nothing about how large a product is.",
            {DIVIDED: "/ np.sqrt(value.shape[1])"},
            "asked in phlippe/uvadlc_notebooks#72",
        ),
        Wrong(
            "scale-heads",
            "You divide the logits by √H. That factor was too much; it is not the one you need.",
            {DIVIDED: "/ np.sqrt(query_kernel.shape[0])"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
