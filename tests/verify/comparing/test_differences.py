"""Every difference on purpose, with what the built-in does: when Keras mends one, its test says so."""

import pytest

from kmha.verify.comparing import differences
from kmha.verify.comparing.differences import BUILTIN, MultiHeadAttention

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore:Layer .* does not have a .quantize. method"),
    pytest.mark.filterwarnings("ignore:You are using a softmax over axis"),
]


def _both(show):
    return differences._outcome(show, BUILTIN), differences._outcome(show, MultiHeadAttention)


def test_symbolic_scores():
    assert _both(differences.symbolic_scores) == ("(2, 3, 5, 5)", "(2, 3, 5, 7)")


@pytest.mark.parametrize(
    "show",
    [
        differences.empty_row,
        differences.explicit_query_mask,
        differences.causal_along_attention_axes,
        differences.heads_mask_and_padding,
        differences.padding_with_attention_axes,
    ],
)
def test_masks(show):
    builtin, here = _both(show)
    assert float(builtin) > 0.1
    assert float(here) == 0


def test_fourth_positional():
    builtin, here = _both(differences.fourth_positional)
    assert float(builtin) == 0  # the mask is dropped
    assert here.startswith("ValueError")
    assert "`attention_mask=`" in here


def test_flash_attention_config():
    assert _both(differences.flash_attention_config) == ("not there", "False")


def test_flash_attention():
    builtin, here = _both(differences.flash_attention)
    assert builtin.startswith("ValueError: Flash attention is not supported in tensorflow backend")
    assert float(here) < 1e-6


def test_dropout_at_inference():
    builtin, here = map(float, _both(differences.dropout_at_inference))
    assert builtin > 0.1
    assert here == 0


def test_dropout_rounding():
    """Where the built-in's two ways of computing round alike, as on processors with AMX, only ours can be asserted."""
    assert float(_both(differences.dropout_rounding)[1]) == 0


def test_mask_of_the_caller():
    builtin, here = _both(differences.mask_of_the_caller)
    assert builtin.startswith("lost")
    assert here == "kept"


def test_scale_in_float64():
    builtin, here = map(float, _both(differences.scale_in_float64))
    assert builtin > 1e-6
    assert here < 1e-14


@pytest.mark.slow
def test_quantized_and_saved():
    builtin, here = _both(differences.quantized_and_saved)
    assert "could not be loaded" in builtin
    assert here == "identical"


@pytest.mark.slow
def test_all_are_shown():
    shown = list(differences.demonstrate())
    assert len(shown) == len(differences._ALL) == 14
    on_every_processor = [difference for difference in shown if "on some processors only" not in difference.tried]
    assert len(on_every_processor) == 13
    assert all(difference.builtin != difference.here for difference in on_every_processor)
