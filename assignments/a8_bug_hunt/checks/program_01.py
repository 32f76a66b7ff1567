"""What is checked of `program_01`; the mistake in it is `scale-all-heads`."""

from kmha.course.exercises import Exercise, Wrong, sizes, standard
from kmha.course.judging import bank_without, mistake_is_named
from kmha.verify.chains import Trial

MISTAKE = "scale-all-heads"
DIVIDED = "/ np.sqrt(size)"


def draw(rng):
    """As many heads as give the mistake room, and logits that are far from equal."""
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
    """The call for the bank."""
    weights = {f"{role}/kernel": inputs[f"{role}_kernel"] for role in ("query", "key", "value")}
    weights["attention_output/kernel"] = inputs["output_kernel"]
    return Trial("asked", inputs["query"], inputs["value"], inputs["value"], weights)


EXERCISE = Exercise(
    title="Program 1: einsum from end to end",
    question="Why does the model with eight heads attend more evenly than the one with a single head? (lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11)",
    difficulty=1,
    minutes=10,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "scale-all-heads",
            "It is named, and not mended yet. The logits are divided by the root of all heads' features together: each head sums over its own alone.",
            {DIVIDED: "/ np.sqrt(query_kernel.shape[0] * size)"},
            "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
        ),
        Wrong(
            "scale-missing",
            "The division is gone altogether: logits grow with the features of a head, and the softmax saturates.",
            {DIVIDED: ""},
            "PAIR-code/tiny-transformers#71",
        ),
        Wrong(
            "scale-without-root",
            "The logits are divided by O, not by its root: the scores are too even still, with one head too.",
            {DIVIDED: "/ size"},
            "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
        ),
        Wrong(
            "scale-all-heads-without-root",
            "The logits are divided by H·O: it is neither the right number nor its root.",
            {DIVIDED: "/ (query_kernel.shape[0] * size)"},
        ),
        Wrong(
            "scale-features",
            "The logits are divided by √I: the products sum over the features of a head, not over those of the input.",
            {DIVIDED: "/ np.sqrt(query.shape[-1])"},
            "FareedKhan-dev/train-llm-from-scratch#3, karpathy/ng-video-lecture#6",
        ),
        Wrong(
            "scale-keys",
            "The logits are divided by √S: the number of keys says nothing about how large a product is.",
            {DIVIDED: "/ np.sqrt(value.shape[1])"},
            "asked in phlippe/uvadlc_notebooks#72",
        ),
        Wrong(
            "scale-heads",
            "The logits are divided by √H: that is the factor that was too much, not the one that is needed.",
            {DIVIDED: "/ np.sqrt(query_kernel.shape[0])"},
        ),
    ),
    bank=trial,
    bank_result=bank_without(MISTAKE),
)
