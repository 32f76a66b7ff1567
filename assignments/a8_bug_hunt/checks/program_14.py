"""The checks of `program_14`. The mistake in it is `residual-feed-forward-from-input`."""

from kmha.course.exercises import Exercise, Wrong, sizes, standard
from kmha.course.judging import NOT_FIXED, mistake_is_named

MISTAKE = "residual-feed-forward-from-input"
RETURNED = "return norm(x + feed_forward)"
ROOT = "np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)"


def draw(rng):
    """Draw sentences of which the last is so small that the epsilon matters, even after one normalization."""
    batch, positions, features, inner = sizes(rng, 4, least=3)
    kernels = {
        f"{role}_kernel": rng.normal(scale=features**-0.5, size=(features, features))
        for role in ("query", "key", "value")
    }
    inputs = rng.normal(scale=1.5, size=(batch, positions, features))
    inputs[-1] *= 1e-6
    return {
        "inputs": inputs,
        **kernels,
        "inner_kernel": rng.normal(scale=features**-0.5, size=(features, inner)),
        "outer_kernel": rng.normal(scale=inner**-0.5, size=(inner, features)),
    }


EXERCISE = Exercise(
    title="Program 14: a whole encoder layer",
    question="Why does the attention learn so slowly in my encoder layer? (strutive07/transformer-tensorflow2.0#14, JanSchm/CapMarket#8)",
    difficulty=2,
    minutes=15,
    checks=(
        *standard(draw, signature=1, shape=1, values=5, unchanged=1),
        mistake_is_named(draw),
    ),
    wrong=(
        Wrong(
            "residual-feed-forward-from-input",
            NOT_FIXED,
            {RETURNED: "return norm(inputs + feed_forward)"},
            "strutive07/transformer-tensorflow2.0#14, JanSchm/CapMarket#8",
        ),
        Wrong(
            "residual-feed-forward-from-attention",
            "Your second residual connection adds the attention's bare output, without the input and the normalization.",
            {RETURNED: "return norm(attention + feed_forward)"},
        ),
        Wrong(
            "residual-feed-forward-from-unnormed",
            "Your second residual connection adds the sum before its normalization. The feed-forward network's input is the normalized sum.",
            {RETURNED: "return norm(inputs + attention + feed_forward)"},
            "OpenNMT/OpenNMT-py#1375",
        ),
        Wrong(
            "residual-missing-feed-forward",
            "You removed the second residual connection: nothing is added to the feed-forward network's output.",
            {RETURNED: "return norm(feed_forward)"},
        ),
        Wrong(
            "residual-from-both",
            "You add the right array, but you still add the layer's input as well.",
            {RETURNED: "return norm(inputs + x + feed_forward)"},
        ),
        Wrong(
            "norm-inside-last-residual",
            "You add the right array, but after the normalization. The normalization comes after the addition.",
            {RETURNED: "return x + norm(feed_forward)"},
        ),
        Wrong(
            "norm-last-missing",
            "Your sum is right now, but its normalization is gone.",
            {RETURNED: "return x + feed_forward"},
        ),
        Wrong(
            "feed-forward-input-of-block",
            "You fixed the last line, but now the feed-forward network gets the layer's input instead of the attention part's result.",
            {"np.maximum(x @ inner_kernel": "np.maximum(inputs @ inner_kernel"},
        ),
        Wrong(
            "norm-epsilon-missing",
            "Your normalization has no epsilon any more, so it divides by 0 where all features of a position are equal.",
            {" + 1e-6)": ")"},
        ),
        Wrong(
            "norm-epsilon-outside-the-root",
            "You add the epsilon to the root of the variance. It belongs inside the root.",
            {ROOT: "(np.sqrt(x.var(axis=-1, keepdims=True)) + 1e-6)"},
        ),
    ),
)
