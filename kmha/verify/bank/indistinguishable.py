"""Which mistakes cannot be told apart, or from the right computation, by a candidate that accepts less than all.

A condition is written as flags: "cross -core" is of a candidate that has a key of its own and is a whole layer. The
flags are those of `kmha.verify.diagnosing.trials.Accepts`, and three more: `core` (no weights; it has one head if it is
not given an axis of heads), `scores` (they are returned) and `use_bias`. The tests hold that there are no others than
these.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any
from kmha.verify.bank.separation import Configuration
from kmha.verify.diagnosing.trials import Accepts
from kmha.verify.diagnosing.trials_blocks import BlockAccepts


@dataclasses.dataclass(frozen=True)
class Same:
    """Mistakes that are one function under a condition.

    Attributes:
        ids: of the mistakes.
        when: flags, all of which must hold.
        why: one sentence.
    """

    ids: tuple[str, ...]
    when: str
    why: str


ONE_MASK = "there is only one kind of mask, so that all masks and that one are the same"
SELF = "in self-attention query, key and value have one input, so that taking another's kernel is taking its result"
SAME = (
    Same(("logits-query-value", "kernels-value-for-key"), "-core -cross", SELF),
    Same(("mix-key", "kernels-key-for-value"), "-core -cross", SELF),
    Same(("mix-key-value-swapped", "kernels-key-value-swapped"), "-core -cross", SELF),
    Same(("logits-query-query", "kernels-query-for-key"), "-core -cross", SELF),
    Same(("logits-key-key", "kernels-key-for-query"), "-core -cross", SELF),
    Same(("logits-key-query", "kernels-query-key-swapped"), "-core -cross", SELF),
    Same(("logits-query-value", "kernels-value-for-key"), "-core -value", "the value's input is the key's"),
    Same(("mix-key", "kernels-key-for-value"), "-core -value", "the value's input is the key's"),
    Same(("mix-key-value-swapped", "kernels-key-value-swapped"), "-core -value", "the value's input is the key's"),
    Same(("scale-keys", "scale-queries"), "-cross", "in self-attention there are as many queries as keys"),
    Same(("scale-all-heads", "scale-features"), "wide -core", "the input has as many features as all heads together"),
    Same(
        ("scale-all-heads-without-root", "scale-features-without-root"),
        "wide -core",
        "the input has as many features as all heads together",
    ),
    Same(("scale-missing", "scale-heads"), "core -heads", "there is one head"),
    Same(("scale-without-root", "scale-all-heads-without-root"), "core -heads", "there is one head"),
    Same(("mask-empty-row-nan", "softmax-over-heads-and-keys"), "core -heads mask", "there is one head"),
    Same(("softmax-over-batch", "softmax-over-heads-and-batch"), "core -heads", "there is one head"),
    Same(
        ("heads-all-first", "merge-first-head-only"),
        "-core -scores",
        "only the scores show whether the others were computed",
    ),
    Same(
        ("heads-all-last", "merge-last-head-only"),
        "-core -scores",
        "only the scores show whether the others were computed",
    ),
    Same(
        ("dropout-then-normalised", "dropout-as-mask"),
        "training -scores",
        "a softmax of some logits is that of all, divided by the sum of these; only the returned scores differ",
    ),
    Same(("softmax-twice", "softmax-twice-unmasked"), "-mask -causal -padding", "there is no mask to forget"),
    Same(("mask-missing", "mask-argument-ignored"), "mask -causal -padding", ONE_MASK),
    Same(("mask-missing", "padding-ignored"), "-mask -causal padding", ONE_MASK),
    Same(("mask-inverted", "padding-inverted"), "-mask -causal padding", ONE_MASK),
    Same(
        ("mask-zeroes-logits", "padding-zeroes-key"),
        "-mask -causal padding",
        "a key of zeros gives logits of zero",
    ),
    Same(
        ("mask-after-softmax", "padding-zeroes-value"),
        "-mask -causal padding -scores",
        "a score of zero and a value of zero add the same",
    ),
    Same(("causal-missing", "mask-missing"), "-mask causal -padding", ONE_MASK),
    Same(("causal-inverted", "mask-inverted"), "-mask causal -padding", ONE_MASK),
    Same(("causal-zeroes-logits", "mask-zeroes-logits"), "-mask causal -padding", ONE_MASK),
    Same(("causal-after-softmax", "mask-after-softmax"), "-mask causal -padding", ONE_MASK),
    Same(
        ("masks-either", "padding-replaces-causal"),
        "-mask causal padding query_padding",
        "a causal mask shows padding only to queries that are padding, and their rows are not compared",
    ),
    Same(
        ("padding-ignored", "padding-on-queries"),
        "-cross padding query_padding",
        "in self-attention the queries that are hidden are padding, and their rows are not compared",
    ),
    Same(
        ("mask-missing", "padding-on-queries"),
        "-cross -mask -causal padding query_padding",
        "in self-attention the queries that are hidden are padding, and their rows are not compared",
    ),
)

SEVERAL_HEADS = "heads | -core"
# What a candidate must have or accept for a mistake to show: one of the conditions between the bars. Ids are prefixes.
NEEDS = {
    "heads-": SEVERAL_HEADS,
    "mask-first-head-only": "mask heads | mask -core | causal heads | causal -core | padding heads | padding -core",
    "scale-all-heads": SEVERAL_HEADS,
    "scale-size-over-heads": SEVERAL_HEADS,
    "softmax-over-heads-and-keys": SEVERAL_HEADS,
    "logits-query-query": "cross | -core",
    "logits-key-": "cross | -core",
    "logits-query-value": "cross value | -core",
    "mix-key": "cross value | -core",
    "inputs-all-": "cross",
    "inputs-query-from-encoder": "cross",
    "inputs-value-from-query": "cross",
    "inputs-key-from-query": "cross",
    "inputs-key-value-swapped": "cross value",
    "inputs-value-is-key": "cross value",
    "inputs-key-is-value": "cross value",
    "causal-": "causal",
    "causal-always": "",
    "causal-wrong-corner": "causal cross",
    "causal-replaces-others": "causal mask | causal padding -query_padding",
    "masks-either": "mask causal | mask padding | causal padding",
    "mask-replaces-padding": "mask padding",
    "mask-replaces-causal": "mask causal",
    "padding-": "padding",
    "padding-replaces-mask": "mask padding",
    "padding-replaces-causal": "causal padding",
    "padding-of-query-for-keys": "cross padding query_padding",
    "mask-of-": "mask | padding",
    "mask-items-as-heads": "mask | padding",
    "mask-tiled": "mask heads | mask -core | padding heads | padding -core",
    "mask-repeated": "mask heads | mask -core | padding heads | padding -core",
    "mask-transposed": "mask",
    "mask-first-row-for-all": "mask",
    "mask-last-row-for-all": "mask",
    "mask-any-row-for-all": "mask",
    "mask-all-": "mask",
    "mask-argument-ignored": "mask",
    "mask-adds-10000": "mask",
    "mask-adds-100": "mask",
    "mask-fills-100": "mask",
    "mask-forbids-zeros": "mask",
    "mask-from-zero-keys": "mask",
    "mask-empty-row-nan": "mask",
    "scale-after-mask": "mask",
    "mask-after-softmax-renormalised": "mask",
    "mask-": "mask | causal | padding",
    "dropout-": "training",
    "returned-": "scores",
    "returned-unmasked": "scores mask | scores causal | scores padding",
    "returned-first-head": "scores heads | scores -core",
    "returned-dropped": "scores training",
    "half-": "half",
    "half-mask-times-infinity": "half mask | half causal | half padding",
    "half-mask-infinite": "half mask",
    "half-mask-twice": "half mask padding",
}


def holds(condition: str, configuration: Any) -> bool:
    """Whether one of the conditions between bars holds for a `kmha.verify.bank.separation.Configuration`.

    >>> from kmha.verify.bank.separation import Accepts, Configuration
    >>> holds("causal | mask -core", Configuration(0, Accepts()))
    True
    """
    return any(all(_flag(flag, configuration) for flag in part.split()) for part in condition.split("|"))


def _flag(flag: str, configuration: Any) -> bool:
    name = flag.removeprefix("-")
    owner = configuration if hasattr(configuration, name) else configuration.accepts
    return bool(getattr(owner, name)) != flag.startswith("-")


def needs(id: str) -> str:
    """What a candidate must accept for the mistake to show; empty: nothing.

    >>> needs("causal-wrong-corner"), needs("scale-missing")
    ('causal cross', '')
    """
    fitting = [prefix for prefix in NEEDS if id.startswith(prefix)]
    return NEEDS[max(fitting, key=len)] if fitting else ""


def expected(configuration: Any) -> Iterator[tuple[str, ...]]:
    """The groups that are one function for this candidate."""
    return (same.ids for same in SAME if holds(same.when, configuration))


def expected_in_block(accepts: BlockAccepts) -> list[tuple[str, ...]]:
    """The groups that are one function for this block.

    >>> ("scale-all-heads", "scale-features") in expected_in_block(BlockAccepts("encoder"))
    True
    >>> expected_in_block(BlockAccepts("embedding"))
    []
    """
    if accepts.chain == "embedding":
        return []
    decoder = accepts.chain == "decoder"
    attention = Accepts(
        cross=decoder and not accepts.equal,
        value=False,
        mask=False,
        causal=accepts.causal,
        padding=accepts.mask,
        query_padding=accepts.mask,
        wide=True,
    )
    return list(expected(Configuration(0, attention, scores=False)))
