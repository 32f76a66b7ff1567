import numpy as np
import pytest

from kmha.verify.chains.attention import run
from kmha.verify.mistakes import BANK
from kmha.verify.mistakes.inside import alone_in


@pytest.mark.parametrize("number", [1, 2])
def test_made_in_one_attention(make_parts, number):
    parts = make_parts("decoder", "look-ahead and both paddings")
    mistake = alone_in(BANK["scale-missing"], number)
    state = run(parts.trial, [mistake.changes])
    for each in (1, 2):
        inside = state[f"inside{each}"]
        factor = 1.0 if each == number else inside["heads"]["query"].shape[-1] ** -0.5
        np.testing.assert_allclose(inside["scaled"], inside["logits"] * factor, rtol=1e-12)
    assert mistake.chains() == (("encoder", "decoder") if number == 1 else ("decoder",))
    assert mistake.id == f"scale-missing@{number}"


def test_a_mistake_of_the_block_is_refused():
    with pytest.raises(ValueError, match="norm-twice"):
        alone_in(BANK["norm-twice"], 1)
