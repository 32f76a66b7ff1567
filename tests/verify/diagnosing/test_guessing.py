import inspect

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import guessing
from kmha.verify.diagnosing.guessing import combinations, guesses, value_of

SIZES = {"T": 3, "O": 4, "I": 8, "H": 2}


def _parameter(annotation):
    return inspect.Parameter("a", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)


@pytest.mark.parametrize(
    ("name", "annotation", "first", "sure"),
    [
        ("device", inspect.Parameter.empty, "'cpu'", True),
        ("layer_idx", inspect.Parameter.empty, "0", True),
        ("q_proj", inspect.Parameter.empty, guessing.PROJECTION, True),
        ("past_key_values", inspect.Parameter.empty, "None", True),
        ("forward_expansion", inspect.Parameter.empty, "2", True),
        ("mlp_ratio", float, "2", True),
        ("colour", bool, "False", False),
        ("colour", int | None, "None", False),
    ],
)
def test_the_first_guess(name, annotation, first, sure):
    found, known = guesses(name, _parameter(annotation))
    assert (found[0], known) == (first, sure)


def test_numbers_that_nothing_else_provides():
    found = list(
        combinations({"taille": _parameter(inspect.Parameter.empty), "tetes": _parameter(int)}, {"width", "heads"})
    )
    assert found[0] == {"taille": "width", "tetes": "heads"}
    assert {"taille": "heads", "tetes": "width"} in found


def test_cosines_and_sines_have_one_shape():
    found = list(combinations({"cos": _parameter(inspect.Parameter.empty), "sin": _parameter(inspect.Parameter.empty)}))
    assert {"cos": "ones (T, O/2)", "sin": "zeros (T, O/2)"} in found
    assert all(each["cos"].partition(" ")[2] == each["sin"].partition(" ")[2] for each in found)


@pytest.mark.parametrize(
    ("text", "value"), [("None", None), ("0", 0), ("0.0", 0.0), ("root", 2.0), ("width", 8), ("'cpu'", "cpu")]
)
def test_values(text, value):
    assert value_of(text, "numpy", SIZES) == value


def test_arrays():
    assert value_of("zeros (T, 1, O/2)", "numpy", SIZES).shape == (3, 1, 2)
    assert np.array_equal(value_of("complex ones (T, O)", "numpy", SIZES), np.ones((3, 4), "complex64"))


def _attend(q, k, v):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def test_a_required_argument_without_a_role():
    def attention(q, k, v, dropout, colour):
        assert colour is not None
        return _attend(q, k, v) * (1 - dropout)

    found = diagnose(attention)
    assert found.right
    assert found.convention.guessed == (("colour", "False"),)


@pytest.mark.parametrize("roles", [{}, {"query": "entree", "key": "cle", "value": "valeur"}])
def test_three_unknown_inputs(roles):
    def attention(entree, cle, valeur):
        return _attend(entree, cle, valeur)

    assert diagnose(attention, roles=roles).right


def test_a_role_may_be_said():
    def attention(eins, zwei, drei, fort=None):
        logits = zwei @ np.swapaxes(eins, -1, -2) / np.sqrt(eins.shape[-1])
        logits = logits if fort is None else np.where(fort, -np.inf, logits)
        powers = np.exp(logits - np.maximum(logits.max(-1, keepdims=True), -1e9))
        return powers / np.maximum(powers.sum(-1, keepdims=True), 1e-9) @ drei

    found = diagnose(attention, roles={"key": "eins", "query": "zwei", "value": "drei", "mask": "hides:fort"})
    assert found.right
    assert found.candidate.accepts.mask
    assert not diagnose(attention, roles={"query": "eins", "key": "zwei", "value": "drei"}).right


@pytest.mark.parametrize("size", [4, 5])
def test_tables_of_rotary_positions(size):
    sizes = {**SIZES, "O": size}
    angles = value_of("angles (T, O/2)", "numpy", sizes, "float64")
    np.testing.assert_allclose(angles[2], 2.0 * 10_000.0 ** (-2.0 * np.arange(size // 2) / size))
    turns = value_of("turns (T, O/2)", "numpy", sizes, "float64")
    np.testing.assert_allclose(turns, np.exp(1j * angles))
    for text, columns in (("sines (1, T, O)", [0, size // 2 + size % 2]), ("sines (1, T, O) in pairs", [0, 1])):
        table = value_of(text, "numpy", sizes, "float64")
        assert table.shape == (1, 3, size)
        for column in columns:
            np.testing.assert_allclose(table[0, :, column], np.sin(angles[:, 0]))
