import pytest

from kmha.verify import diagnose


@pytest.mark.parametrize(
    "name", ["apply_rotary_pos_emb", "apply_rotary_emb", "apply_rope", "rotary", "rope", "apply_rot_of_sizes"]
)
def test_right_functions_are_read(candidate, name):
    """They were read as attention, which differs from the reference in every call."""
    assert diagnose(candidate("numpy_rotary", name)).right


def test_a_wrong_function_is_not_called_right(candidate):
    found = diagnose(candidate("numpy_rotary", "rope_of_one_angle"))
    assert (found.verdict, found.ids) == ("unjudged", ())


def test_half_of_a_rotation_is_no_rotation(candidate):
    assert not diagnose(candidate("numpy_rotary", "rotate_half")).right
