import keras
import numpy as np
import pytest
from keras import ops

import kmha
from kmha.layers import masking
from kmha.verify import Case, compare, expect, run
from kmha.verify.comparing.comparison import builtin_gap, builtin_is_fused, measured, modes
from kmha.verify.comparing.report import AS_THE_BUILTIN
from kmha.verify.comparing.running import WIDEST

pytestmark = pytest.mark.sampled(3)

WIDE = WIDEST[keras.backend.backend()]


class NoScale(kmha.MultiHeadAttention):
    """Forgets 1/√O."""

    def _compute_attention(self, query, *args, **kwargs):
        return super()._compute_attention(query * self.key_dim**0.5, *args, **kwargs)


class ForgetsTheWindow(kmha.MultiHeadAttention):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._sliding_window = None


class RaisesOnGates(keras.layers.MultiHeadAttention):
    def __init__(self, *args, use_gate=False, **kwargs):
        if use_gate:
            raise NotImplementedError("no gates here")
        super().__init__(*args, **kwargs)


class StopsTheGradient(kmha.MultiHeadAttention):
    def _compute_attention(self, query, key, value, *args, **kwargs):
        return super()._compute_attention(query, ops.stop_gradient(key), value, *args, **kwargs)


class OddWeights(keras.layers.MultiHeadAttention):
    def build(self, *shapes):
        super().build(*shapes)
        self._tracker.unlock()
        self.extra = self.add_weight(shape=(3,))


class ReturnsNaN(kmha.MultiHeadAttention):
    def __call__(self, *args, **kwargs):
        output = super().__call__(*args, **kwargs)
        return output * np.nan if not isinstance(output, tuple) else (output[0] * np.nan, output[1])


@pytest.mark.slow
@pytest.mark.tensorflow
def test_ours_agrees_in_every_mode():
    report = compare(kmha.MultiHeadAttention, 16, seed=5, xla=True)
    assert report.agrees, report.failures[0]
    assert report.cases == 16
    assert report.smallest is None
    assert report.code() == ""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_ours_agrees_in_every_dtype(dtype):
    report = compare(kmha.MultiHeadAttention, 4, seed=6, dtype=dtype)
    assert report.agrees, report.failures[0]


@pytest.mark.tensorflow
def test_the_built_in_agrees_with_itself():
    """The weights are matched in the built-in's own layout."""
    plain = [Case(seed=seed) for seed in range(3)]
    assert compare(keras.layers.MultiHeadAttention, plain).agrees


@pytest.mark.sampled(9)
@pytest.mark.parametrize("wrong", [NoScale, ForgetsTheWindow, RaisesOnGates, StopsTheGradient, OddWeights, ReturnsNaN])
def test_what_is_wrong_is_found_and_shrunk(wrong):
    case = Case(
        seed=3,
        dtype=WIDE,
        widths=(6, 8, 9),
        use_gate=True,
        sliding_window=2,
        use_causal_mask=True,
        mask="BTS",
        return_scores=True,
        value_dim=10,
    )
    report = compare(wrong, [case])
    assert not report.agrees
    smallest = report.smallest
    assert smallest.value_dim is None
    assert not smallest.return_scores
    assert smallest.mask == ""
    assert (smallest.sliding_window is not None) == (wrong is ForgetsTheWindow)
    assert smallest.use_gate == (wrong is RaisesOnGates)
    assert report.smallest_failures
    if wrong is ReturnsNaN:
        assert all(found.result == "output" or found.result.startswith("d ") for found in report.failures)
    if wrong is RaisesOnGates:
        assert "NotImplementedError: no gates here" in report.failures[0].said
    if wrong is OddWeights:
        assert "match neither layout" in report.failures[0].said
    if wrong is StopsTheGradient:  # that of the key bias is zero in any case
        assert {found.result for found in report.failures} == {"d key", "d key/kernel"}


def test_the_code_of_the_smallest_case_runs(capsys):
    report = compare(NoScale, [Case(seed=3, dtype=WIDE)])
    code = report.code().replace(f"from {NoScale.__module__} import NoScale\n", "")
    exec(code, {"NoScale": NoScale})  # noqa: S102 - our own code, which a user is asked to paste
    printed = capsys.readouterr().out
    assert printed.startswith("reference [[[")
    assert "\nbuilt-in [[[" in printed
    assert "\nNoScale [[[" in printed


