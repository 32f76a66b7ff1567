import numpy as np
import pytest

from kmha.verify.comparing.cases import MASK_SHAPES, MASK_SHAPES_BETWEEN, Case, draw_case, dtype_of


def test_sizes_are_pairwise_different():
    for index in range(300):
        case = draw_case(0, index)
        widths = case.widths[:1] if case.self_attention else filter(None, case.widths)
        columns = () if case.self_attention else case.columns
        others = case.value_dim, case.between, *(case.output_shape or ())
        sizes = [case.batch, case.heads, case.key_dim, *case.rows, *columns, *widths, *filter(None, others)]
        sizes = [size for size in sizes if size != 1]
        assert len(set(sizes)) == len(sizes), case


def test_the_same_seed_draws_the_same_cases():
    assert [draw_case(3, index) for index in range(20)] == [draw_case(3, index) for index in range(20)]
    assert draw_case(3, 0) != draw_case(4, 0)


def test_the_whole_argument_space_is_drawn():
    many = [draw_case(0, index) for index in range(1000)]
    cases = many[:200]
    for name in ("value_dim", "output_shape", "sliding_window", "mask", "paddings", "between"):
        assert 10 < sum(bool(getattr(case, name)) for case in cases) < 190, name
    for name in ("use_bias", "use_gate", "use_causal_mask", "return_scores", "training", "self_attention"):
        assert {getattr(case, name) for case in cases} == {True, False}
    assert {case.mask for case in cases if not case.between} == {"", *MASK_SHAPES}
    assert {case.mask for case in many if case.between} == {"", *MASK_SHAPES_BETWEEN}
    assert {1} < {case.heads for case in many} & {case.batch for case in many} & {case.rows[0] for case in many}
    assert sum(case.columns == (1,) for case in cases) < 20
    assert {case.negative for case in cases if case.between} == {True, False}
    assert {case.axis for case in cases if case.between} == {1, 2}
    assert any(len(case.rows) > 1 for case in cases)
    assert {name for case in cases for name in case.paddings} == {
        sign + name for sign in ("", "+") for name in ("query_mask", "value_mask", "key_mask")
    }
    assert {dtype_of(index, "float64") for index in range(8)} == {
        "float64",
        "float32",
        "mixed_float16",
        "mixed_bfloat16",
    }


SHAPES = [(mask, shape) for mask in MASK_SHAPES for shape in ({}, {"rows": (3, 4), "columns": (5, 1)})]
SHAPES += [(mask, {"between": 4, "axis": axis}) for mask in MASK_SHAPES_BETWEEN for axis in (1, 2)]


@pytest.mark.parametrize(("mask", "shape"), SHAPES)
def test_mask_shapes_broadcast_to_the_scores(mask, shape):
    case = Case(mask=mask, **shape)
    array = case.masks()["attention_mask"]
    between = (case.between,) if case.between else ()
    full = (case.batch, *between, case.heads, *case.rows, *case.columns)
    positions = len(case.rows) + len(case.columns)
    while array.ndim < len(full):
        array = np.expand_dims(array, array.ndim - positions)
    assert np.broadcast_shapes(array.shape, full) == full


def test_arguments_leave_out_defaults():
    assert Case().arguments() == {"num_heads": 7, "key_dim": 4, "dtype": "float64"}
    assert Case(dropout=0.1, seed=5, between=2).arguments()["seed"] == 5


def test_inputs_are_numbers_of_the_compute_dtype():
    case = Case(dtype="mixed_float16")
    for array in (*case.inputs().values(), *case.weights().values(), case.upstream()):
        assert np.array_equal(array.astype("float16").astype("float64"), array)
