import numpy as np
import pytest

from kmha.verify.diagnosing import forms

SIZES = {"H": 2, "I": 7, "O": 5, "E": 11}
LETTERS = {
    forms.KERNELS: "HIO",
    forms.BIASES: "HO",
    forms.OUTPUT_KERNELS: "HOE",
    forms.OUTPUT_BIASES: "E",
    forms.PACKED: "3HIO",
    forms.PACKED_BIASES: "3HO",
}


def _canonical(letters):
    shape = [3 if letter == "3" else SIZES[letter] for letter in letters]
    return np.arange(np.prod(shape)).reshape(shape)


@pytest.mark.parametrize(("form", "letters"), [(form, letters) for all_, letters in LETTERS.items() for form in all_])
def test_there_and_back(form, letters):
    canonical = _canonical(letters)
    there = forms.fill(canonical, letters, form)
    assert there.shape == forms.shape(form, SIZES)
    np.testing.assert_array_equal(forms.read(there, letters, form, SIZES), canonical)


def test_a_dense_kernel_has_the_heads_side_by_side():
    canonical = _canonical("HIO")
    dense = forms.fill(canonical, "HIO", "I,HO")
    np.testing.assert_array_equal(dense, np.concatenate(list(canonical), axis=1))
    np.testing.assert_array_equal(forms.fill(canonical, "HIO", "HO,I"), dense.T)


def test_packed_is_query_then_key_then_value():
    packed = _canonical("3HIO")
    dense = forms.fill(packed, "3HIO", "I,3HO")
    np.testing.assert_array_equal(dense[:, 10:20], forms.fill(packed[1], "HIO", "I,HO"))


def test_only_what_fits():
    assert forms.fitting((7, 10), forms.KERNELS, SIZES) == ["I,HO"]
    assert forms.fitting((10, 7), forms.KERNELS, SIZES) == ["HO,I"]
    assert forms.fitting((7, 11), forms.KERNELS, SIZES) == []


@pytest.mark.parametrize(
    ("role", "is_bias", "found"),
    [
        ("query", False, forms.KERNELS),
        ("value", True, forms.BIASES),
        ("attention_output", False, forms.OUTPUT_KERNELS),
        ("attention_output", True, forms.OUTPUT_BIASES),
        ("packed", False, forms.PACKED),
        ("packed", True, forms.PACKED_BIASES),
    ],
)
def test_the_forms_of_a_part(role, is_bias, found):
    assert forms.names(role, is_bias)[: len(found)] == found
