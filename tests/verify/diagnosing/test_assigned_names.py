"""Names of layers that only the code tells."""

import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.assigned_names import assigned


@pytest.mark.parametrize(("name", "ids"), [("Heads", ()), ("HeadsWithoutScale", ("scale-missing",))])
def test_projections_are_told_apart_by_the_variables_that_get_their_results(candidate, name, ids):
    found = diagnose(candidate("flax_counted", name))
    assert found.ids == ids
    assert bool(found.right) == (not ids)
    assert found.right or "'Dense_0'" in found.code()  # the name by which Flax finds the parameters


@pytest.mark.parametrize(("name", "ids"), [("FlagOfParts", ()), ("FlagOfPartsWithoutScale", ("scale-missing",))])
def test_a_flag_that_parts_get_from_the_constructor_alone_is_given_there(candidate, name, ids):
    found = diagnose(candidate("flax_counted", name))
    assert found.ids == ids
    assert bool(found.right) == (not ids)


@pytest.mark.parametrize("name", ["Named", "Branches", "ModeOfConstructor"])
def test_right_layers_are_right(candidate, name):
    assert diagnose(candidate("flax_counted", name)).right


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f(x):\n    for _ in range(3): key = nn.Dense(3)(x)", []),
        ("def f(x):\n    return [Dense(3)(x) for _ in range(3)]", []),
        ("def f(x):\n    key = norm(Dense(3)(x)) + x\n    return Dense(3)(key), other.Dense_general(x)", ["key", ""]),
        ("def f(x):\n    return Dense(3, name='key')(x) + Dense(3)(x)", [""]),
        ("no code", []),
    ],
)
def test_only_layers_that_can_be_counted_have_names(code, names):
    assert assigned(code, "Dense") == names
