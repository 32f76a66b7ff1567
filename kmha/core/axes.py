"""The letters of the axes, and the four equations of attention.

| letter | axis |
| --- | --- |
| B | batch |
| T | query positions |
| S | key and value positions |
| H | heads |
| I | input features |
| O | head size |
| E | output features |

Each letter has one meaning. (The docstring of TensorFlow Addons, which many learners have read, uses N and M for
"elements" and O for "output features". Here T and S count positions, and O is the head size.)
"""

PROJECT = "BTI,HIO->BTHO"
SCORES = "BTHO,BSHO->BHTS"
MIX = "BHTS,BSHO->BTHO"
MERGE = "BTHO,HOE->BTE"

# Letters that the four equations do not use, for more position axes of inputs and more feature axes of outputs.
_MORE_POSITIONS = "UVWXYZ"
_MORE_OUTPUTS = "FGJKLM"


def for_rank(equation: str, rank: int, output_rank: int = 1) -> str:
    """Return `PROJECT` or `MERGE` for an input with `rank` axes and an output with `output_rank` feature axes.

    >>> for_rank(PROJECT, 4)
    'BTUI,HIO->BTUHO'
    >>> for_rank(MERGE, 3, output_rank=2)
    'BTHO,HOEF->BTEF'
    """
    positions = ("T" + _MORE_POSITIONS)[: rank - 2]
    outputs = "E" + _MORE_OUTPUTS[: output_rank - 1]
    return equation.replace("T", positions).replace("E", outputs)
