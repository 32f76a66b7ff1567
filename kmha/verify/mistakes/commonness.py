"""How common mistakes are, to name the likeliest first if several give the same numbers.

The order follows the number of public threads in which somebody made the mistake, and what courses warn of. Mistakes
outside this list come after it, those with more sources first.
"""

from kmha.verify.mistakes.entry import BANK, Mistake

COMMON = (
    "scale-missing",
    "mask-missing",
    "mask-inverted",
    "softmax-over-queries",
    "causal-missing",
    "heads-reshaped",
    "merge-not-transposed",
    "scale-without-root",
    "scale-all-heads",
    "mask-zeroes-logits",
    "padding-ignored",
    "mask-argument-ignored",
    "mask-after-softmax",
    "dropout-at-inference",
    "causal-strict",
    "causal-one-ahead",
    "merge-projection-missing",
    "inputs-key-value-swapped",
    "inputs-value-is-key",
    "inputs-all-query",
    "kernels-key-for-value",
    "kernels-query-for-key",
    "logits-key-query",
    "mix-key",
    "scale-multiplied",
    "scale-features",
    "softmax-missing",
    "softmax-over-heads",
    "softmax-twice",
    "padding-inverted",
    "padding-on-queries",
    "causal-reversed",
    "heads-reshaped-and-merged",
    "mask-transposed",
    "dropout-never",
    "residual-missing",
    "residual-missing-attention",
    "residual-missing-feed-forward",
    "feed-forward-activation-missing",
    "positions-sine-cosine-swapped",
)


def rank(mistake: Mistake) -> tuple[int, int, int]:
    """Return a sort key that is smaller for commoner mistakes.

    >>> rank(BANK["scale-missing"]) < rank(BANK["scale-heads"])
    True
    """
    place = COMMON.index(mistake.id) if mistake.id in COMMON else len(COMMON)
    return place, -mistake.source.count("#"), list(BANK).index(mistake.id) if mistake.id in BANK else len(BANK)
