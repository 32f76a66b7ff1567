import functools

import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing import report
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.mistakes import BANK

RIGHT = [
    ("arrays", "core", "(B, H, P, O)"),
    ("arrays", "of_three_axes", "(B, P, I)"),
    ("arrays", "of_one_item", "(P, I)"),
    ("arrays", "of_heads_in_the_middle", "(B, P, H, O)"),
    ("arrays", "of_methods", "(B, H, P, O)"),
    ("arrays", "dictionary", "(B, H, P, O)"),
    ("arrays", "with_matrices", "(B, P, I)"),
    ("arrays", "with_biases", "(B, P, I)"),
    ("arrays", "with_einsum", "(B, P, I)"),
    ("arrays", "packed", "(B, P, I)"),
    ("arrays", "one_matrix_each", "(P, I)"),
    ("arrays", "no_kernels", "(B, P, I)"),
    ("arrays", "nan_rows", "(B, H, P, O)"),
    ("jax_functions", "core", "(B, H, P, O)"),
    ("torch_modules", "core", "(B, H, P, O)"),
]
WRONG = [
    ("arrays", "strict", "causal-strict"),
    ("arrays", "backwards", "causal-reversed"),
    ("arrays", "in_place", "input-changed"),
    ("arrays", "mask_after", "mask-after-softmax"),
    ("arrays", "over_heads", "softmax-over-heads"),
    ("arrays", "exp_two", "softmax-base-two"),
    ("arrays", "not_joined", "merge-not-transposed"),
    ("arrays", "pair_of_core", "mask-inverted scale-without-root"),
    ("jax_functions", "squared", "scale-without-root"),
    ("torch_modules", "keys_mixed", "mix-key"),
]


@pytest.mark.parametrize(("module", "name", "entry"), RIGHT)
def test_a_right_function_is_not_accused(candidate, module, name, entry):
    found = diagnose(candidate(module, name))
    assert found.right, found.ids
    assert found.errors == {}
    assert len(found.results) >= 2
    assert found.convention.entry == entry


@pytest.mark.parametrize(("module", "name", "ids"), WRONG)
def test_a_mistake_is_named(candidate, module, name, ids):
    assert sorted(diagnose(candidate(module, name), mask="attends").ids) == ids.split()


def test_an_exponential_that_overflows_is_told_but_is_no_mistake(candidate):
    found = diagnose(candidate("arrays", "overflowing"))
    assert (found.right, found.ids) == (True, ("softmax-overflow",))
    assert BANK["softmax-overflow"].says in report.remarks(found)


def test_a_mask_that_hides_may_be_meant(candidate):
    found = diagnose(candidate("arrays", "pair_of_core"))
    assert found.ids == ("scale-without-root",)
    assert found.convention.mask_meaning == "hides"


@pytest.mark.tensorflow
def test_functions_of_tensorflow(candidate):
    found = diagnose(candidate("arrays", "of_tensorflow"), mask="hides")
    assert found.right, found.ids
    assert found.convention.dtype == "float32"  # the root is taken in it
    assert "mask-inverted" in diagnose(candidate("arrays", "of_tensorflow"), mask="attends").ids
    found = diagnose(candidate("arrays", "pair_of_core"), mask="attends")
    assert sorted(found.ids) == ["mask-inverted", "scale-without-root"]


def test_additive_mask(candidate):
    assert diagnose(candidate("arrays", "added"), mask="adds").right
    assert diagnose(candidate("arrays", "added"), mask="attends").ids == ("mask-added-ones",)
    assert diagnose(candidate("arrays", "added")).right


def test_function_that_runs_with_an_axis_of_heads_but_is_not_meant_for_it(candidate):
    found = diagnose(candidate("arrays", "flattened"))
    assert found.right
    assert (found.convention.entry, found.wrong_layout) == ("(B, P, I)", "(B, H, P, O)")


def test_two_explanations_of_one_function(candidate):
    """In self-attention without biases, using the key's kernel for the value is the same as mixing the keys."""
    found = diagnose(candidate("arrays", "kernel_for_two"))
    assert {match.ids for match in found.matches} == {("kernels-key-for-value",), ("mix-key",)}


def test_arguments_may_be_given(candidate):
    assert diagnose(candidate("arrays", "other_name"), arguments={"colour": "red"}).right
    assert diagnose(functools.partial(candidate("arrays", "other_name"), colour="red")).right
    heads = diagnose(candidate("arrays", "with_matrices"), arguments={"num_heads": 5})
    assert heads.right
    assert heads.sizes.heads == 5


def test_callable_object(candidate):
    core = candidate("arrays", "core")

    class Caller:
        def __call__(self, query, key, value):
            return core(query, key, value)[0]

    assert diagnose(Caller()).right
    assert diagnose(lambda q, k, v: 2 * core(q, k, v)[0]).verdict == "unknown"


def test_a_position_only_argument():
    def attention(q, k, v, /):
        logits = q @ np.swapaxes(k, -1, -2) / k.shape[-1] ** 0.5
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v

    assert diagnose(attention).right


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (lambda q, k, v: 0, {"colour": 1}, r"has no argument `colour`. It has: q, k, v\."),
        (lambda a=1: 0, {}, r"no argument for its input. Expected names such as `query, key, value` or `x`.*: a\."),
        (lambda: 0, {}, r"Received: no arguments\."),
        (lambda x, w_q, w_k, heads: 0, {}, r"has weights, but none for value. Expected names such as w_q"),
        (max, {}, r"has no signature that Python can read"),
    ],
)
def test_errors_teach(function, arguments, message):
    with pytest.raises(CandidateError, match=message):
        diagnose(function, arguments=arguments)


def test_a_function_without_a_signature():
    with pytest.raises(CandidateError, match=r"has no signature that Python can read. Wrap it in a function"):
        FunctionCandidate(iter, "f", {})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "TypeError: expected an array, or a tuple (output, scores). Received: None."),
        ("text", "TypeError: expected an array, or a tuple (output, scores). Received: 'attention'."),
        ("nested", "TypeError: expected an array, or a tuple (output, scores). Received: tuple."),
        ("leaves", "SystemExit: 3"),
        ("fails", "KeyError: 'weights'"),
    ],
)
def test_candidate_that_returns_no_array_cannot_be_run(candidate, name, message):
    found = diagnose(candidate("arrays", name))
    assert found.verdict == "raises"
    assert set(found.errors.values()) == {message}
    assert found.code() == ""


@pytest.mark.parametrize(("factor", "sentence"), [(np.nan, "of its"), (np.inf, "are NaN or infinite")])
def test_output_without_numbers_is_not_a_pair_of_mistakes(factor, sentence):
    found = diagnose(lambda q, k, v: np.full_like(q, factor))
    assert found.verdict == "unknown", found.ids
    assert sentence in found.clue.pattern[0]


def test_constant_output_is_not_a_pair_of_mistakes():
    assert diagnose(lambda q, k, v: np.zeros_like(q)).ids == ("output-constant",)


def test_prints_of_the_candidate_go_to_stderr(candidate, capsys):
    assert diagnose(candidate("arrays", "prints")).right
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "printed by the candidate" in captured.err