def test_run_and_expect_are_comparable():
    case = Case(dtype=WIDE, return_scores=True)
    assert run(kmha.MultiHeadAttention, case).keys() == expect(case).keys()


def test_ctrl_c_keeps_what_was_done():
    def stop(done, count):
        if done == 2:
            raise KeyboardInterrupt

    report = compare(kmha.MultiHeadAttention, 5, progress=stop)
    assert report.interrupted
    assert report.cases == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"cases": 0}, "positive"), ({"cases": []}, "not empty"), ({"dtype": "int8"}, "dtype must be one of")],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare(kmha.MultiHeadAttention, **arguments)


def test_a_layer_instead_of_a_class():
    with pytest.raises(ValueError, match="layer_class must be a class"):
        compare(kmha.MultiHeadAttention(4, 4))


@pytest.mark.tensorflow
def test_modes():
    assert modes(0, False) == ("eager", "graph", "xla")
    assert modes(1, False) == ("eager", "graph")
    assert modes(1, True) == ("eager", "graph", "xla")


GAPS = [
    Case(paddings=("query_mask",)),
    Case(between=4, axis=2, use_causal_mask=True),
    Case(between=4, axis=1, paddings=("value_mask",)),
    Case(mask="BHTS", paddings=("value_mask",)),
    Case(mask="BTS", between=2, axis=2, paddings=("value_mask",)),
    Case(key_dim=9),
]


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", GAPS)
def test_gaps_are_where_the_built_in_is_wrong(case):
    """In each gap the built-in fails or differs from the reference, and our layer agrees with it."""
    assert builtin_gap(case)
    assert all(
        found.agrees and found.against == "reference" for found in measured(kmha.MultiHeadAttention, case, ["eager"])
    )
    assert any(found.explained for found in measured(keras.layers.MultiHeadAttention, case, ["eager"]))


@pytest.mark.tensorflow
@pytest.mark.parametrize("explicit", [True, False])
def test_rows_without_anything(explicit):
    case = Case(mask="BTS", empty=True, return_scores=explicit)
    assert builtin_is_fused(case) != explicit
    found = measured(kmha.MultiHeadAttention, case, ["eager"])
    assert {one.against for one in found} == {"built-in", "reference"}
    assert all(one.agrees for one in found)


class Twin(keras.layers.MultiHeadAttention):
    """The built-in under another name, errors and all."""


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", GAPS)
def test_a_layer_with_the_built_in_s_faults_is_explained(case):
    report = compare(Twin, [case])
    assert report.agrees
    assert [row.feature for row in report.table()] == [AS_THE_BUILTIN]


class ComputesInFloat32(kmha.MultiHeadAttention):
    def __call__(self, *args, **kwargs):
        outputs = super().__call__(*args, **kwargs)
        if isinstance(outputs, tuple):
            return tuple(ops.cast(x, "float32") for x in outputs)
        return ops.cast(outputs, "float32")


class ForgetsTheMask(kmha.MultiHeadAttention):
    def __call__(self, *args, **kwargs):
        outputs = super().__call__(*args, **kwargs)
        masking.carry(outputs[0] if isinstance(outputs, tuple) else outputs, None)
        return outputs


class SaysAnotherShape(kmha.MultiHeadAttention):
    def compute_output_spec(self, *args, **kwargs):
        return keras.KerasTensor((1,), self.compute_dtype)


@pytest.mark.parametrize(
    ("wrong", "case", "result"),
    [
        (ComputesInFloat32, Case(dtype="mixed_float16"), "dtype"),
        (ForgetsTheMask, Case(dtype=WIDE, paddings=("+query_mask",)), "mask that the output carries"),
        (SaysAnotherShape, Case(dtype=WIDE), "symbolic shape"),
    ],
)
def test_wrong_metadata_is_found(wrong, case, result):
    found = {found.result for found in compare(wrong, [case]).failures}
    assert result in found
    assert found <= {result, f"symbolic {result}"}


def test_an_interrupted_shrink_keeps_the_report(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("kmha.verify.comparing.comparison.shrink", interrupted)
    report = compare(NoScale, [Case(dtype=WIDE)])
    assert report.interrupted
    assert report.smallest == Case(dtype=WIDE)
    assert not report.agrees


@pytest.mark.slow
def test_the_code_of_a_local_class_imports_nothing():
    class Local(NoScale):
        pass

    assert "import Local" not in compare(Local, [Case(dtype=WIDE)]).code()
