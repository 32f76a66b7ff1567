"""The letters, and the four equations.

| letter | axis |
| --- | --- |
| B | batch |
| T | query positions |
| S | key and value positions |
| H | heads |
| I | input features |
| O | head size |
| E | output features |

One letter never means two things. (The TensorFlow Addons docstring, which learners read, says N and M for "elements"
and O for "output features"; here T and S count positions, and O is the size of one head.)
"""

PROJECT = "BTI,HIO->BTHO"
SCORES = "BTHO,BSHO->BHTS"
MIX = "BHTS,BSHO->BTHO"
MERGE = "BTHO,HOE->BTE"

# Letters that the equations above leave free, for inputs with further axes and outputs with several.
_MORE_POSITIONS = "UVWXYZ"
_MORE_OUTPUTS = "FGJKLM"


def for_rank(equation: str, rank: int, output_rank: int = 1) -> str:
    """`PROJECT` or `MERGE` for an input of `rank` axes and an output with `output_rank` feature axes.

    >>> for_rank(PROJECT, 4)
    'BTUI,HIO->BTUHO'
    >>> for_rank(MERGE, 3, output_rank=2)
    'BTHO,HOEF->BTEF'
    """
    positions = ("T" + _MORE_POSITIONS)[: rank - 2]
    outputs = "E" + _MORE_OUTPUTS[: output_rank - 1]
    return equation.replace("T", positions).replace("E", outputs)
