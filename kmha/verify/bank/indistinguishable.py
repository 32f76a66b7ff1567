"""The mistakes that cannot be told apart in a candidate that does not accept all arguments.

With one head, for example, many mistakes compute the same function. `SAME` lists such groups, each with a condition
and a reason. The tests check that the list is complete.

A condition is a list of flags: "cross -core" is true for a whole layer that takes a separate key. The flags are the
fields of `kmha.verify.diagnosing.trials.Accepts` and of `Configuration`.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import trials
from kmha.verify.diagnosing.block_trials import BlockAccepts
from kmha.verify.diagnosing.trials import Accepts


@dataclasses.dataclass(frozen=True)
class Configuration:
    """The arguments and results of a candidate, and the seed of its trials.

    Attributes:
        seed: Seed of the weights and inputs.
        accepts: Arguments that the candidate takes.
        core: Whether the candidate has no weights. It then has one head, unless it accepts an axis of heads.
        scores: Whether the candidate returns its scores.
        use_bias: Whether the projections have biases.
    """

    seed: int
    accepts: Accepts
    core: bool = False
    scores: bool = True
    use_bias: bool = True

    def draw(self, rng: np.random.Generator) -> list[Trial]:
        """Return the trials of the candidate. `rng` draws the sizes."""
        sizes = trials.draw_sizes(rng, self.accepts, self.use_bias)
        return trials.draw(self.seed, self.accepts, sizes, core=self.core)


@dataclasses.dataclass(frozen=True)
class Same:
    """Mistakes that compute the same function under a condition.

    Attributes:
        ids: Ids of the mistakes.
        when: Flags, all of which must be true.
        why: Reason why the mistakes compute the same function, as one clause.
    """

    ids: tuple[str, ...]
    when: str
    why: str


ONE_MASK = "there is only one kind of mask, which is then the same as all masks together"
SELF = "in self-attention query, key and value have one input, so another's kernel gives another's result"
VALUE = "the value's input is the key's"
WIDE = "the input has as many features as all heads together"
ONE_HEAD = "there is one head"
ONLY_SCORES = "only the scores show whether the other heads were computed"
QUERIES = "in self-attention the hidden queries are padding, and their rows are not compared"
SAME = (
    Same(("logits-query-value", "kernels-value-for-key"), "-core -cross", SELF),
    Same(("mix-key", "kernels-key-for-value"), "-core -cross", SELF),
    Same(("mix-key-value-swapped", "kernels-key-value-swapped"), "-core -cross", SELF),
    Same(("logits-query-query", "kernels-query-for-key"), "-core -cross", SELF),
    Same(("logits-key-key", "kernels-key-for-query"), "-core -cross", SELF),
    Same(("logits-key-query", "kernels-query-key-swapped"), "-core -cross", SELF),
    Same(("logits-query-value", "kernels-value-for-key"), "-core -value", VALUE),
    Same(("mix-key", "kernels-key-for-value"), "-core -value", VALUE),
    Same(("mix-key-value-swapped", "kernels-key-value-swapped"), "-core -value", VALUE),
    Same(("scale-keys", "scale-queries"), "-cross", "in self-attention there are as many queries as keys"),
    Same(("scale-all-heads", "scale-features"), "wide -core", WIDE),
    Same(("scale-all-heads-without-root", "scale-features-without-root"), "wide -core", WIDE),
    Same(("scale-missing", "scale-heads"), "core -heads", ONE_HEAD),
    Same(("scale-without-root", "scale-all-heads-without-root"), "core -heads", ONE_HEAD),
    Same(("mask-empty-row-nan", "softmax-over-heads-and-keys"), "core -heads mask", ONE_HEAD),
    Same(("softmax-over-batch", "softmax-over-heads-and-batch"), "core -heads", ONE_HEAD),
    Same(("heads-all-first", "merge-first-head-only"), "-core -scores", ONLY_SCORES),
    Same(("heads-all-last", "merge-last-head-only"), "-core -scores", ONLY_SCORES),
    Same(
        ("dropout-then-normalised", "dropout-as-mask"),
        "training -scores",
        "renormalising the kept scores gives the softmax of the kept logits; only the returned scores differ",
    ),
    Same(("softmax-twice", "softmax-twice-unmasked"), "-mask -causal -padding", "there is no mask to forget"),
    Same(("softmax-missing", "softmax-missing-masked"), "-mask -causal -padding", "there is no hidden logit to mix"),
    Same(("mask-missing", "mask-argument-ignored"), "mask -causal -padding", ONE_MASK),
    Same(("mask-missing", "padding-ignored"), "-mask -causal padding", ONE_MASK),
    Same(("mask-inverted", "padding-inverted"), "-mask -causal padding", ONE_MASK),
    Same(("mask-zeroes-logits", "padding-zeroes-key"), "-mask -causal padding", "a key of zeros gives logits of zero"),
    Same(
        ("mask-after-softmax", "padding-zeroes-value"),
        "-mask -causal padding -scores",
        "a score of zero and a value of zero contribute the same",
    ),
    Same(("causal-missing", "mask-missing"), "-mask causal -padding", ONE_MASK),
    Same(("causal-inverted", "mask-inverted"), "-mask causal -padding", ONE_MASK),
    Same(("causal-zeroes-logits", "mask-zeroes-logits"), "-mask causal -padding", ONE_MASK),
    Same(("causal-after-softmax", "mask-after-softmax"), "-mask causal -padding", ONE_MASK),
    Same(
        ("masks-either", "padding-replaces-causal"),
        "-mask causal padding query_padding",
        "under a causal mask only queries that are padding see padding, and their rows are not compared",
    ),
    Same(("padding-ignored", "padding-on-queries"), "-cross padding query_padding", QUERIES),
    Same(("mask-missing", "padding-on-queries"), "-cross -mask -causal padding query_padding", QUERIES),
)


def holds(condition: str, configuration: Configuration) -> bool:
    """Return whether all flags of a condition are true.

    >>> holds("mask -core", Configuration(0, Accepts()))
    True
    """
    return all(_flag(flag, configuration) for flag in condition.split())


def _flag(flag: str, configuration: Configuration) -> bool:
    name = flag.removeprefix("-")
    owner = configuration if hasattr(configuration, name) else configuration.accepts
    return bool(getattr(owner, name)) != flag.startswith("-")


def expected(configuration: Configuration) -> Iterator[tuple[str, ...]]:
    """Yield the groups of ids of mistakes that compute the same function in this configuration."""
    return (same.ids for same in SAME if holds(same.when, configuration))


def expected_in_block(accepts: BlockAccepts) -> list[tuple[str, ...]]:
    """Return the groups of ids of mistakes that compute the same function in a block.

    A block's own mistakes can all be told apart. The mistakes of the attention inside it form the same groups as in
    attention alone that accepts what the block passes on.

    >>> ("scale-all-heads", "scale-features") in expected_in_block(BlockAccepts("encoder"))
    True
    >>> expected_in_block(BlockAccepts("embedding"))
    []
    """
    if accepts.chain == "embedding":
        return []
    attention = Accepts(
        cross=accepts.chain == "decoder" and not accepts.equal,
        value=False,
        mask=False,
        causal=accepts.causal,
        padding=accepts.mask,
        query_padding=accepts.mask,
        wide=True,
    )
    return list(expected(Configuration(0, attention, scores=False)))
