import numpy as np
import pytest

from kmha.core import axes


def test_equations_use_each_letter_for_one_thing():
    sizes = dict(zip("BTSHIOE", (2, 3, 5, 7, 11, 13, 17), strict=True))
    for equation in (axes.PROJECT, axes.SCORES, axes.MIX, axes.MERGE):
        inputs, output = equation.split("->")
        operands = [np.ones([sizes[letter] for letter in operand]) for operand in inputs.split(",")]
        assert np.einsum(equation, *operands).shape == tuple(sizes[letter] for letter in output)


@pytest.mark.parametrize(
    ("equation", "rank", "outputs", "expected"),
    [
        (axes.PROJECT, 3, 1, "BTI,HIO->BTHO"),
        (axes.PROJECT, 5, 1, "BTUVI,HIO->BTUVHO"),
        (axes.MERGE, 3, 1, "BTHO,HOE->BTE"),
        (axes.MERGE, 4, 3, "BTUHO,HOEFG->BTUEFG"),
    ],
)
def test_for_rank_adds_letters(equation, rank, outputs, expected):
    assert axes.for_rank(equation, rank, outputs) == expected
