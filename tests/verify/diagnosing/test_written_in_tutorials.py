"""Ways of tutorials, which no argument states."""

import pytest

from kmha.verify import diagnose


@pytest.mark.parametrize(
    ("module", "name", "ids"),
    [
        ("torch_tutorials", "SizeOfAllHeads", ()),
        ("torch_tutorials", "ScaledByAllHeads", ("scale-all-heads",)),
        ("torch_tutorials", "WithLength", ()),
        ("torch_tutorials", "OneNorm", ("norm-shared-last-1",)),
        ("numpy_propagation", "PositionalEncoding", ()),
        ("numpy_propagation", "PositionalEncodingOfOtherBase", ("positions-base-100000",)),
    ],
)
def test_a_way_of_tutorials_is_read(candidate, module, name, ids):
    found = diagnose(candidate(module, name))
    assert found.ids == ids
    assert bool(found.right) == (not ids)


def test_the_output_of_an_encoder_has_many_names():
    from kmha.verify.diagnosing.naming import argument

    names = ("encode_output", "encoder_output", "encoded_outputs", "enc_out", "encodingMemory")
    assert {argument(name) for name in names} == {"memory"}
