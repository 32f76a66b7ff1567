"""Mistakes of the attention that a decoder layer makes in one of its two attentions alone."""

import dataclasses

from kmha.verify.chains.attention import ATTENTION
from kmha.verify.chains.blocks import within
from kmha.verify.mistakes.entry import Mistake

WHICH = {1: "self-attention", 2: "second attention"}


def alone_in(mistake: Mistake, number: int) -> Mistake:
    """The same mistake in the first or the second attention of a decoder layer.

    Args:
        mistake: one of the attention's.
        number: 1 for self-attention, 2 for the attention to the encoder's output.

    Returns:
        A mistake that is not in the bank, with "@1" or "@2" after its id.

    Raises:
        ValueError: the mistake is not one of the attention's steps.

    >>> from kmha.verify.mistakes import BANK
    >>> alone_in(BANK["scale-missing"], 2).says
    'In the second attention alone: the logits are not divided by √O.'
    """
    if not mistake.changes.keys() <= ATTENTION.keys():
        raise ValueError(
            f"`{mistake.id}` changes {', '.join(mistake.changes)}, which are not all steps of an attention. "
            "Take a mistake whose chains() name the attention."
        )
    # A letter of a formula at the start, such as T, keeps its capital; the article A does not.
    letter = mistake.says[0] in "BTSHIOE" and not mistake.says[1].isalpha()
    start = mistake.says[0] if letter else mistake.says[0].lower()
    return dataclasses.replace(
        mistake,
        id=f"{mistake.id}@{number}",
        says=f"In the {WHICH[number]} alone: {start}{mistake.says[1:]}",
        changes=within(f"inside{number}", mistake.changes),
    )
