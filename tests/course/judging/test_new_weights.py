import numpy as np
import pytest

from kmha.course.judging import right_weights

RIGHT = {
    "kernel": (2, 3, 5),
    "bias": (5,),
    "order": [(2, 3, 5), (5,)],
    "dtypes": {"float64": ["float64"] * 3, "mixed_float16": ["float32", "float32", "float16"]},
    "trainable": [2, 1],
    "bias at the start": np.zeros(5),
    "without a bias": None,
    "the sum without a bias": True,
    "name": "named",
    "kernel as from glorot_uniform": True,
    "kernel varies at the start": True,
    "kernel has both signs at the start": True,
    "every kernel starts from its own numbers": True,
}


def test_right_weights_have_no_problem():
    assert right_weights({}, RIGHT, RIGHT) is None


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("kernel", (6, 5), "`kernel` has the shape (6, 5), expected (2, 3, 5)."),
        ("bias", (3,), "`bias` has the shape (3,), expected (5,)."),
        ("order", [(5,), (2, 3, 5)], "not the kernel and then the bias"),
        (
            "dtypes",
            {"float64": ["float64"] * 3, "mixed_float16": ["float16"] * 3},
            "in a layer of mixed_float16 its weights are float16 and float16, and its result is float16",
        ),
        ("trainable", [2, 2], "without a bias 2 of its weights are trained, expected 1."),
        ("bias at the start", np.ones(5), "does not start from zeros"),
        ("without a bias", np.zeros(5), "`bias` is not `None`"),
        ("the sum without a bias", False, "not the product of inputs and kernel"),
        ("name", "other", "does not have the name"),
        ("kernel as from glorot_uniform", False, "larger or smaller than those of `glorot_uniform`"),
        ("kernel varies at the start", False, "nearly the same number"),
        ("kernel has both signs at the start", False, "start with the same sign"),
        ("every kernel starts from its own numbers", False, "two layers start from the same numbers"),
    ],
)
def test_each_difference_is_said(name, value, says):
    assert says in right_weights({}, RIGHT | {name: value}, RIGHT)
