"""The five documents from which the assignments grew: questions that people asked, and texts that confused them."""

import re

SEEDS = {
    "seed 000": "a question in the forum of a deep learning course, on the inputs of the decoder's second attention",
    "seed 001": "the discussion of the section on multi-head attention in “Dive into Deep Learning” (d2l.ai)",
    "seed 002": "a question, with answers, on why W^Q and W^K are two matrices (Stack Exchange)",
    "seed 003": "the article “Transformers Explained Visually, part 3” (Ketan Doshi, 2021)",
    "seed 004": "the article “The Implemented Transformer: Multi-Head Attention”, with all its arrays printed",
}


def describe(source: str) -> str:
    """Replace the seeds in a source by their descriptions.

    >>> describe("seed 003; a thread")
    'the article “Transformers Explained Visually, part 3” (Ketan Doshi, 2021); a thread'
    """
    return re.sub(r"\bseed 00\d", lambda found: SEEDS.get(found[0], found[0]), source)
