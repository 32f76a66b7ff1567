"""Which mistakes cannot be told apart by a block that is called with masks and has no biases left out.

A block's own mistakes are all told from one another. Those of the attention inside it are the same functions as for a
candidate of the attention alone that accepts what the block hands on, by the reasons in
`kmha.verify.bank.indistinguishable`.
"""

from kmha.verify.bank.indistinguishable import expected
from kmha.verify.bank.separation import Configuration
from kmha.verify.diagnosing.trials import Accepts
from kmha.verify.diagnosing.trials_blocks import BlockAccepts


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
