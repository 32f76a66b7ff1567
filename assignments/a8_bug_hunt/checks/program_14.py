"""What is checked of `program_14`; the mistake in it is `residual-feed-forward-from-input`."""

from kmha.course.exercises import Exercise, Wrong, sizes, standard
from kmha.course.judging import mistake_is_named

MISTAKE = "residual-feed-forward-from-input"
RETURNED = "return norm(x + feed_forward)"


def draw(rng):
    batch, positions, features, inner = sizes(rng, 4, least=3)
    kernels = {
        f"{role}_kernel": rng.normal(scale=features**-0.5, size=(features, features))
        for role in ("query", "key", "value")
    }
    return {
        "inputs": rng.normal(scale=1.5, size=(batch, positions, features)),
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
            "It is named, and not mended yet. The second residual connection adds the layer's input: it goes around both sublayers, not around one.",
            {RETURNED: "return norm(inputs + feed_forward)"},
            "strutive07/transformer-tensorflow2.0#14, JanSchm/CapMarket#8",
        ),
        Wrong(
            "residual-feed-forward-from-attention",
            "The second residual connection adds the attention's bare output: the input and the norm are missing from it.",
            {RETURNED: "return norm(attention + feed_forward)"},
        ),
        Wrong(
            "residual-feed-forward-from-unnormed",
            "The second residual connection adds the sum before its normalization: what goes into the feed-forward network is the normalized one.",
            {RETURNED: "return norm(inputs + attention + feed_forward)"},
            "OpenNMT/OpenNMT-py#1375",
        ),
        Wrong(
            "residual-missing-feed-forward",
            "The second residual connection is gone: nothing is added to what the feed-forward network gives.",
            {RETURNED: "return norm(feed_forward)"},
        ),
        Wrong(
            "residual-from-both",
            "The layer's input is still added, beside what should be.",
            {RETURNED: "return norm(inputs + x + feed_forward)"},
        ),
        Wrong(
            "norm-inside-last-residual",
            "The right array is added, after the normalization: it stands after the addition.",
            {RETURNED: "return x + norm(feed_forward)"},
        ),
        Wrong(
            "norm-last-missing",
            "The sum is right now, and its normalization is gone.",
            {RETURNED: "return x + feed_forward"},
        ),
        Wrong(
            "feed-forward-input-of-block",
            "The last line is mended, and the feed-forward network gets the layer's input in place of what the attention's part gave.",
            {"np.maximum(x @ inner_kernel": "np.maximum(inputs @ inner_kernel"},
        ),
    ),
)
