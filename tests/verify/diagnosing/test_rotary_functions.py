import pytest

from kmha.verify import diagnose


@pytest.mark.parametrize(
    "name", ["apply_rotary_pos_emb", "apply_rotary_emb", "apply_rope", "rotary", "rope", "apply_rot_of_sizes"]
)
def test_right_functions_are_read(candidate, name):
    """They were read as attention, which differs from the reference in every call."""
    found = diagnose(candidate("numpy_rotary", name))
    assert found.right
    assert "does not know the argument `cos`" not in str(found)


@pytest.mark.parametrize("name", ["precompute_freqs_cis", "compute_frequencies"])
def test_functions_that_return_tables(candidate, name):
    assert diagnose(candidate("numpy_rotary", name)).right


@pytest.mark.parametrize(
    "name", ["angles_of_all_features", "rope_of_wrong_second_half", "apply_rotary_to_queries_alone"]
)
def test_other_tables_and_other_keys_are_not_called_right(candidate, name):
    assert not diagnose(candidate("numpy_rotary", name)).right


def test_attention_with_such_a_name_is_attention(candidate):
    found = diagnose(candidate("numpy_rotary", "proper_rope_attention"))
    assert found.right
    assert "masks" in str(found)


def test_a_wrong_function_is_not_called_right(candidate):
    found = diagnose(candidate("numpy_rotary", "rope_of_one_angle"))
    assert (found.verdict, found.ids) == ("unjudged", ())


def test_half_of_a_rotation_is_no_rotation(candidate):
    assert not diagnose(candidate("numpy_rotary", "rotate_half")).right


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize(
    "name",
    ["RotaryEmbedding", "RotaryOfPositions", "RotaryInPairs", "RotaryOfTurns", "RotaryOfLength", "RotaryOfHeads"],
)
def test_layers_that_return_tables(candidate, name, built):
    """Nearly all rotary layers of public packages return tables, which could not be judged."""
    pytest.importorskip("torch")
    layer = candidate("torch_rotary", name)
    found = diagnose(layer(8) if built else layer)
    assert found.right, found
    assert "Vectors turned by rotary positions" in str(found)


def test_tables_of_other_positions_are_not_called_right(candidate):
    pytest.importorskip("torch")
    found = diagnose(candidate("torch_rotary", "RotaryEmbedding")(8, first=1))
    assert (found.verdict, found.ids) == ("unjudged", ())
