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
    """They turn queries and keys by the same differences, so they are not called wrong either."""
    found = diagnose(candidate("torch_rotary", "RotaryEmbedding")(8, first=1))
    assert found.verdict == "unjudged"


@pytest.mark.parametrize("name", ["compute_rope_angles", "doubled_freqs"])
def test_functions_that_return_angles(candidate, name):
    """They could not be judged: no cosines and sines, no turned vectors."""
    assert diagnose(candidate("numpy_rotary", name)).right


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("rope_without_sign", "rotary-sign-missing"),
        ("rope_mixed", "rotary-pairs-mixed"),
        ("rope_of_sines", "rotary-sines-only"),
        ("precompute_freqs_of_wrong_exponent", "positions-exponent-doubled-per-feature"),
    ],
)
def test_mistakes_are_named(candidate, name, id):
    """Wrong code could only be said not to be judged."""
    found = diagnose(candidate("numpy_rotary", name))
    assert (found.verdict, found.ids) == ("known", (id,))
    assert "rotary positions (in halves): taken as intended" in str(found)
    scope: dict = {}
    exec(found.code(), scope)  # noqa: S102 - what is shown
    assert scope["result"] is not None


def test_turning_backwards_is_told(candidate):
    """Scores of queries and keys that are both turned backwards are the same."""
    found = diagnose(candidate("numpy_rotary", "rope_backwards"))
    assert found.right
    assert "the other way" in str(found)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("rope_of_another_base", "500,000"),
        ("rope_of_another_constant", "100,000"),
        ("RotaryTables", "1,000,000"),
        ("rope_of_a_base_of_the_module", "1,000"),
        ("rope_of_vision", "100"),
    ],
)
def test_a_base_that_code_states_is_a_choice(candidate, name, base):
    found = diagnose(candidate("numpy_rotary", name))
    assert found.right
    assert f"with a base of {base}" in str(found)


@pytest.mark.parametrize(("name", "made"), [("RotaryOfDevice", (8,)), ("apply_rotary_pos_emb", ())])
def test_angles_of_layers_and_arguments_of_other_names(candidate, name, made):
    """The first was refused: it had no input. The second raised an error about `autocast`."""
    pytest.importorskip("torch")
    found = candidate("torch_rotary", name)
    found = diagnose(found(*made) if made else found)
    assert found.right
    assert "Vectors turned by rotary positions (in halves)" in str(found)


def test_a_table_of_sines_is_no_table_of_angles(candidate):
    """For one position, sines and cosines in turn have two equal halves, as tables of angles do."""
    assert diagnose(candidate("numpy_rotary", "sinusoids")).right


def test_a_built_table_of_positions_is_called_with_vectors(candidate):
    pytest.importorskip("torch")
    assert diagnose(candidate("torch_rotary", "PositionEmbedding")(64, 12)).right


@pytest.mark.parametrize("name", ["rope_of_wrong_exponent", "angles_of_all_features"])
def test_what_may_be_another_base_is_not_called_wrong(candidate, name):
    assert diagnose(candidate("numpy_rotary", name)).verdict == "unjudged"


def test_a_mistake_beside_another_base_is_named(candidate):
    found = diagnose(candidate("numpy_rotary", "rope_without_sign_of_another_base"))
    assert (found.verdict, found.ids) == ("known", ("rotary-sign-missing",))
    assert "with a base of 500,000" in str(found)


def test_whole_positions_are_passed(candidate):
    assert diagnose(candidate("numpy_rotary", "rope_at_positions")).right


def test_a_built_table_of_tokens_with_sines_is_called_with_ids(candidate):
    pytest.importorskip("torch")
    assert diagnose(candidate("torch_rotary", "TokenPositionEmbedding")(11, 8)).right
