"""The checks of `program_13`. The mistake in it is `norm-over-time`."""

from kmha.course.exercises import Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, mistake_is_named

MISTAKE = "norm-over-time"
MEAN = "total.mean(axis=1, keepdims=True)"
VARIANCE = "np.mean(centred**2, axis=1, keepdims=True)"


def draw(rng):
    """Draw sentences of which the last is so small that the epsilon matters."""
    batch, positions, features = sizes(rng, 3, least=3)
    kernels = {f"{role}_kernel": rng.normal(size=(features, features)) for role in ("query", "key", "value")}
    inputs = rng.normal(size=(batch, features, positions)) + rng.normal(scale=2, size=(features, 1))
    inputs[-1] /= 1000
    return {
        "inputs": inputs,
        **kernels,
        "gain": rng.uniform(0.5, 2, size=features),
        "bias": rng.normal(size=features),
    }


EXERCISE = Exercise(
    title="Program 13: channels first",
    question="Over which axis does a layer normalization run if the features are not last? (jadore801120/attention-is-all-you-need-pytorch#17, lucidrains/segformer-pytorch#7)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "norm-over-time",
            NOT_FIXED,
            {MEAN: MEAN.replace("1", "-1"), VARIANCE: VARIANCE.replace("=1", "=-1")},
            "jadore801120/attention-is-all-you-need-pytorch#17, lucidrains/segformer-pytorch#7",
        ),
        Wrong(
            "norm-variance-over-time",
            "Your mean runs over the features now, but your variance still runs over the positions.",
            {VARIANCE: VARIANCE.replace("=1", "=-1")},
        ),
        Wrong(
            "norm-mean-over-time",
            "Your variance runs over the features now, but your mean still runs over the positions.",
            {MEAN: MEAN.replace("1", "-1")},
        ),
        Wrong(
            "norm-over-time-and-features",
            "Your mean and variance run over positions and features together, so positions still depend on each other.",
            {MEAN: MEAN.replace("1", "(1, 2)"), VARIANCE: VARIANCE.replace("=1", "=(1, 2)")},
            "Qualcomm-AI-research/geometric-algebra-transformer#8, reczoo/FuxiCTR#23",
        ),
        Wrong(
            "norm-over-batch",
            "Your mean and variance run over the batch, so sentences depend on each other.",
            {MEAN: MEAN.replace("1", "0"), VARIANCE: VARIANCE.replace("=1", "=0")},
            "google-research/bert#1088",
        ),
        Wrong(
            "norm-unbiased",
            "You take the unbiased variance, divided by E - 1. A layer normalization divides by E.",
            {VARIANCE: "total.var(axis=1, ddof=1, keepdims=True)"},
            "harvardnlp/annotated-transformer#119, FluxML/Flux.jl#529, codertimo/BERT-pytorch#30",
        ),
        Wrong(
            "softmax-over-queries",
            "You changed the softmax's axis along with the normalization's. The softmax was right.",
            {
                "powers.sum(axis=-1, keepdims=True)": "powers.sum(axis=1, keepdims=True)",
                "logits.max(axis=-1, keepdims=True)": "logits.max(axis=1, keepdims=True)",
            },
            "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254",
        ),
        Wrong(
            "norm-epsilon-outside",
            "You add the epsilon to the root. It belongs inside the root, to the variance.",
            {"np.sqrt(variance + 1e-6)": "(np.sqrt(variance) + 1e-6)"},
        ),
    ),
)
