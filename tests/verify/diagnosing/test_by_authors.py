"""Candidates in the styles of authors who had not read kmha."""

import pytest

from kmha.verify import diagnose


def test_the_axes_of_a_kernel_tell_what_sizes_are(candidate):
    found = diagnose(candidate("numpy_by_authors", "local"))
    assert (found.verdict, found.errors) == ("right", {}), found
    assert diagnose(candidate("numpy_by_authors", "local_wrong")).ids == ("scale-missing",)


def test_causal_attention_with_linear_biases_is_right(candidate):
    found = diagnose(candidate("numpy_by_authors", "with_biases"))
    assert found.verdict == "right", found
    assert "It is causal without being asked: taken as intended." in str(found)


def test_a_mask_that_is_undefined_in_float64_is_tried_in_float32(candidate):
    found = diagnose(candidate("torch_by_authors", "T5Attention"))
    assert (found.verdict, found.convention.dtype) == ("right", "float32"), found
    assert "padding" in str(found).partition("Not tested")[0] or "masks" in str(found).partition("Not tested")[0]
    untested = [each["says"] for each in found.to_dict()["untested"]]
    assert "`relative_attention_bias.weight` (kmha set it to 0)" in untested


@pytest.mark.parametrize("seed", [0, 1])
def test_a_configuration_that_setup_reads_by_a_shorter_name(candidate, seed):
    assert diagnose(candidate("flax_modules", "OfConfig"), seed=seed).verdict == "right"


def test_a_cache_that_only_a_method_empties_is_tested(candidate):
    found = diagnose(candidate("torch_by_authors", "Chunked"))
    assert found.verdict == "right", found
    assert "Its cache is right" in str(found)
    assert diagnose(candidate("torch_by_authors", "Chunked"), arguments={"wrong": "corner"}).ids == (
        "cache-causal-corner",
    )


def test_heads_of_which_a_part_is_rotated(candidate):
    found = diagnose(candidate("torch_by_authors", "PartlyRotary"))
    assert (found.verdict, found.errors) == ("right", {}), found
    assert "(kmha made `rotary_dim` the size of a head)" in str(found).replace("\n", " ")
